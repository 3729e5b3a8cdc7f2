"""What every answer carries, and what the settings must hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

ROOT = Path(__file__).parents[3]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/tenants", "/api/schema/", "/nowhere/at/all"])
def test_every_answer_is_guarded_against_being_framed_sniffed_or_kept(path: str) -> None:
    answer = Client().get(path)
    policy = answer["Content-Security-Policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "no-store" in answer["Cache-Control"]
    assert answer["x-request-id"].startswith("req_")


@pytest.mark.django_db
def test_a_callers_request_id_is_not_taken_over() -> None:
    answer = Client().get("/api/v1/tenants", headers={"x-request-id": "req_MINE"})
    assert answer["x-request-id"] != "req_MINE"


@pytest.mark.django_db
def test_a_foreign_host_is_refused() -> None:
    answer = Client().get("/api/v1/tenants", headers={"host": "evil.example"})
    assert answer.status_code == 400


def test_passwords_are_hashed_slowly_outside_the_tests() -> None:
    from console.settings import base

    assert base.PASSWORD_HASHERS[0].endswith("PBKDF2PasswordHasher")
    assert settings.SESSION_COOKIE_HTTPONLY
    assert settings.CSRF_COOKIE_HTTPONLY
    assert not settings.DEBUG


def check(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "ACE_HOME", "DATABASE_URL", "REDIS_URL")}
    secrets = {"ACE_KEY_PEPPER": "ab" * 32, "ACE_SNAPSHOT_SECRET": "cd" * 32}
    given = kept | secrets | {"DJANGO_SECRET_KEY": "kL9" * 25 + "xyzw!5"} | environment
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


def test_a_deployment_has_no_warning() -> None:
    done = check(
        DJANGO_SETTINGS_MODULE="console.settings.prod", ACE_CONSOLE_URL="https://ace.example.com"
    )
    assert done.returncode == 0
    assert "no issues (0 silenced)" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ACE_CONSOLE_URL", "http://ace.example.com", "https://"),
        ("ACE_KEY_PEPPER", "short", "ACE_KEY_PEPPER is shorter"),
        ("DJANGO_SECRET_KEY", "", "DJANGO_SECRET_KEY is not set"),
        ("DATABASE_URL", "sqlite://", "DATABASE_URL"),
        ("REDIS_URL", "amqp://x", "REDIS_URL"),
        ("ACE_OPERATOR_FILE", "/nowhere.yaml", "Operator file"),
        ("ACE_GATEWAY_PORT", "eighty", "ACE_GATEWAY_PORT"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(name: str, value: str, words: str) -> None:
    environment = {"ACE_CONSOLE_URL": "https://ace.example.com", name: value}
    done = check(DJANGO_SETTINGS_MODULE="console.settings.prod", **environment)
    assert done.returncode != 0
    assert words in done.stderr
