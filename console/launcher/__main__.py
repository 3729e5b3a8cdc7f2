"""`python -m console.launcher`."""

from __future__ import annotations

import sys

from console.launcher.run import main

sys.exit(main())
