"""The operator file: what only somebody with a shell may allow. The console can read it and never write it.

allowed_networks: [10.20.0.0/16, 127.0.0.0/8]   # private networks in which providers may live
allowed_hosts: [ace.example.com]                # Host names under which the console answers
allowed_ports: [443, 8443]                      # ports of providers outside those networks
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PUBLIC_PORTS: Final = (443, 8443)
_FIELDS: Final = frozenset({"allowed_networks", "allowed_hosts", "allowed_ports"})


@dataclass(frozen=True, slots=True)
class Operator:
    allowed_networks: tuple[Network, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_ports: tuple[int, ...] = PUBLIC_PORTS


def load_operator(file: str) -> Operator:
    """Without a file nothing private is allowed. A broken file stops the start; guessing would open a door."""
    if not file:
        return Operator()
    document = _read(Path(file))
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise ImproperlyConfigured(f"Operator file {file}: unknown field {unknown[0]!r}.")
    return Operator(
        allowed_networks=tuple(
            _network(file, text) for text in _list(file, document, "allowed_networks")
        ),
        allowed_hosts=tuple(str(text) for text in _list(file, document, "allowed_hosts")),
        allowed_ports=tuple(int(port) for port in _list(file, document, "allowed_ports"))
        or PUBLIC_PORTS,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImproperlyConfigured(f"Operator file {path} cannot be read: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ImproperlyConfigured(f"Operator file {path} must be a mapping.")
    return document


def _list(file: str, document: dict[str, Any], field: str) -> list[Any]:
    value = document.get(field, [])
    if not isinstance(value, list):
        raise ImproperlyConfigured(f"Operator file {file}: {field} must be a list.")
    return value


def _network(file: str, text: object) -> Network:
    try:
        return ipaddress.ip_network(str(text))
    except ValueError as error:
        raise ImproperlyConfigured(f"Operator file {file}: {error}.") from None
