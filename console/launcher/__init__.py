"""Everything on one machine: embedded servers, the processes of the Procfile, the demo seed."""

from __future__ import annotations
