"""The embedded servers under one name. `start()` of each gives the URL of a server that answers."""

from __future__ import annotations

from console.launcher.postgres import EmbeddedPostgres
from console.launcher.servers import make_socket_dir
from console.launcher.valkey import EmbeddedValkey

__all__ = ["EmbeddedPostgres", "EmbeddedValkey", "make_socket_dir"]
