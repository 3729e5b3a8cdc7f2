"""`/ws/live/`: one message a second to each socket, holding the regions of the page that changed.

A socket that is slow gets the newest state when it can take it again, never a queue of old ones. After
a gap, a reconnect or a pause it gets every region, so that the page is what a reload would show.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from msgspec import structs

from telemetry.hub import Drawing, LiveHub, draw, hub
from telemetry.sessions import SIGNED_OUT, living_sessions
from telemetry.state import Access

MAX_MESSAGE_CHARS: Final = 2048
MAX_SOCKETS_PER_USER: Final = 5
MAX_SOCKETS: Final = 500
SEND_TIMEOUT_S: Final = 10.0
CONNECTION_REGION: Final = "live-connection"
TOO_BIG: Final = 1009
TOO_MANY: Final = 4429
TOO_SLOW: Final = 1013
"""One of the codes after which htmx connects again."""


class LiveConsumer(AsyncWebsocketConsumer):
    """Needs no channel of its own: the hub of the process listens for all its sockets."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        if not _same_origin(dict(self.scope["headers"])):
            await self.close()  # before accept: the handshake is answered with 403
            return
        await self.accept()
        code = await self._let_in()
        if code:
            await self.close(code)

    async def _let_in(self) -> int:
        """0, or the code with which the door is closed."""
        known: dict[str, Any] = dict(self.scope)
        user, session = known.get("user"), known.get("session")
        if user is None or not user.is_authenticated or session is None:
            return SIGNED_OUT
        key, user_id = str(session.session_key or ""), str(user.pk)
        verdict = await _verdict(key, user_id)
        if isinstance(verdict, int):
            return verdict
        home = hub()
        mine = sum(watcher.user_id == user_id for watcher in home.watchers)
        if mine >= MAX_SOCKETS_PER_USER or len(home.watchers) >= MAX_SOCKETS:
            return TOO_MANY
        self._watcher = SocketWatcher(self, home, key, user_id, verdict)
        home.join(self._watcher)
        return 0

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if bytes_data is not None or text_data is None or len(text_data) > MAX_MESSAGE_CHARS:
            await self.close(TOO_BIG)
            return
        watcher = getattr(self, "_watcher", None)
        if watcher is not None:
            await watcher.obey(_action(text_data))

    async def disconnect(self, code: int) -> None:
        watcher = getattr(self, "_watcher", None)
        if watcher is not None:
            await watcher.stop()


class SocketWatcher:
    """What one socket has been sent, and the newest it has not."""

    def __init__(
        self, socket: LiveConsumer, home: LiveHub, key: str, user_id: str, access: Access
    ) -> None:
        self._socket, self._home = socket, home
        self.session_key, self.user_id, self.access = key, user_id, access
        self._newest: Drawing | None = None
        self._paused = False
        self._sent: dict[str, str] = {}
        self._last: tuple[str, int] = ("", 0)
        self._close_code = 0
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"live-socket-{user_id}")

    # -- called by the hub -------------------------------------------------------------------------

    def offer(self, drawing: Drawing) -> None:
        self._newest = drawing
        self._wake.set()

    def dismiss(self, code: int) -> None:
        self._close_code = code
        self._wake.set()

    # -- called by the socket ----------------------------------------------------------------------

    async def obey(self, action: str) -> None:
        if action not in ("pause", "resume"):
            return
        self._paused = action == "pause"
        if self._paused and self._newest is not None:
            frame = structs.replace(self._newest.frame, paused=True)
            regions = (await draw(frame)).regions
            await self._send({CONNECTION_REGION: regions[CONNECTION_REGION]})
        self._sent.clear()
        self._last = ("", 0)
        self._wake.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._home.leave(self)

    # -- its own task ------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._close_code:
                await self._socket.close(self._close_code)
                return
            drawing = self._newest
            if drawing is None or self._paused or not self._is_new(drawing):
                continue
            try:
                await self._send(self._changed(drawing))
            except TimeoutError:
                await self._socket.close(TOO_SLOW)
                return

    def _is_new(self, drawing: Drawing) -> bool:
        epoch, seq = self._last
        return epoch != drawing.epoch or drawing.seq > seq

    def _changed(self, drawing: Drawing) -> dict[str, str]:
        """Regions that differ from what this socket has; all of them after a gap."""
        if self._last != (drawing.epoch, drawing.seq - 1):
            self._sent.clear()
        self._last = (drawing.epoch, drawing.seq)
        changed = {
            name: html for name, html in drawing.regions.items() if self._sent.get(name) != html
        }
        self._sent.update(changed)
        return changed

    async def _send(self, regions: dict[str, str]) -> None:
        if regions:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.send(text_data=message(regions))


def message(regions: dict[str, str]) -> str:
    """Raw HTML for htmx's ws extension: each part goes into the element of that id, by morphing."""
    return format_html_join(
        "\n",
        '<div hx-swap-oob="innerMorph:#{}">{}</div>',
        ((name, mark_safe(html)) for name, html in regions.items()),  # noqa: S308 - templates made it
    )


def _action(text: str) -> str:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    action = document.get("action") if isinstance(document, dict) else None
    return action if isinstance(action, str) else ""


def _same_origin(headers: dict[bytes, bytes]) -> bool:
    """The page that opens the socket must be ours: same host and port, or a trusted origin.

    The host alone is not enough: another port of the same machine is somebody else.
    """
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    host = headers.get(b"host", b"").decode("latin-1").lower()
    return parts.netloc == host or origin in settings.CSRF_TRUSTED_ORIGINS


async def _verdict(session_key: str, user_id: str) -> Any:
    verdicts = await sync_to_async(living_sessions)({session_key: user_id})
    return verdicts[session_key]
