"""YAML as people edit it in the console: a strict, plain subset that is always also JSON.

No aliases (a few lines could stand for gigabytes), no repeated keys, no dates, and `off`, `on`, `yes`, `no` are words,
because `mode: off` must not become `mode: false`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

MAX_TEXT: Final = 200_000
_MAX_DEPTH: Final = 12


class YamlProblem(ValueError):  # noqa: N818 - reads as what it is
    """A sentence for the person at the keyboard. `line` counts from 1; 0: not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"Line {line}: {message}" if line else message)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Resolves only what JSON has, and keeps the first of two equal keys from being lost in silence."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}
    depth = 0

    @property
    def here(self) -> int:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        return _line(event)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise YamlProblem("Aliases (*name) are not allowed.", self.here)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise YamlProblem("This is nested too deeply.", self.here)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise YamlProblem("A key must be a word.", _line(key))
            if key.value in seen:
                raise YamlProblem(f"{key.value} stands here twice.", _line(key))
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), list(first))


_resolve("null", r"^(?:~|null)$", "~n")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("^$"), [""])
_resolve("bool", r"^(?:true|false)$", "tf")
_resolve("int", r"^[-+]?(?:0|[1-9][0-9]{0,18})$", "-+0123456789")
_resolve("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$", "-+.0123456789")


def load(text: str) -> Any:
    """Raises YamlProblem with the line where reading ended."""
    if len(text) > MAX_TEXT:
        raise YamlProblem("This is too long.")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, narrowed
    except YamlProblem:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(_words(error), mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise YamlProblem("This cannot be read as YAML.") from None


def dump(value: Any) -> str:
    """Block style, keys in the order given, words quoted where another reader would take them for something else."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text.removesuffix("...\n").rstrip("\n")


def _words(error: yaml.MarkedYAMLError) -> str:
    return (error.problem or "this cannot be read as YAML").capitalize() + "."


def _line(holder: Any) -> int:
    mark = getattr(holder, "start_mark", None)
    return mark.line + 1 if mark else 0
