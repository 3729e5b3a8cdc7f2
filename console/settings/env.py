"""Reads the environment and fails loudly: a wrong value stops the start with one sentence that names it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

MIN_SECRET_BYTES: Final = 32
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_MAX_PORT: Final = 65_535


def default_settings() -> None:
    """One place says which settings a process gets when nothing else was asked for."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.dev")


def env_text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, "") or default
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set.")
    return value


def env_bool(name: str, *, default: bool) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if not text:
        return default
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {text!r}.")


def env_int(name: str, default: int, *, low: int = 0, high: int = 2**31) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}.") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} must be between {low} and {high}, not {value}.")
    return value


def env_port(name: str, default: int) -> int:
    return env_int(name, default, low=1, high=_MAX_PORT)


def env_path(name: str, default: str) -> Path:
    return Path(env_text(name, default)).expanduser().resolve()


def secret_text(variable: str, file: Path) -> str:
    """The environment wins over the file. Too short is refused: an empty secret is worse than none.

    Raises ImproperlyConfigured when neither stands, with the place where it was looked for.
    """
    value = os.environ.get(variable, "")
    if not value:
        try:
            value = file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(
                f"{variable} is not set and {file} cannot be read ({type(error).__name__}). "
                "`make run` makes the file; elsewhere give 32 random bytes as hex."
            ) from None
    value = value.strip()
    if len(value) < MIN_SECRET_BYTES:
        raise ImproperlyConfigured(f"{variable} is shorter than {MIN_SECRET_BYTES} characters.")
    return value


def secret_bytes(variable: str, file: Path) -> bytes:
    """32 bytes or more, given as hex."""
    text = secret_text(variable, file)
    try:
        value = bytes.fromhex(text)
    except ValueError:
        raise ImproperlyConfigured(f"{variable} must be hex text.") from None
    if len(value) < MIN_SECRET_BYTES:
        raise ImproperlyConfigured(f"{variable} must hold {MIN_SECRET_BYTES} bytes or more.")
    return value


def database(url: str) -> dict[str, Any]:
    """Django's settings for `postgresql://user:password@host:port/name`.

    A socket directory stands in the query, as libpq spells it (`?host=/run/postgresql`), or percent-encoded as host.
    Every other query parameter goes to libpq (`sslmode`, `connect_timeout` …).
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            "DATABASE_URL must begin with postgresql://; ACE needs PostgreSQL."
        )
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    name = unquote(parts.path.lstrip("/")) or options.pop("dbname", "")
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no database.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": options.pop("user", "") or unquote(parts.username or ""),
        "PASSWORD": options.pop("password", "") or unquote(parts.password or ""),
        "HOST": options.pop("host", "") or unquote(_raw_host(parts)),
        "PORT": options.pop("port", "") or str(_port(parts) or ""),
        "OPTIONS": options,
    }


def celery_broker(redis_url: str) -> str:
    """Celery spells a Redis socket `redis+socket://`; the rest of the product says `unix://`."""
    parts = urlsplit(redis_url)
    if parts.scheme in {"redis", "rediss"}:
        return redis_url
    if parts.scheme != "unix" or not parts.path:
        raise ImproperlyConfigured("REDIS_URL must begin with redis://, rediss:// or unix:///.")
    number = parse_qs(parts.query).get("db", ["0"])[-1]
    return f"redis+socket://{parts.path}?virtual_host={number}"


def _raw_host(parts: SplitResult) -> str:
    """`SplitResult.hostname` lower-cases, which would spoil a socket directory."""
    host = parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1 : host.find("]")]
    return host.partition(":")[0]


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise ImproperlyConfigured("DATABASE_URL has a port that is no number.") from None
