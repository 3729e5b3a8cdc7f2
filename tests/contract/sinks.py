"""A sink that writes down what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.upstream.transport import UpstreamError


class RecordingSink:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.sizes: list[int] = []
        self.error: UpstreamError | None = None
        self.calls: list[str] = []
        self.over = asyncio.Event()
        self.first = asyncio.Event()

    def on_unary(self, status: int, headers: Mapping[bytes, bytes], body: bytes, /) -> None:
        self.calls.append("unary")
        self.status, self.headers, self.body = status, dict(headers), body
        self.over.set()

    def on_stream_start(self, status: int, headers: Mapping[bytes, bytes], /) -> None:
        self.calls.append("start")
        self.status, self.headers = status, dict(headers)

    def on_stream_data(self, data: bytes, /) -> None:
        self.body += data
        self.sizes.append(len(data))
        self.first.set()

    def on_stream_end(self) -> None:
        self.calls.append("end")
        self.over.set()

    def on_error(self, error: UpstreamError, /) -> None:
        self.calls.append("error")
        self.error = error
        self.over.set()
