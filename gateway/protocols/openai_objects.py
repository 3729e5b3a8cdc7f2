"""What stands inside the objects and lists of a chat request, as far as an engine would break on it.

Only looked at when such a field is there, so a plain request pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.protocols.errors import invalid

Look = Callable[[str, Any], None]


def check_function(param: str, function: Any, text: str) -> None:
    """`function`, if there is one, is an object with a name; its field `text` is a string if it is there."""
    if function is None:
        return
    if type(function) is not dict:
        raise invalid(param, "'function' must be an object.")
    if type(function.get("name")) is not str:
        raise invalid(f"{param}.name", "'name' must be a string.")
    value = function.get(text)
    if value is not None and type(value) is not str:
        raise invalid(f"{param}.{text}", f"'{text}' must be a string.")


def _tools(name: str, tools: list[Any]) -> None:
    for number, tool in enumerate(tools):
        param = f"{name}[{number}]"
        if type(tool) is not dict:
            raise invalid(param, f"'{param}' must be an object.")
        kind, function = tool.get("type"), tool.get("function")
        if kind is not None and type(kind) is not str:
            raise invalid(f"{param}.type", "'type' must be a string.")
        if kind == "function" and function is None:
            raise invalid(f"{param}.function", "A tool of type 'function' needs a 'function'.")
        if function is not None:
            _declared(f"{param}.function", function)


def _functions(name: str, functions: list[Any]) -> None:
    for number, function in enumerate(functions):
        param = f"{name}[{number}]"
        if type(function) is not dict:
            raise invalid(param, f"'{param}' must be an object.")
        _declared(param, function)


def _declared(param: str, function: Any) -> None:
    check_function(param, function, "description")
    schema = function.get("parameters")
    if schema is not None and type(schema) is not dict:
        raise invalid(f"{param}.parameters", "'parameters' must be a JSON Schema object.")


def _chosen(name: str, choice: Any) -> None:
    if type(choice) is dict:
        check_function(f"{name}.function", choice.get("function"), "description")


def _list_of(kind: type, words: str) -> Look:
    def look(name: str, items: list[Any]) -> None:
        for number, item in enumerate(items):
            if type(item) is not kind:
                param = f"{name}[{number}]"
                raise invalid(param, f"'{param}' must be {words}.")

    return look


def _biases(name: str, biases: dict[str, Any]) -> None:
    for token, bias in biases.items():
        if type(bias) is not int and type(bias) is not float:
            raise invalid(name, f"The value of {token[:40]!r} in '{name}' must be a number.")


def _typed(name: str, value: dict[str, Any]) -> None:
    if type(value.get("type")) is not str:
        raise invalid(f"{name}.type", f"'{name}' needs a 'type', a string.")


def _answer_format(name: str, value: dict[str, Any]) -> None:
    _typed(name, value)
    if value["type"] != "json_schema":
        return
    schema = value.get("json_schema")
    if type(schema) is not dict:
        raise invalid(f"{name}.json_schema", "'json_schema' must be an object.")
    inner = schema.get("schema")
    if inner is not None and type(inner) is not dict:
        raise invalid(f"{name}.json_schema.schema", "'schema' must be a JSON Schema object.")


INSIDE: Final[Mapping[str, Look]] = {
    "functions": _functions,
    "logit_bias": _biases,
    "modalities": _list_of(str, "a string"),
    "prediction": _typed,
    "response_format": _answer_format,
    "stop": _list_of(str, "a string"),
    "stop_token_ids": _list_of(int, "a whole number"),
    "tool_choice": _chosen,
    "tools": _tools,
}
