"""One watcher of the live state a process: hears each beat once, draws it once, hands it to the sockets.

The channel layer says that there is something new; the state itself is read from Redis. A beat that
was lost (a restarted Redis forgets its subscribers) is noticed by the clock, so nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import msgspec
import redis.asyncio
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from redis.exceptions import RedisError

from telemetry.hooks import hooks
from telemetry.sessions import living_sessions
from telemetry.state import (
    LIVE_GROUP,
    LIVE_KEY,
    SCOPE_KEY,
    SCOPES_KEY,
    Access,
    LiveFrame,
    LiveState,
    Panel,
    decode_panel,
    decode_state,
    scope_of,
)

BEAT_S: Final = 1.5
"""Without a word for so long, look at the state itself."""
SESSIONS_S: Final = 2.0
RETRY_S: Final = 0.5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drawing:
    """One state, drawn. Sockets with the same rights share its strings."""

    epoch: str
    seq: int
    frame: LiveFrame
    regions: Mapping[str, str]


class Watcher(Protocol):
    session_key: str
    user_id: str
    access: Access

    def offer(self, drawing: Drawing) -> None:
        """Keep the newest; never waits."""
        ...

    def dismiss(self, code: int) -> None: ...


@dataclass(slots=True)
class LiveHub:
    """Runs while somebody watches. Belongs to one event loop."""

    watchers: set[Watcher] = field(default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _drawn: dict[Access, Drawing] = field(default_factory=dict)
    _checked: float = 0.0

    def join(self, watcher: Watcher) -> None:
        self.watchers.add(watcher)
        self._news.set()
        if not self._tasks:
            loop = asyncio.get_running_loop()
            named: dict[str, Coroutine[Any, Any, None]] = {
                "live-watch": self._watch(),
                "live-listen": self._listen(),
            }
            self._tasks = [loop.create_task(work, name=name) for name, work in named.items()]

    async def leave(self, watcher: Watcher) -> None:
        self.watchers.discard(watcher)
        if self.watchers:
            return
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drawn.clear()

    async def _listen(self) -> None:
        """Beats from the channel layer; one subscription however many sockets there are."""
        layer: Any = get_channel_layer()
        while layer is not None:
            try:
                channel = await layer.new_channel()
                await layer.group_add(LIVE_GROUP, channel)
                while True:
                    await layer.receive(channel)
                    self._news.set()
            except (RedisError, OSError) as error:
                logger.info("no beats from the channel layer, the clock takes over: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _watch(self) -> None:
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0
        )
        try:
            while True:
                await self._wait()
                await self._round(client)
        finally:
            await client.aclose()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(BEAT_S):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _round(self, client: redis.asyncio.Redis) -> None:
        """Whatever is away, the sockets stay: the page itself says how old its figures are."""
        try:
            await self._dismiss_strangers()
            await self._show(client)
        except (RedisError, OSError, DatabaseError, msgspec.MsgspecError) as error:
            logger.warning("the live page waits: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _dismiss_strangers(self) -> None:
        """Who signed out, lost the right or is suspended is shown the door within two seconds."""
        now = time.monotonic()
        if now - self._checked < SESSIONS_S:
            return
        self._checked = now
        watchers = list(self.watchers)
        keys = {watcher.session_key: watcher.user_id for watcher in watchers}
        verdicts = await sync_to_async(_with_fresh_connection)(living_sessions, keys)
        for watcher in watchers:
            verdict = verdicts[watcher.session_key]
            if isinstance(verdict, int):
                watcher.dismiss(verdict)
            else:
                watcher.access = verdict

    async def _show(self, client: redis.asyncio.Redis) -> None:
        kinds = {watcher.access for watcher in self.watchers}
        state, panels = await read_state(client, {access.tenants for access in kinds})
        if state is None:
            return
        for access in kinds:
            drawn = self._drawn.get(access)
            if drawn is None or (drawn.epoch, drawn.seq) != (state.epoch, state.seq):
                panel = panels.get(access.tenants, Panel())
                self._drawn[access] = await draw(LiveFrame(state, panel, access))
        for gone in self._drawn.keys() - kinds:
            del self._drawn[gone]
        for watcher in list(self.watchers):
            if watcher.access in self._drawn:
                watcher.offer(self._drawn[watcher.access])


async def draw(frame: LiveFrame) -> Drawing:
    """Templates run in a thread: the loop belongs to the sockets."""
    regions = await sync_to_async(_with_fresh_connection)(hooks.live_renderer, frame)
    return Drawing(frame.state.epoch, frame.state.seq, frame, regions)


def _with_fresh_connection(work: Any, *arguments: Any) -> Any:
    """No request signals here: a database connection that died must be noticed by hand."""
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        close_old_connections()


async def read_state(
    client: redis.asyncio.Redis, scopes: Iterable[frozenset[str] | None]
) -> tuple[LiveState | None, dict[frozenset[str] | None, Panel]]:
    """The newest state, and the panels of those who may see only some tenants."""
    own = [scope for scope in scopes if scope is not None]
    async with client.pipeline(transaction=False) as pipe:
        pipe.get(LIVE_KEY)
        for scope in own:
            pipe.get(SCOPE_KEY.format(scope=scope_of(scope)))
        if own:
            now_ms = time.time_ns() // 1_000_000
            pipe.zadd(SCOPES_KEY, {scope_of(scope): now_ms for scope in own if scope})
        raw, *rest = await pipe.execute()
    if raw is None:
        return None, {}
    state = decode_state(raw)
    panels: dict[frozenset[str] | None, Panel] = {None: state.panel}
    for scope, found in zip(own, rest, strict=False):
        if found is not None:
            panels[scope] = decode_panel(found)
    return state, panels


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub] = WeakKeyDictionary()


def hub() -> LiveHub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), LiveHub())
