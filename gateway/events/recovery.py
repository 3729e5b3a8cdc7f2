"""What a worker does first: read its slot's spool and write the end of every request that died with its predecessor.

An open request without an end is charged the input bound and the output seen at the last checkpoint, marked
`interrupted` and `estimated`. The engine may have produced a little more; it cannot have cost less than is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gateway.events.segment import Segment, existing_segments
from telemetry.events import (
    Decisions,
    RequestFinished,
    RequestOpened,
    RequestProgressed,
    decode,
    encode,
)
from telemetry.pricing import Rates, Tokens, billed_microusd

INTERRUPTED_STATUS: Final = 502
log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    segments: list[Segment]
    opened: dict[str, RequestOpened] = field(default_factory=dict)
    """Requests without an end."""
    output_tokens: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0


def read(directory: Path) -> Recovered:
    """The spool as it was left; segments without a whole frame are removed."""
    found = Recovered([])
    for segment in existing_segments(directory):
        for _, payload in segment.frames():
            _note(found, payload)
        if segment.last_seq < segment.base_seq:
            segment.remove()
        else:
            found.segments.append(segment)
    if found.unreadable:
        log.error("spool frames of an unknown form", extra={"frames": found.unreadable})
    return found


def _note(found: Recovered, payload: bytes) -> None:
    try:
        event = decode(payload)
    except msgspec.MsgspecError:
        found.unreadable += 1
        return
    if isinstance(event, RequestOpened):
        found.opened[event.request_id] = event
    elif isinstance(event, RequestProgressed):
        found.output_tokens[event.request_id] = event.output_tokens
    elif isinstance(event, RequestFinished):
        found.opened.pop(event.request_id, None)
        found.output_tokens.pop(event.request_id, None)


def ends(found: Recovered, now_ms: int) -> Iterable[tuple[RequestOpened, RequestFinished]]:
    """The end of each interrupted request, with the opening that says which budgets carry it."""
    for opened in found.opened.values():
        yield opened, interrupted(opened, found.output_tokens.get(opened.request_id, 0), now_ms)


def interrupted(opened: RequestOpened, output_tokens: int, now_ms: int) -> RequestFinished:
    rates = Rates(
        opened.input_microusd_per_mtok,
        opened.output_microusd_per_mtok,
        opened.input_microusd_per_mtok,
    )
    billed = billed_microusd(rates, Tokens(opened.input_tokens_bound, output_tokens))
    return RequestFinished(
        request_id=opened.request_id,
        attempt=1,
        kind="usage",
        tenant_id=opened.tenant_id,
        key_id=opened.key_id,
        model=opened.model,
        pool_id=opened.pool_id,
        endpoint_id=opened.endpoint_id,
        engine="",
        region="",
        opened_at_ms=opened.opened_at_ms,
        finished_at_ms=max(now_ms, opened.opened_at_ms),
        status=INTERRUPTED_STATUS,
        outcome="interrupted",
        error_code="worker_interrupted",
        input_tokens=opened.input_tokens_bound,
        cached_input_tokens=0,
        output_tokens=output_tokens,
        usage_source="estimated",
        hold_microusd=opened.hold_microusd,
        billed_microusd=billed,
        price_id=opened.price_id,
        input_microusd_per_mtok=rates.input,
        output_microusd_per_mtok=rates.output,
        cached_input_microusd_per_mtok=rates.cached_input,
        snapshot_version=opened.snapshot_version,
        policy_revision=0,
        latency_us=max(0, now_ms - opened.opened_at_ms) * 1000,
        first_token_us=0,
        stream=opened.stream,
        decisions=Decisions(),
    )


def close_interrupted(
    found: Recovered,
    record: Callable[[bytes], int],
    charge: Callable[[RequestOpened, int], None],
    now_ms: int,
) -> int:
    """Settle and record every interrupted request; how many.

    Charged before it is recorded: dying between the two charges a budget twice, never not at all.
    """
    count = 0
    for opened, finished in ends(found, now_ms):
        charge(opened, finished.billed_microusd)
        record(encode(finished))
        count += 1
    return count
