"""The servers that every test run gets."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest
import redis

pytestmark = pytest.mark.enable_socket


def test_the_database_of_the_run_answers_and_its_role_is_no_superuser() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute(
            "select rolsuper from pg_roles where rolname = current_user"
        ).fetchone()
    assert row == (False,)


def test_the_broker_of_the_run_runs_scripts() -> None:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        assert client.eval("return redis.call('incrby', KEYS[1], 5)", 1, "servers-test") == 5
        client.delete("servers-test")


def test_the_home_of_the_run_is_not_the_developers_own() -> None:
    assert Path(os.environ["ACE_HOME"]).is_relative_to(os.environ["ACE_TEST_ROOT"])
