"""`python -m console.launcher.prepare`: migrations, a first snapshot and, when asked for, the demo seed.

A process of its own, because it needs Django and the launcher should not. Its last line is the reason when it fails.
"""

from __future__ import annotations

import os
import sys

import django
import redis
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import OperationalError

from console.launcher.errors import LauncherError
from console.launcher.settings import LauncherSettings
from console.settings.env import default_settings


def main() -> int:
    try:
        prepare(LauncherSettings.from_environment())
    except (LauncherError, ImproperlyConfigured, OperationalError, redis.RedisError) as error:
        print(" ".join(str(error).split()), flush=True)
        return 1
    return 0


def prepare(settings: LauncherSettings) -> None:
    """Safe to repeat: what stands is kept."""
    default_settings()
    os.environ["ACE_DB_POOL_SIZE"] = "0"  # the pool would hide why a server cannot be reached
    django.setup()
    call_command("migrate", interactive=False, verbosity=1)
    if os.environ.get("DJANGO_SETTINGS_MODULE", "").endswith(".prod"):
        call_command("collectstatic", interactive=False, verbosity=0)
    from console.accounts.selectors import first_run_needed  # these need the apps to be loaded
    from console.accounts.set_up import token_ensure
    from console.launcher.seed import ensure_demo, ensure_snapshot

    ensure_snapshot()
    if settings.seed_demo:
        ensure_demo(settings)
    elif first_run_needed():
        token_ensure()


if __name__ == "__main__":
    sys.exit(main())
