from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from telemetry import consumers, hub, sessions
from telemetry.hooks import Hooks
from telemetry.routing import websocket_urlpatterns
from telemetry.state import LIVE_KEY, Access, LiveFrame, LiveState, Panel, Rates, encode_state
from tests.telemetry.factories import NOON_MS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.enable_socket]
EVERYTHING = Access(None, frozenset({"requests"}))


@pytest.fixture(autouse=True)
def renderer(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    """Regions in a few words, so that a test sees what was sent."""
    rights: dict[str, Access] = {}
    made = Hooks()

    def access(user: Any) -> Access:
        if user.username == "nobody":
            raise PermissionDenied
        return rights.get(user.username, EVERYTHING)

    def render(frame: LiveFrame) -> dict[str, str]:
        return {
            "live-connection": "paused" if frame.paused else f"seq {frame.state.seq}",
            "live-figures": f"{frame.panel.rates.requests:g} requests",
        }

    made.register_live(access, render)
    made.rights = rights  # type: ignore[attr-defined]
    for module in (hub, sessions):
        monkeypatch.setattr(module, "hooks", made)
    monkeypatch.setattr(hub, "BEAT_S", 0.05)
    monkeypatch.setattr(hub, "SESSIONS_S", 0.0)
    monkeypatch.setattr(hub, "RETRY_S", 0.02)
    return made


@pytest.fixture
def live(valkey: redis.Redis) -> Any:
    """Sets the state of Redis as ingest would."""

    def put(seq: int, requests: float = 0.0, epoch: str = "first") -> None:
        panel = Panel(rates=Rates(requests=requests))
        valkey.set(LIVE_KEY, encode_state(LiveState(epoch, seq, NOON_MS, panel)))

    return put


class Page:
    """A browser's socket."""

    def __init__(self, cookie: str, origin: str | None = "http://testserver") -> None:
        headers = [(b"host", b"testserver"), (b"cookie", cookie.encode())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        routes = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
        scope = {"type": "websocket", "path": "/ws/live/", "headers": headers, "subprotocols": []}
        make: Any = ApplicationCommunicator
        self.socket: Any = make(routes, scope)

    async def open(self) -> bool:
        await self.socket.send_input({"type": "websocket.connect"})
        answer = await self.socket.receive_output(timeout=5)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, text: str) -> None:
        await self.socket.send_input({"type": "websocket.receive", "text": text})

    async def leave(self) -> None:
        await self.socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.socket.wait(timeout=5)

    async def message(self) -> str:
        output = await self.socket.receive_output(timeout=5)
        assert output["type"] == "websocket.send", output
        return str(output["text"])

    async def close_code(self) -> int:
        while True:
            output = await self.socket.receive_output(timeout=5)
            if output["type"] == "websocket.close":
                return int(output["code"])

    async def until(self, text: str) -> str:
        while True:
            got = await self.message()
            if text in got:
                return got


def sign_in(username: str = "ada") -> str:
    model: Any = get_user_model()
    user = model.objects.filter(username=username).first()
    user = user or model.objects.create_user(username=username, password="a long password 12")
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())


@pytest.fixture
async def pages() -> AsyncIterator[Any]:
    opened: list[Page] = []

    async def make(username: str = "ada", **options: Any) -> Page:
        page = Page(await sync_to_async(sign_in)(username), **options)
        opened.append(page)
        return page

    yield make
    for page in opened:
        await page.leave()
    assert not hub.hub().watchers


async def test_a_page_gets_everything_first_and_then_what_changed(pages: Any, live: Any) -> None:
    live(1, 1.5)
    page = await pages()
    assert await page.open()
    assert await page.message() == (
        '<div hx-swap-oob="innerMorph:#live-connection">seq 1</div>\n'
        '<div hx-swap-oob="innerMorph:#live-figures">1.5 requests</div>'
    )
    live(2, 1.5)
    assert await page.message() == '<div hx-swap-oob="innerMorph:#live-connection">seq 2</div>'


async def test_one_state_is_one_message(pages: Any, live: Any) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    assert await page.socket.receive_nothing(timeout=0.3)


@pytest.mark.parametrize(("seq", "epoch"), [(7, "first"), (2, "second")])
async def test_after_a_gap_or_another_writer_everything_comes_again(
    pages: Any, live: Any, seq: int, epoch: str
) -> None:
    live(1, 2.0)
    page = await pages()
    await page.open()
    await page.message()
    live(seq, 2.0, epoch)
    assert "2 requests" in await page.message()


async def test_a_page_that_paused_hears_nothing_and_catches_up(pages: Any, live: Any) -> None:
    live(1, 1.0)
    page = await pages()
    await page.open()
    await page.message()
    await page.say('{"action": "pause", "headers": {}}')
    assert "paused" in await page.message()
    live(2, 5.0)
    assert await page.socket.receive_nothing(timeout=0.3)
    await page.say('{"action": "resume"}')
    got = await page.message()
    assert "seq 2" in got
    assert "5 requests" in got


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "http://testserver.evil.example",
        "http://eviltestserver",
        "http://testserver:9999",
        "http://testserver@evil.example",
        "file://testserver",
        "testserver",
        "https://",
        "http://127.0.0.1",
        "",
    ],
)
async def test_a_page_of_another_origin_is_turned_away(pages: Any, origin: str | None) -> None:
    page = await pages(origin=origin)
    assert not await page.open()


