from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from telemetry.watermark import MAX_RANGES, Progress

sequences = st.lists(st.integers(1, 60), max_size=120)


def model(seen: set[int]) -> int:
    mark = 0
    while mark + 1 in seen:
        mark += 1
    return mark


@given(sequences, st.integers(1, 7))
def test_the_mark_is_the_last_sequence_without_a_hole_below(numbers: list[int], step: int) -> None:
    progress = Progress()
    for start in range(0, len(numbers), step):
        progress.add(numbers[start : start + step])
    seen = set(numbers)
    assert progress.mark == model(seen)
    assert [n for n in range(1, 62) if progress.holds(n)] == sorted(seen)


@given(sequences)
def test_ranges_are_sorted_apart_and_above_the_mark(numbers: list[int]) -> None:
    progress = Progress()
    progress.add(numbers)
    edges = [progress.mark - 1, *(edge for pair in progress.ranges for edge in pair)]
    assert edges == sorted(edges)
    for (_, high), (low, _) in zip(
        [(0, progress.mark), *progress.ranges], progress.ranges, strict=False
    ):
        assert low > high + 1


@given(sequences, st.randoms())
def test_order_and_repetition_change_nothing(numbers: list[int], dice: random.Random) -> None:
    straight, shuffled = Progress(), Progress()
    straight.add(numbers)
    again = [*numbers, *numbers[: len(numbers) // 2]]
    dice.shuffle(again)
    for number in again:
        shuffled.add([number])
    assert shuffled == straight


@given(sequences, st.integers(1, 70))
def test_what_a_spool_no_longer_holds_is_not_waited_for(numbers: list[int], base: int) -> None:
    progress = Progress()
    progress.add(numbers)
    seen = set(numbers)
    missing = progress.raise_base(base)
    assert missing == len(set(range(1, base)) - seen)
    assert progress.mark == max(model(seen | set(range(1, base))), 0)


def test_a_spool_full_of_holes_is_remembered_only_so_far() -> None:
    progress = Progress()
    progress.add(range(2, 4 * MAX_RANGES, 2))
    assert len(progress.ranges) == MAX_RANGES
    assert progress.mark == 0
    assert not progress.holds(4 * MAX_RANGES - 2), "the highest are forgotten and come again"
