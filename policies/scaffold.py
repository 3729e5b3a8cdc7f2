"""Start a new skill: `python -m policies.scaffold <slug> --title … --layer L6 --role observer`.

It makes the folder, the test folder and the line in the catalogue, then runs the laws. What they
say is the list of things to do; when they are silent, the skill is whole.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from policies.contract.roles import Role

ROOT: Final = Path(__file__).parents[1]
LAYERS: Final = ("L1", "L2", "L3", "L4", "L5", "L6", "L7")

_HEAD: Final = "from __future__ import annotations\n"

_INIT: Final = '''"""{title}: TODO one line that says what it does."""

from __future__ import annotations

from policies.contract.manifest import Skill
from policies.skills.{slug}.compile import compile_plan
from policies.skills.{slug}.config import {name}Config

SKILL = Skill(
    slug="{slug}",
    title="{title}",
    summary="TODO one sentence for the list in the studio.",
    layer="{layer}",
    role="{role}",
    config={name}Config,
    compile=compile_plan,
    runtime="policies.skills.{slug}.runtime:{name}",
    on_error="open",
)
'''

_CONFIG: Final = '''"""Settings of {slug}."""

from __future__ import annotations

from policies.contract.config import SkillConfig


class {name}Config(SkillConfig):
    """TODO what is set here, and for whom. Each field: bounds, unit in its name, description."""
'''

_COMPILE: Final = '''"""From settings and tenant facts to what the runtime reads."""

from __future__ import annotations

from dataclasses import dataclass

from policies.contract.facts import TenantFacts
from policies.skills.{slug}.config import {name}Config


@dataclass(frozen=True, slots=True)
class {name}Plan:
    """TODO thresholds in the units of the clock, sets in place of lists."""


def compile_plan(_config: {name}Config, _tenant: TenantFacts) -> {name}Plan:
    return {name}Plan()
'''

_RUNTIME: Final = '''"""TODO the decision, with its formula."""

from __future__ import annotations

from policies.contract.host import Host
from policies.skills.{slug}.compile import {name}Plan


class {name}:
    """Plays the role `{role}`: see its Protocol in `policies.contract.roles`."""

    __slots__ = ("_host", "_plan")

    def __init__(self, plan: {name}Plan, host: Host) -> None:
        self._plan = plan
        self._host = host
'''

_README: Final = """# {title}

`{slug}` · {layer} · {role} · fails open

TODO what it is for, in one sentence.

## What it decides

TODO the formula or the states.

## Reads and writes

TODO

## When it fails

TODO open or closed, and what the caller sees.

## Example

TODO

## Settings

<!-- [[[cog
import cog
from policies.catalogue import skill
from policies.schema.table import field_table
cog.outl(field_table(skill("{slug}").config))
]]] -->
<!-- [[[end]]] -->
"""

SKILL_FILES: Final[Mapping[str, str]] = {
    "__init__.py": _INIT,
    "config.py": _CONFIG,
    "compile.py": _COMPILE,
    "runtime.py": _RUNTIME,
    "README.md": _README,
    "examples.yaml": "[]\n",
}
TEST_FILES: Final[Mapping[str, str]] = {
    "__init__.py": "",
    "test_config.py": _HEAD,
    "test_compile.py": _HEAD,
    "test_runtime.py": _HEAD,
}


class ScaffoldError(Exception):
    """The skill cannot be started; the message says why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is known of a skill before it exists."""

    slug: str
    title: str
    layer: str
    role: str

    @property
    def name(self) -> str:
        """Class name: `geo_residency` -> `GeoResidency`."""
        return "".join(part.capitalize() for part in self.slug.split("_"))

    def fill(self, template: str) -> str:
        return template.format(
            slug=self.slug, title=self.title, layer=self.layer, role=self.role, name=self.name
        )


def make_skill(root: Path, draft: Draft) -> list[Path]:
    """Write the folders and the catalogue line; the files written. Raises ScaffoldError."""
    if re.fullmatch(r"[a-z][a-z0-9_]{2,39}", draft.slug) is None:
        raise ScaffoldError(f"{draft.slug!r} is no slug: lower case words joined by underscores.")
    folders = {
        root / "policies" / "skills" / draft.slug: SKILL_FILES,
        root / "tests" / "policies" / "skills" / draft.slug: TEST_FILES,
    }
    for folder in folders:
        if folder.exists():
            raise ScaffoldError(f"{folder.relative_to(root)} exists already.")
    written = [
        _write(folder / name, draft.fill(template))
        for folder, files in folders.items()
        for name, template in files.items()
    ]
    catalogue = root / "policies" / "catalogue.py"
    catalogue.write_text(with_skill(catalogue.read_text(), draft.slug))
    return [*written, catalogue]


def with_skill(catalogue: str, slug: str) -> str:
    """The catalogue's text with `slug` imported and listed last. Where it belongs in the pipeline
    is for a person to decide, and for the golden list in `tests/laws` to hold.
    """
    pattern = re.compile(r"from policies\.skills import (?:\(([^)]*)\)|([^\n]*))")
    found = pattern.search(catalogue)
    if found is None:
        raise ScaffoldError("policies/catalogue.py no longer imports the skills in one statement.")
    names = sorted({*re.findall(r"\w+", found.group(1) or found.group(2)), slug})
    lines = "".join(f"    {name},\n" for name in names)
    imported = f"from policies.skills import (\n{lines})"
    text = catalogue[: found.start()] + imported + catalogue[found.end() :]
    return re.sub(
        r"(CATALOGUE: Final\[tuple\[Skill, \.\.\.\]\] = \(\n(?:    \w+\.SKILL,\n)*)",
        rf"\g<1>    {slug}.SKILL,\n",
        text,
    )


def failing_laws(root: Path, slug: str) -> list[str]:
    """Names of the laws that the skill does not obey yet."""
    laws = ("tests/laws/test_skill_anatomy.py", "tests/laws/test_catalogue.py")
    options = ("-q", "-rfE", "--tb=no", "--noconftest", "-p", "no:django", "-p", "no:cacheprovider")
    isolated = ("-c", "/dev/null", "--rootdir", str(root), "-o", f"pythonpath={root}")
    command = [sys.executable, "-m", "pytest", *options, *isolated, *laws]
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own tests
        command, cwd=root, capture_output=True, text=True, check=False
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S*::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode > 1:
        raise ScaffoldError(f"The laws could not be run:\n{done.stdout}{done.stderr}")
    return sorted(name for name in failed if "[" not in name or name.endswith(f"[{slug}]"))


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    draft = _draft(arguments)
    try:
        written = make_skill(root, draft)
        failing = failing_laws(root, draft.slug)
    except ScaffoldError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.writelines(f"wrote {path.relative_to(root)}\n" for path in written)
    sys.stdout.write("\nTo do, as the laws see it (python -m pytest tests/laws):\n")
    sys.stdout.writelines(f"  {_sentence(name)}\n" for name in failing)
    return 0


def _draft(arguments: Sequence[str] | None) -> Draft:
    parser = argparse.ArgumentParser(prog="python -m policies.scaffold", description=__doc__)
    parser.add_argument("slug")
    parser.add_argument("--title", default=None)
    parser.add_argument("--layer", choices=LAYERS, default="L6")
    parser.add_argument("--role", choices=get_args(Role), default="observer")
    given = parser.parse_args(arguments)
    title = given.title or given.slug.replace("_", " ").capitalize()
    return Draft(given.slug, title, given.layer, given.role)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _sentence(law: str) -> str:
    return law.removeprefix("test_").partition("[")[0].replace("_", " ")


if __name__ == "__main__":
    raise SystemExit(main())