async def test_who_is_not_signed_in_is_told_so(live: Any) -> None:
    page = Page("")
    assert await page.open()
    assert await page.close_code() == 4401


async def test_who_may_not_watch_is_told_so(pages: Any) -> None:
    page = await pages("nobody")
    await page.open()
    assert await page.close_code() == 4403


async def test_signing_out_closes_the_socket(pages: Any, live: Any) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    await sync_to_async(Session.objects.all().delete)()
    assert await page.close_code() == 4401


async def test_a_session_that_runs_out_closes_the_socket(pages: Any, live: Any) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    past = timezone.now() - dt.timedelta(seconds=1)
    await sync_to_async(Session.objects.update)(expire_date=past)
    assert await page.close_code() == 4401


async def test_a_changed_password_closes_the_socket(pages: Any, live: Any) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    model: Any = get_user_model()
    await sync_to_async(model.objects.update)(password="!")
    assert await page.close_code() == 4401


async def test_a_right_that_was_taken_away_changes_what_is_sent(
    pages: Any, live: Any, renderer: Any
) -> None:
    live(1, 3.0)
    page = await pages()
    await page.open()
    await page.until("3 requests")
    renderer.rights["ada"] = Access(frozenset({"ten_a"}), frozenset())
    live(2, 3.0)
    await page.until("0 requests")


async def test_somebody_elses_tenants_are_never_shown(
    pages: Any, live: Any, renderer: Any, valkey: redis.Redis
) -> None:
    live(1, 9.0)
    renderer.rights["dev"] = Access(frozenset({"ten_a", "ten_b"}), frozenset())
    page = await pages("dev")
    await page.open()
    assert "0 requests" in await page.message()
    assert valkey.zscore("ace:live:scopes", "ten_a,ten_b") is not None


@pytest.mark.parametrize(
    "message", ["x" * 4000, '{"action": "pause"' + " " * 3000 + "}"], ids=["text", "json"]
)
async def test_a_message_that_is_too_big_closes_the_socket(
    pages: Any, live: Any, message: str
) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.say(message)
    assert await page.close_code() == 1009


@pytest.mark.parametrize("message", ["", "[]", "null", '{"action": 3}', "[" * 2000, '{"a'])
async def test_a_message_without_sense_changes_nothing(pages: Any, live: Any, message: str) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    await page.say(message)
    live(2)
    assert "seq 2" in await page.message()


async def test_one_person_may_open_five_pages(pages: Any, live: Any) -> None:
    live(1)
    opened = [await pages() for _ in range(6)]
    for page in opened[:5]:
        await page.open()
        await page.message()
    await opened[5].open()
    assert await opened[5].close_code() == 4429
    other = await pages("grace")
    await other.open()
    assert "seq 1" in await other.message()


async def test_a_slow_page_gets_the_newest_and_no_queue(
    pages: Any, live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    sent: list[str] = []
    original = consumers.SocketWatcher._send

    async def slow(self: Any, regions: dict[str, str]) -> None:
        await gate.wait()
        sent.append(regions.get("live-connection", ""))
        await original(self, regions)

    monkeypatch.setattr(consumers.SocketWatcher, "_send", slow)
    live(1)
    page = await pages()
    await page.open()
    for seq in range(2, 7):
        await asyncio.sleep(0.12)
        live(seq)
    await asyncio.sleep(0.12)
    gate.set()
    await page.until("seq 6")
    assert sent == ["seq 1", "seq 6"]


async def test_a_page_that_takes_nothing_at_all_is_let_go(
    pages: Any, live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SEND_TIMEOUT_S", 0.1)
    original = consumers.LiveConsumer.send

    async def stuck(self: Any, **message: Any) -> None:
        if "text_data" in message:
            await asyncio.sleep(60)
        await original(self, **message)

    monkeypatch.setattr(consumers.LiveConsumer, "send", stuck)
    live(1)
    page = await pages()
    await page.open()
    assert await page.close_code() == 1013


async def test_sockets_stay_while_redis_is_away_and_go_on_when_it_is_back(
    pages: Any, live: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    live(1)
    page = await pages()
    await page.open()
    await page.message()
    original, away = hub.read_state, [True]

    async def flaky(*arguments: Any) -> Any:
        if away:
            raise redis.exceptions.ConnectionError
        return await original(*arguments)

    monkeypatch.setattr(hub, "read_state", flaky)
    live(2)
    assert await page.socket.receive_nothing(timeout=0.3)
    away.clear()
    assert "seq 2" in await page.message()
    assert os.environ["REDIS_URL"] == settings.REDIS_URL
