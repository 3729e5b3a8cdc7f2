"""Run inside a stack: prepares its database and prints a management token, which nobody could make through the API."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from console.launcher.prepare import prepare
from console.launcher.settings import LauncherSettings


def main(target: str) -> None:
    prepare(LauncherSettings.from_environment())
    from console.accounts.services import TokenSpec, token_create
    from console.actor import SYSTEM

    plain = token_create(SYSTEM, TokenSpec(name="tests")).plain
    Path(target).write_text(json.dumps({"management_token": plain}))


if __name__ == "__main__":
    main(sys.argv[1])
