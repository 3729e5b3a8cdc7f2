"""Structured logs: one JSON object a line on standard error, and no secret in any of them.

Requests are not logged; the spool is the access log. What is logged is what changes: starts, swaps, refusals to swap,
lost and regained connections, failures of tasks and skills.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from typing import Any, Final

import orjson

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRETS: Final = re.compile(
    r"ace_(?:live|test|mgmt)_[0-9A-Za-z]+|sk-[0-9A-Za-z_-]{8,}|sealed:1:[0-9A-Za-z+/=]+"
    r"|(?i:bearer)\s+[^\s\"',]+|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
)


def redact(text: str) -> str:
    """`text` without anything that looks like a key, a bearer token or a password in a URL."""
    return _SECRETS.sub("[redacted]", text)


class JsonFormatter(logging.Formatter):
    def __init__(self, **constant: Any) -> None:
        super().__init__()
        self._constant = constant

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._constant,
        }
        line.update({k: v for k, v in vars(record).items() if k not in _STANDARD})
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        return redact(orjson.dumps(line, default=str).decode())


def configure(level: str = "INFO", **constant: Any) -> None:
    """Send every logger of this process through the JSON formatter."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(**constant))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
