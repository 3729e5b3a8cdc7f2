from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
import redis
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.template.loader import get_template
from django.utils import timezone
from msgspec import structs

from console.accounts.models import User
from console.fleet.live import REGIONS, access_of, current_frame, render_regions
from telemetry.board import Board, seen_from_event
from telemetry.consumers import SocketWatcher
from telemetry.events import Finding
from telemetry.hub import Drawing
from telemetry.ledger import write_findings
from telemetry.state import LIVE_KEY, Access, LiveFrame, LiveState, NodeLive, encode_state
from tests.telemetry.factories import NOON_MS, finished, refused

pytestmark = [pytest.mark.django_db, pytest.mark.enable_socket]
ADMIN = Access(None, frozenset({"requests", "fleet", "workers"}))


@pytest.fixture
def valkey() -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


def state_after(board: Board, seq: int, **more: Any) -> LiveState:
    at_ms = NOON_MS + seq * 1000
    return LiveState("epoch", seq, at_ms, board.panel(at_ms // 1000), **more)


def test_admins_see_all_finance_no_requests_and_developers_their_own() -> None:
    admin = User.objects.create_user("a", role="admin")
    finance = User.objects.create_user("f", role="finance")
    developer = User.objects.create_user("d", role="developer")
    assert access_of(admin) == ADMIN
    assert access_of(finance) == Access(None, frozenset())
    assert access_of(developer) == Access(frozenset(), frozenset({"requests"}))
    with pytest.raises(PermissionDenied):
        access_of(AnonymousUser())


def test_regions_beyond_ones_rights_are_not_even_drawn() -> None:
    board = Board()
    board.add(seen_from_event(finished()))
    state = state_after(board, 1)
    assert set(render_regions(LiveFrame(state, state.panel, ADMIN))) == set(REGIONS)
    finance = render_regions(LiveFrame(state, state.panel, Access(None, frozenset())))
    assert set(finance).isdisjoint({"live-findings", "live-gpus", "live-workers", "live-requests"})
    assert "req_1" not in "".join(finance.values())


def test_findings_are_shown_to_those_who_look_after_the_fleet() -> None:
    finding = Finding("ledger", "price_mismatch", "critical", "req_1", "Billed <b>wrong</b>.", 0)
    now_ms = int(timezone.now().timestamp() * 1000)
    write_findings([structs.replace(finding, at_ms=now_ms)] * 2)
    write_findings([structs.replace(finding, at_ms=now_ms - 2 * 86_400_000, code="old")])
    state = state_after(Board(), 1)
    html = render_regions(LiveFrame(state, state.panel, ADMIN))["live-findings"]
    assert "Critical" in html
    assert "Billed &lt;b&gt;wrong" in html
    assert '<td class="n">2</td>' in html
    assert "old" not in html


def test_text_of_strangers_is_escaped_and_made_visible() -> None:
    board = Board()
    board.add(seen_from_event(finished(model='<img src=x onerror="x">')))
    board.add(seen_from_event(refused(code="\u202ebad")))
    state = state_after(board, 1)
    html = "".join(render_regions(LiveFrame(state, state.panel, ADMIN)).values())
    assert "<img" not in html
    assert "\u202e" not in html


def test_no_region_breaks_the_content_security_policy() -> None:
    board = Board()
    board.add(seen_from_event(finished()))
    state = state_after(board, 1, nodes=(NodeLive("n", NOON_MS, "no_driver", "x", "", 1000),))
    for html in render_regions(LiveFrame(state, state.panel, ADMIN)).values():
        assert not re.search(r"\sstyle=|<script|hx-on|js:", html)


def test_without_an_ingest_process_there_is_no_frame(valkey: redis.Redis) -> None:
    assert current_frame(ADMIN) is None
    valkey.set(LIVE_KEY, "of another version")
    assert current_frame(ADMIN) is None
    valkey.set(LIVE_KEY, encode_state(state_after(Board(), 3)))
    frame = current_frame(ADMIN)
    assert frame is not None
    assert frame.state.seq == 3


class Tree(HTMLParser):
    """Well-formed enough to be morphed: every element is closed."""

    VOID = frozenset({"img", "input", "br", "hr", "meta", "link", "rect", "line", "path", "use"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_a_stale_page_and_its_messages_are_the_page_reloaded() -> None:
    """What a socket was sent, applied to the page as first drawn, is what a reload draws."""
    watcher: Any = object.__new__(SocketWatcher)
    watcher._sent, watcher._last = {}, ("", 0)
    board, page = Board(), dict.fromkeys(REGIONS, "")
    for seq in (1, 2, 3, 7, 8):
        board.add(seen_from_event(finished(f"r{seq}", finished_at_ms=NOON_MS + seq * 1000 - 1)))
        state = state_after(board, seq, storing=seq != 3)
        frame = LiveFrame(state, state.panel, ADMIN)
        regions = render_regions(frame)
        page |= watcher._changed(Drawing("epoch", seq, frame, regions))
        assert page == regions
    for html in page.values():
        tree = Tree()
        tree.feed(html)
        assert tree.open == []


def test_every_region_of_the_page_is_one_the_socket_fills() -> None:
    text = get_template("console/fleet/live.html").template.source  # type: ignore[attr-defined]
    assert set(re.findall(r'id="(live-[a-z]+)"', text)) - {"live-age", "live-nothing"} == set(
        REGIONS
    )
