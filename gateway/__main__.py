"""`python -m gateway`: the data plane, as many workers as ACE_GATEWAY_WORKERS says."""

from __future__ import annotations

import sys

from gateway import log as logs
from gateway import settings
from gateway.supervisor import PortInUseError, Supervisor, run_worker


def main() -> int:
    try:
        loaded = settings.load()
        logs.configure(node=loaded.node)
        loaded.directory.mkdir(parents=True, exist_ok=True)
        supervisor = Supervisor(loaded, run_worker)
    except (settings.SettingsError, PortInUseError) as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"gateway: cannot use {error.filename}: {error.strerror}.\n")
        return 2
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
