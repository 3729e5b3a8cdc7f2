"""`pytest -p tests.compiled tests/gateway`: the same tests against the compiled hot path (`make test-native`)."""

from __future__ import annotations

import pytest

from gateway import native

missing = native.enable()
if missing:
    pytest.exit(f"no compiled hot path to test: {missing}", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("interpreted"):
            item.add_marker(pytest.mark.skip(reason="changes a constant that is compiled in"))
