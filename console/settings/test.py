"""The suite: real PostgreSQL and Valkey, fixed secrets, cheap passwords.

`tests.servers` starts both servers and sets DATABASE_URL and REDIS_URL; type checks and import checks run without them.
"""

from __future__ import annotations

import os
import tempfile

for _name, _value in {
    "ACE_HOME": tempfile.gettempdir() + "/ace-test-home",
    "DATABASE_URL": "postgresql://postgres@127.0.0.1:1/postgres",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "DJANGO_SECRET_KEY": "test-only-" + "k" * 50,
    "ACE_KEY_PEPPER": "11" * 32,
    "ACE_SNAPSHOT_SECRET": "22" * 32,
}.items():
    os.environ.setdefault(_name, _value)
os.environ["ACE_DB_POOL_SIZE"] = "0"

from console.settings.dev import *  # noqa: E402, F403 - after the environment is complete

ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
WHITENOISE_AUTOREFRESH = True
CELERY_TASK_ALWAYS_EAGER = True
