"""`ace`: what an operator does from a shell, through the management API.

Exit codes: 0 done · 1 refused or something is wrong · 2 wrong usage · 3 the installation cannot be reached ·
4 the management token is missing, wrong or may not do this · 5 there is no such thing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import httpx

from console.launcher.access import Access, find_access
from console.launcher.doctor import examine
from console.launcher.errors import LauncherError
from console.launcher.settings import LauncherSettings

DONE: Final = 0
REFUSED: Final = 1
UNREACHABLE: Final = 3
FORBIDDEN: Final = 4
MISSING: Final = 5
_CODES: Final[dict[int, int]] = {
    httpx.codes.UNAUTHORIZED: FORBIDDEN,
    httpx.codes.FORBIDDEN: FORBIDDEN,
    httpx.codes.NOT_FOUND: MISSING,
}

Rows = list[dict[str, Any]] | dict[str, Any]


class CommandError(Exception):
    """Its message goes to stderr; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], tuple[Rows, int]] = options.command
    try:
        found, code = command(options)
    except LauncherError as error:
        print(f"ace: {error}", file=sys.stderr)
        return UNREACHABLE
    except CommandError as error:
        print(f"ace: {error}", file=sys.stderr)
        return error.code
    print(json.dumps(found, indent=2, default=str) if options.output == "json" else table(found))
    return code


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-o", "--output", choices=("table", "json"), default="table")
    common.add_argument("--console", metavar="URL", help="default: $ACE_CONSOLE_URL, else run.json")
    common.add_argument(
        "--token", help="management token; default: $ACE_MANAGEMENT_TOKEN, else run.json"
    )
    top = argparse.ArgumentParser(
        prog="ace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[..., Any], text: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, parents=[common], help=text, description=text)
        found.set_defaults(command=command)
        return found

    add("doctor", doctor, "check Python, disk, database, Redis, ports and GPU")
    add("status", status, "is the installation up, and which policy runs")
    add("workers", workers, "each gateway worker with its desired and actual version")
    add("publish", publish, "publish all drafts").add_argument("--note", default="")
    explain_parser = add("explain", explain, "decisions, candidates and price of one request")
    explain_parser.add_argument("request_id")
    _add_keys(commands.add_parser("keys", help="issue and revoke API keys"), common)
    return top


def _add_keys(keys: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    verbs = keys.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", parents=[common], help="issue a key; it is shown this once")
    create.set_defaults(command=key_create)
    create.add_argument("--tenant", required=True, metavar="ID")
    create.add_argument("--name", required=True)
    create.add_argument("--model", action="append", help="repeat for more; default: every model")
    create.add_argument("--budget-microusd", type=int, metavar="N", help="hard monthly budget")
    revoke = verbs.add_parser("revoke", parents=[common], help="stop a key for ever, at once")
    revoke.set_defaults(command=key_revoke)
    revoke.add_argument("key_id")


# ---------------------------------------------------------------------------------------------- commands


def doctor(_options: argparse.Namespace) -> tuple[Rows, int]:
    findings = examine(LauncherSettings.from_environment())
    failed = any(finding.state == "failed" for finding in findings)
    return [asdict(finding) for finding in findings], REFUSED if failed else DONE


def status(options: argparse.Namespace) -> tuple[Rows, int]:
    access = find_access(options.console, options.token)
    rows = call(access, "GET", "/workers")
    behind = [row for row in rows if row["state"] != "ack"]
    found = {
        "console": access.console_url,
        "gateway": access.gateway_url,
        "workers": len(rows),
        "behind": len(behind),
        "version": max((row["actual_version"] for row in rows), default=0),
    }
    return found, REFUSED if behind or not rows else DONE


def workers(options: argparse.Namespace) -> tuple[Rows, int]:
    rows: Rows = call(find_access(options.console, options.token), "GET", "/workers")
    return rows, DONE


def publish(options: argparse.Namespace) -> tuple[Rows, int]:
    access = find_access(options.console, options.token)
    return call(access, "POST", "/publish", {"note": options.note}), DONE


def explain(options: argparse.Namespace) -> tuple[Rows, int]:
    access = find_access(options.console, options.token)
    return call(access, "GET", f"/requests/{_segment(options.request_id)}"), DONE


def key_create(options: argparse.Namespace) -> tuple[Rows, int]:
    access = find_access(options.console, options.token)
    body: dict[str, Any] = {"tenant": options.tenant, "name": options.name}
    if options.model:
        body["models"] = options.model
    if options.budget_microusd is not None:
        budget = {"limit_microusd": options.budget_microusd, "window": "month", "mode": "hard"}
        body["budgets"] = [budget]
    issued = call(access, "POST", "/keys", body)
    return {"id": issued["id"], "key": issued["key"]}, DONE


def key_revoke(options: argparse.Namespace) -> tuple[Rows, int]:
    access = find_access(options.console, options.token)
    call(access, "POST", f"/keys/{_segment(options.key_id)}/revoke", {})
    return {"id": options.key_id, "state": "revoked"}, DONE


# ---------------------------------------------------------------------------------------------- the API


def call(access: Access, method: str, path: str, body: Any = None) -> Any:
    """The decoded answer. Raises CommandError with the problem's own words."""
    if not access.token:
        raise CommandError("give --token or set ACE_MANAGEMENT_TOKEN", FORBIDDEN)
    headers = {"Authorization": f"Bearer {access.token}"}
    try:
        with httpx.Client(base_url=access.console_url, headers=headers, timeout=30.0) as client:
            answer = client.request(method, f"/api/v1{path}", json=body)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise CommandError(f"{access.console_url}: {reason}", UNREACHABLE) from None
    if answer.is_success:
        return answer.json()
    raise CommandError(problem(answer), _CODES.get(answer.status_code, REFUSED))


def problem(answer: httpx.Response) -> str:
    """RFC 9457: the detail, then each field that does not fit."""
    try:
        document = answer.json()
    except ValueError:
        return f"{answer.status_code} {answer.reason_phrase}"
    detail = document.get("detail") or document.get("title") or answer.reason_phrase
    fields = [
        f"{each.get('pointer', '')}: {each.get('detail') or each.get('message', '')}"
        for each in document.get("errors", [])
    ]
    return "\n  ".join([str(detail), *fields])


def _segment(text: str) -> str:
    """An id goes into the path as it is; one that would leave its place there cannot be an id."""
    if not text or set(text) & set("/?#%\\"):
        raise CommandError(f"{text!r} is not an id", MISSING)
    return text


# ---------------------------------------------------------------------------------------------- output


def table(found: Rows, indent: str = "") -> str:
    """A list becomes columns, one thing becomes lines of name and value, what is inside it stands indented below."""
    if isinstance(found, list):
        return _columns(found)
    width = max((len(name) for name in found if not _nested(found[name])), default=0)
    lines: list[str] = []
    for name, value in found.items():
        if not _nested(value):
            lines.append(f"{indent}{name.ljust(width)}  {_cell(value)}")
            continue
        for each in value if isinstance(value, list) else [value]:
            lines += [f"{indent}{name}:", table(each, indent + "  ")]
    return "\n".join(lines)


def _nested(value: object) -> bool:
    """A mapping, or a list of mappings; a list of plain values fits on a line."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict)


def _columns(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "none"
    names = list(rows[0])
    lines = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
