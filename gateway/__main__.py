"""`python -m gateway`: the data plane, as many workers as ACE_GATEWAY_WORKERS says."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from typing import Final

from gateway import log as logs
from gateway import native, settings

log: Final = logging.getLogger(__name__)


def main() -> int:
    try:
        loaded = settings.load()
        logs.configure(node=loaded.node)
        missing = native.enable() if loaded.native else "switched off"
        if not missing:
            loaded = replace(loaded, build=f"{loaded.build}+native")
        # Only now: what this imports is served compiled if there is such a build.
        from gateway.supervisor import Supervisor, run_worker

        loaded.directory.mkdir(parents=True, exist_ok=True)
        supervisor = Supervisor(loaded, run_worker)
    except settings.SettingsError as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"gateway: cannot use {error.filename}: {error.strerror}.\n")
        return 2
    if missing:
        log.info("hot path in plain Python", extra={"reason": missing})
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
