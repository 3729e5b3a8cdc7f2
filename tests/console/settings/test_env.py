from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.settings import env
from console.settings.operator import Operator, load_operator


def test_a_database_url_may_point_to_a_socket_directory() -> None:
    found = env.database("postgresql://ace@/ace?host=/run/Pg/x")
    assert (found["NAME"], found["USER"], found["HOST"], found["PORT"]) == (
        "ace",
        "ace",
        "/run/Pg/x",
        "",
    )


def test_a_database_url_keeps_case_password_port_and_options() -> None:
    found = env.database("postgres://u:p%40ss@db.example:6543/Name?sslmode=require")
    assert (found["HOST"], found["PORT"], found["PASSWORD"]) == ("db.example", "6543", "p@ss")
    assert (found["NAME"], found["OPTIONS"]) == ("Name", {"sslmode": "require"})


def test_a_database_url_may_hold_an_ipv6_address_or_an_encoded_socket() -> None:
    assert env.database("postgresql://u@[::1]:5/x")["HOST"] == "::1"
    assert env.database("postgresql://u@%2Frun%2FPg/x")["HOST"] == "/run/Pg"


@pytest.mark.parametrize(
    "url", ["sqlite:///x", "mysql://h/x", "postgresql://h/", "postgresql://h:no/x"]
)
def test_other_databases_stop_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        env.database(url)


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("unix:///run/v.sock", "redis+socket:///run/v.sock?virtual_host=0"),
        ("unix:///run/v.sock?db=3", "redis+socket:///run/v.sock?virtual_host=3"),
    ],
)
def test_celery_hears_of_the_same_redis(url: str, broker: str) -> None:
    assert env.celery_broker(url) == broker


def test_a_missing_or_short_secret_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("X_SECRET", raising=False)
    with pytest.raises(ImproperlyConfigured, match="X_SECRET is not set"):
        env.secret_bytes("X_SECRET", tmp_path / "none")
    for text in ("", "ab" * 8, "zz" * 40):
        (tmp_path / "short").write_text(text)
        with pytest.raises(ImproperlyConfigured, match="X_SECRET"):
            env.secret_bytes("X_SECRET", tmp_path / "short")


def test_a_secret_file_is_read_and_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("X_SECRET", raising=False)
    (tmp_path / "s").write_text("ab" * 32 + "\n")
    assert env.secret_bytes("X_SECRET", tmp_path / "s") == b"\xab" * 32
    monkeypatch.setenv("X_SECRET", "cd" * 32)
    assert env.secret_bytes("X_SECRET", tmp_path / "s") == b"\xcd" * 32


@pytest.mark.parametrize("text", ["x", "-1", "70000", "1.5"])
def test_a_port_that_is_none_stops_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_PORT", text)
    with pytest.raises(ImproperlyConfigured, match="X_PORT"):
        env.env_port("X_PORT", 1)


def test_without_an_operator_file_nothing_private_is_allowed() -> None:
    assert load_operator("") == Operator()
    assert Operator().allowed_networks == ()


def test_the_operator_file_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text("allowed_networks: [127.0.0.0/8]\nallowed_hosts: [ace.example]\n")
    found = load_operator(str(file))
    assert (len(found.allowed_networks), found.allowed_hosts) == (1, ("ace.example",))
    assert found.allowed_ports == (443, 8443)
    for text in (
        "allowed_netwroks: []",
        "allowed_networks: 10.0.0.0/8",
        "allowed_networks: [x]",
        "[",
        "- a",
    ):
        file.write_text(text)
        with pytest.raises(ImproperlyConfigured, match=r"operator\.yaml"):
            load_operator(str(file))
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        load_operator(str(tmp_path / "none"))
