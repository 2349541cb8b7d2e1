"""unbottle doctor: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.ending import FAILED

if TYPE_CHECKING:
    from unbottle.cli.health import Check

EXAMPLES = """
unbottle doctor
unbottle doctor --json
"""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Say what is installed, what is missing, what it would be for, and how to get it.

    Exit code 0: all that unbottle needs is here, whatever optional things are missing. 1: something it needs is not.
    """
    from unbottle.cli.health import OK, checks

    found = checks()
    sick = [check for check in found if check.needed and check.status != OK]
    if as_json:
        print(json.dumps({"healthy": not sick, "checks": [asdict(check) for check in found]}, indent=1))
    else:
        print(report(found))
        missing = sum(check.status != OK for check in found)
        verdict = (
            f"{', '.join(check.name for check in sick)}: needed, and not here."
            if sick
            else "All that is needed is here."
        )
        print(f"\n{verdict} {missing - len(sick)} optional things are missing or low.")
    if sick:
        raise typer.Exit(FAILED)


def report(found: Sequence[Check]) -> str:
    """A line for each thing; below what is missing, what it is for and how to get it."""
    width = max(len(check.name) for check in found)
    lines = []
    for check in found:
        lines.append(f"{check.status:<7}  {check.name:<{width}}  {check.found}".rstrip())
        if check.remedy:
            purpose = f"{check.purpose}: " if check.purpose else ""
            lines.append(f"{'':<7}  {'':<{width}}  {purpose}{check.remedy}")
    return "\n".join(lines)
