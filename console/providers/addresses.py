"""Which addresses a provider may have. Nothing private, unless the operator's file names its network.

The file can be written only with a shell; no page and no API reaches it. A name is judged by every address it has,
and who connects uses the address that was judged.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from console.errors import InputError
from console.settings.operator import Network, Operator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], list[Address]]

MAX_URL: Final = 300
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?")
_NUMBER_LIKE: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PATH: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_METADATA_NAMES: Final = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
_METADATA: Final = tuple(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200")
)
# Ways to write an IPv4 address inside an IPv6 one: what they lead to is not what they look like.
_DISGUISES: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
)
# Services that answer to bytes an HTTP client can be made to send, or that nobody serves a model on.
_SERVICE_PORTS: Final = frozenset(
    {2375, 2376, 2379, 3306, 5432, 6379, 6380, 9200, 10250, 11211, 27017}
)
_LOW_PORTS: Final = frozenset({80, 443})
_FIRST_FREE_PORT: Final = 1024


@dataclass(frozen=True, slots=True)
class BaseURL:
    """A checked base URL, in its one spelling: no trailing slash, no `/v1`."""

    scheme: str
    host: str
    port: int
    path: str
    text: str


def parse(text: str) -> BaseURL:
    """Raises InputError. Only plain spellings pass: what two parsers could read in two ways is refused."""
    if (
        len(text) > MAX_URL
        or not text.isascii()
        or not text.isprintable()
        or re.search(r"[\s\\%]", text)
    ):
        raise _refused("Must be a plain http or https address.")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _refused("Must be a plain http or https address.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refused("Must begin with https:// (or http:// in a network the operator allows).")
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise _refused("Must have no user name, query or fragment.")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    if not _PATH.fullmatch(path):
        raise _refused("Has a path that cannot be used.")
    host = _host(parts.hostname)
    default = 443 if parts.scheme == "https" else 80
    return BaseURL(parts.scheme, host, port or default, path, _text(parts.scheme, host, port, path))


def check(url: BaseURL, addresses: Iterable[Address], operator: Operator) -> None:
    """Raises InputError unless every address may be reached. An unknown name (no address) is held to public rules."""
    addresses = list(addresses)
    inside = [_is_allowed(address, operator) for address in addresses]
    if not all(ok or _is_public(address) for ok, address in zip(inside, addresses, strict=True)):
        raise _refused(
            "Leads into a private network. The operator can allow it in the operator file (allowed_networks).",
            "private_address",
        )
    private = bool(inside) and all(inside)
    if url.scheme == "http" and not private:
        raise _refused("Must be https outside the networks the operator allows.", "https_required")
    if not _port_fits(url.port, operator, private=private):
        raise _refused(f"Port {url.port} is not allowed.", "port_not_allowed")


def resolve(host: str, port: int) -> list[Address]:
    """Every address of the host; none when it is unknown."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


def checked(text: str, operator: Operator, lookup: Resolve = resolve) -> BaseURL:
    """Parse, look up and judge. Raises InputError with pointer `/base_url`."""
    url = parse(text)
    check(url, addresses_of(url, lookup), operator)
    return url


def addresses_of(url: BaseURL, lookup: Resolve = resolve) -> list[Address]:
    literal = _literal(url.host)
    return [literal] if literal is not None else lookup(url.host, url.port)


def _host(host: str) -> str:
    """An IP literal in its one spelling, or a name that no resolver will read as a number."""
    literal = _literal(host)
    if literal is not None:
        return str(literal)
    labels = host.lower().split(".")
    if not all(_LABEL.fullmatch(label) for label in labels) or _NUMBER_LIKE.fullmatch(labels[-1]):
        raise _refused("Is no host name or IP address in its plain spelling.")
    if host.lower() in _METADATA_NAMES:
        raise _refused("Leads to a cloud's metadata service.", "private_address")
    return host.lower()


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _text(scheme: str, host: str, port: int | None, path: str) -> str:
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{place}{'' if port is None else f':{port}'}{path}"


def _is_allowed(address: Address, operator: Operator) -> bool:
    if address in _METADATA or address.is_multicast or address.is_unspecified:
        return False
    return any(
        address in network
        for network in operator.allowed_networks
        if network.version == address.version
    )


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return False
        if any(address in network for network in _DISGUISES):
            return False
    return address.is_global and not address.is_multicast


def _port_fits(port: int, operator: Operator, *, private: bool) -> bool:
    if not private:
        return port in operator.allowed_ports
    if port in _SERVICE_PORTS:
        return False
    return port in _LOW_PORTS or port >= _FIRST_FREE_PORT or port in operator.allowed_ports


def _refused(message: str, code: str = "invalid_url") -> InputError:
    return InputError.at("/base_url", message, code)
