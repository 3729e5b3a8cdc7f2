"""Continuous batching and the prefix cache, on a clock that the test moves."""

from __future__ import annotations

from random import Random

from tests.fakes.engine.blocks import BlockPool, StoredBlocks
from tests.fakes.engine.options import Limits, Timing
from tests.fakes.engine.scheduler import Scheduler, Sequence


class Listener:
    def __init__(self) -> None:
        self.found = -1
        self.tokens = 0
        self.over = False

    def started(self, found_tokens: int) -> None:
        self.found = found_tokens

    def produced(self, tokens: int) -> None:
        self.tokens += tokens

    def ended_now(self) -> None:
        self.over = True


def make_pool(blocks: int = 100) -> tuple[BlockPool, list[StoredBlocks], list[int]]:
    stored: list[StoredBlocks] = []
    removed: list[int] = []
    return BlockPool(blocks, 16, "salt", stored.append, removed.extend), stored, removed


def make_scheduler(timing: Timing = Timing(), limits: Limits = Limits()) -> Scheduler:  # noqa: B008
    return Scheduler(timing, limits, make_pool(limits.num_blocks)[0], Random(1))


def submit(
    scheduler: Scheduler,
    prompt: int = 10,
    answer: int = 5,
    at: float = 0.0,
    adapter: str | None = None,
) -> tuple[Sequence, Listener]:
    listener = Listener()
    sequence = Sequence(
        list(range(prompt)), list(range(answer)), listener, adapter=adapter, salt=""
    )
    scheduler.submit(sequence, at)
    return sequence, listener


def test_an_instant_engine_finishes_in_one_look() -> None:
    scheduler = make_scheduler()
    _, heard = submit(scheduler)
    scheduler.advance(0.0)
    assert (heard.tokens, heard.over) == (5, True)
    assert scheduler.next_due() is None


def test_prefill_and_decode_take_the_time_of_their_tokens() -> None:
    scheduler = make_scheduler(Timing(prefill_tokens_per_s=1000, decode_tokens_per_s=100))
    _, heard = submit(scheduler, prompt=500, answer=3)
    scheduler.advance(0.509)
    assert heard.tokens == 0
    scheduler.advance(0.511)
    assert heard.tokens == 1
    scheduler.advance(0.531)
    assert (heard.tokens, heard.over) == (3, True)


def test_the_first_token_never_comes_before_the_floor() -> None:
    scheduler = make_scheduler(Timing(ttft_floor_ms=200))
    _, heard = submit(scheduler)
    scheduler.advance(0.199)
    assert heard.tokens == 0
    scheduler.advance(0.2)
    assert heard.over


def test_more_running_sequences_make_each_step_longer() -> None:
    scheduler = make_scheduler(Timing(decode_tokens_per_s=100, batch_penalty_ms=10))
    heard = [submit(scheduler, answer=10)[1] for _ in range(3)]
    scheduler.advance(0.0901)
    assert [h.tokens for h in heard] == [3, 3, 3]


def test_sequences_above_the_batch_limit_wait_their_turn() -> None:
    scheduler = make_scheduler(
        Timing(decode_tokens_per_s=100), Limits(max_num_seqs=1, max_queued=1)
    )
    _, first = submit(scheduler, answer=2)
    _, second = submit(scheduler, answer=2)
    scheduler.advance(0.0)
    assert (len(scheduler.running), len(scheduler.waiting), scheduler.full) == (1, 1, True)
    scheduler.advance(0.021)
    assert first.over
    assert not scheduler.full
    scheduler.advance(0.05)
    assert second.over


def test_a_second_adapter_is_held_back_while_the_only_slot_is_taken() -> None:
    scheduler = make_scheduler(Timing(decode_tokens_per_s=100), Limits(max_loras=1))
    submit(scheduler, adapter="a")
    _, other = submit(scheduler, adapter="b")
    _, plain = submit(scheduler)
    scheduler.advance(0.011)
    assert (other.tokens, plain.tokens, scheduler.deferred) == (0, 1, 1)
    scheduler.advance(0.2)
    assert other.over


def test_a_cancelled_sequence_stops_at_once_and_gives_its_blocks_back() -> None:
    scheduler = make_scheduler(Timing(decode_tokens_per_s=100))
    sequence, heard = submit(scheduler, prompt=100, answer=100)
    scheduler.advance(0.05)
    so_far = heard.tokens
    assert 0 < so_far < 100
    assert scheduler.pool.used_blocks > 0
    scheduler.cancel(sequence)
    scheduler.advance(5.0)
    assert heard.tokens == so_far
    assert scheduler.pool.used_blocks == 0


def test_a_repeated_prefix_is_found_in_the_cache_up_to_its_last_whole_block() -> None:
    pool, stored, _ = make_pool()
    prompt = list(range(40))
    first = pool.take(prompt, 0, "", None)
    assert first is not None
    assert first.found_tokens == 0
    assert (len(stored[0].hashes), stored[0].parent, stored[0].tokens) == (2, None, prompt[:32])
    pool.release(first, prompt)
    again = pool.take(prompt, 0, "", None)
    assert again is not None
    assert again.found_tokens == 32


def test_a_wholly_cached_prompt_still_computes_one_token() -> None:
    pool, _, _ = make_pool()
    prompt = list(range(32))
    first = pool.take(prompt, 0, "", None)
    assert first is not None
    pool.release(first, prompt)
    again = pool.take(prompt, 0, "", None)
    assert again is not None
    assert again.found_tokens == 16


def test_salts_and_adapters_do_not_share_blocks() -> None:
    pool, _, _ = make_pool()
    prompt = list(range(64))
    for salt, lora in (("", None), ("tenant", None), ("", "adapter")):
        hold = pool.take(prompt, 0, salt, lora)
        assert hold is not None
        assert hold.found_tokens == 0
        pool.release(hold, prompt)


def test_the_least_recently_used_blocks_make_room_and_are_reported() -> None:
    pool, stored, removed = make_pool(blocks=4)
    old, new = list(range(32)), list(range(100, 148))
    for prompt in (old, new):
        hold = pool.take(prompt, 0, "", None)
        assert hold is not None
        pool.release(hold, prompt)
    assert removed == [stored[0].hashes[1]]
    assert pool.used_blocks + pool.cached_blocks == 4


def test_blocks_in_use_are_never_evicted_so_a_further_request_must_wait() -> None:
    pool, _, removed = make_pool(blocks=4)
    assert pool.take(list(range(32)), 16, "", None) is not None
    assert pool.take(list(range(100, 132)), 0, "", None) is None
    assert removed == []


def test_two_engines_name_the_same_blocks_differently() -> None:
    one, other = make_pool()[0], BlockPool(10, 16, "another", lambda _: None, lambda _: None)
    assert one.chain(list(range(16)), "", None) != other.chain(list(range(16)), "", None)
