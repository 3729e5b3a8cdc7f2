"""Laws of every source file: small, and with a test file of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.laws.sources import LAWS, PACKAGES, ROOT, UNMIRRORED, excused, modules, unmirrored

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
LONG = LAWS / "long.txt"


def long_places(path: Path) -> Iterator[str]:
    text = (ROOT / path).read_text()
    if text.count("\n") > MAX_MODULE_LINES:
        yield str(path)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES:
                yield f"{path}:{node.name}"


def all_long() -> set[str]:
    return {place for path in modules(*PACKAGES, "tests") for place in long_places(path)}


def test_modules_and_functions_are_small() -> None:
    assert all_long() - excused(LONG) == set()


def test_the_list_of_long_places_only_shrinks() -> None:
    assert excused(LONG) - all_long() == set(), "take these out of long.txt: they are short now"


def test_every_module_has_a_test_file_of_its_own() -> None:
    assert unmirrored() - excused(UNMIRRORED) == set()


def test_the_list_of_modules_without_tests_only_shrinks() -> None:
    fixed = excused(UNMIRRORED) - unmirrored()
    assert fixed == set(), "python -m tests.laws.sources takes these out of unmirrored.txt"
