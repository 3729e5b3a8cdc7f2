from __future__ import annotations

import ipaddress

import pytest

from console.errors import InputError
from console.providers import addresses
from console.providers.addresses import Address
from console.settings.operator import Operator

NOTHING_PRIVATE = Operator()
LOOPBACK = Operator(
    allowed_networks=(ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
)

REFUSED = """
http://8.8.8.8|ftp://8.8.8.8|file:///etc/passwd|gopher://8.8.8.8|//8.8.8.8|8.8.8.8|https://|https:///x|
https://127.0.0.1|https://127.1|https://2130706433|https://0x7f000001|https://0x7f.1|https://0177.0.0.1|
https://017700000001|https://127.0.0.1.|https://localhost|https://LOCALHOST|https://0.0.0.0|https://0|
https://10.0.0.1|https://172.16.0.1|https://192.168.1.1|https://100.64.0.1|https://169.254.169.254|
https://169.254.1.1|https://224.0.0.1|https://255.255.255.255|https://240.0.0.1|https://198.18.0.1|
https://[::1]|https://[::]|https://[fe80::1]|https://[fe80::1%25eth0]|https://[fc00::1]|https://[fd00:ec2::254]|
https://[::ffff:127.0.0.1]|https://[::ffff:8.8.8.8]|https://[64:ff9b::7f00:1]|https://[2002:7f00:1::]|
https://[2001::1]|https://[ff02::1]|https://[::127.0.0.1]|https://metadata.google.internal|https://metadata|
https://user@8.8.8.8|https://user:pw@8.8.8.8|https://8.8.8.8@127.0.0.1|https://8.8.8.8#@127.0.0.1|
https://8.8.8.8?x=1|https://8.8.8.8/?|https://8.8.8.8/#f|https://8.8.8.8\\@127.0.0.1|https:\\\\8.8.8.8|
https://8.8.8.8/a b|https://8.8.8.8/%2e%2e|https://8.8.8.8/../x|https://8.8.8.8/./x|https://8.8.8.8//x|
https://8.8.8.8:22|https://8.8.8.8:25|https://8.8.8.8:6379|https://8.8.8.8:80|https://8.8.8.8:99999|
https://8.8.8.8:x|https://exam\u00adple.com|https://\u24d4xample.com|
https://a..b|https://-a.com|https://a_-.com|https://example.com.|https://rebind.test|https://mixed.test|
https://six.test|http://public.test
"""
URLS = [url.strip() for url in REFUSED.replace("\n", "").split("|") if url.strip()]
URLS += [
    "https://ex\tample.com",
    "https://ex\nample.com",
    "https://8.8.8.8\r\nx: y",
    "https://a" + "a" * 300,
]

NAMES: dict[str, list[str]] = {
    "localhost": ["127.0.0.1", "::1"],
    "rebind.test": ["10.0.0.5"],
    "mixed.test": ["8.8.8.8", "10.0.0.5"],
    "six.test": ["fd00::5"],
    "public.test": ["8.8.4.4"],
    "example.com": ["8.8.4.4"],
}


def lookup(host: str, port: int) -> list[Address]:
    return [ipaddress.ip_address(text) for text in NAMES.get(host, [])]


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(set(URLS)) >= 60


@pytest.mark.parametrize("url", URLS)
def test_it_refuses_what_could_lead_inside(url: str) -> None:
    with pytest.raises(InputError) as caught:
        addresses.checked(url, NOTHING_PRIVATE, lookup)
    assert caught.value.problems[0].pointer == "/base_url"


@pytest.mark.parametrize(
    ("url", "spelling"),
    [
        ("https://8.8.8.8", "https://8.8.8.8"),
        ("https://8.8.8.8/", "https://8.8.8.8"),
        ("https://8.8.8.8/v1", "https://8.8.8.8"),
        ("https://8.8.8.8/v1/", "https://8.8.8.8"),
        ("https://EXAMPLE.com/Api/v1", "https://example.com/Api"),
        ("https://example.com:8443/a/b-c", "https://example.com:8443/a/b-c"),
        ("https://[2606:4700:0::1]", "https://[2606:4700::1]"),
        ("https://unknown.test", "https://unknown.test"),
    ],
)
def test_it_takes_public_addresses_and_gives_each_one_spelling(url: str, spelling: str) -> None:
    assert addresses.checked(url, NOTHING_PRIVATE, lookup).text == spelling


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://localhost:8001/v1", "http://[::1]:9000", "http://127.0.0.1"],
)
def test_the_operator_may_allow_a_network(url: str) -> None:
    assert addresses.checked(url, LOOPBACK, lookup).scheme == "http"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:6379",
        "http://127.0.0.1:5432",
        "http://127.0.0.1:22",
        "http://10.0.0.1:8000",
        "http://mixed.test",
        "http://unknown.test:8000",
        "http://0.0.0.0:8000",
        "http://[::ffff:127.0.0.1]:8000",
    ],
)
def test_allowing_one_network_opens_no_other_and_no_service_port(url: str) -> None:
    with pytest.raises(InputError):
        addresses.checked(url, LOOPBACK, lookup)


def test_no_operator_can_open_a_metadata_service_by_a_wide_network() -> None:
    wide = Operator(allowed_networks=(ipaddress.ip_network("0.0.0.0/0"),))
    for url in ("http://169.254.169.254", "http://0.0.0.0:8000", "http://224.0.0.1:8000"):
        with pytest.raises(InputError):
            addresses.checked(url, wide, lookup)
