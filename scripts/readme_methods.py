"""The tables of methods in README.md, as unbottle methods --markdown prints them: python scripts/readme_methods.py"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from unbottle.cli.program import main

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- unbottle methods --markdown -->\n", "<!-- end of what it prints -->\n"


def printed() -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert main(["methods", "--markdown"]) == 0
    return stream.getvalue()


def updated(text: str) -> str:
    before, _, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{README}: it has no lines {START.strip()} and {END.strip()}.")
    return f"{before}{START}{printed()}{END}{after}"


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Written to {README}")
