"""`python -m gateway`: the data plane, as many workers as ACE_GATEWAY_WORKERS says."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

from gateway import log as logs
from gateway import native, settings


def main() -> int:
    try:
        loaded = settings.load()
        logs.configure(node=loaded.node)
        loaded = _choose_build(loaded)
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
    return supervisor.run()


def _choose_build(loaded: settings.Settings) -> settings.Settings:
    missing = native.enable() if loaded.native else "switched off"
    if missing:
        logging.getLogger(__name__).info("hot path in plain Python", extra={"reason": missing})
        return loaded
    return replace(loaded, build=f"{loaded.build}+native")


if __name__ == "__main__":
    sys.exit(main())
