"""The servers that every test run gets."""

from __future__ import annotations

import os

import psycopg
import redis


def test_the_database_of_the_run_answers_and_its_role_is_no_superuser() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute(
            "select rolsuper from pg_roles where rolname=current_user"
        ).fetchone()
    assert row == (False,)


def test_the_broker_of_the_run_runs_scripts_and_streams() -> None:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        assert client.eval("return redis.call('incrby', KEYS[1], 5)", 1, "launcher-test") == 5
        client.delete("launcher-test")
