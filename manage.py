#!/usr/bin/env python
"""Django's command line for the console and the ingest process."""

from __future__ import annotations

import sys

from console.settings.env import default_settings


def main() -> None:
    default_settings()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
