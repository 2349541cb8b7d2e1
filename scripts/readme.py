"""What is generated in README.md, between marks: python scripts/readme.py

The tables of methods, as unbottle methods --markdown prints them, and what was measured on real models.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

from evidence_runs import runs, summaries

from unbottle.cli.main import main
from unbottle.tables import Table

README = Path(__file__).parents[1] / "README.md"
END = "<!-- end of what is generated -->\n"


def methods() -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert main(["methods", "--markdown"]) == 0
    return stream.getvalue()


def evidence() -> str:
    """Methods that were named beforehand, beside the baseline: not whatever did best."""
    chosen = [(run, run.cpr()) for run in runs()] + [(run, run.cepr()) for run in summaries()]
    rows = []
    for run, method in chosen:
        if method not in run.rows:  # not measured yet
            continue
        numbers = [run.cell(each, "perplexity", 2) for each in (run.baseline, method)]
        rows.append([f"{run.model}: {run.title}", *numbers, *run.beside(method), run.change(method, "proper noun")])
    return Table(["", "softmax", "CPR", "difference", "95 %", "better, of seeds", "at names"], rows).markdown() + "\n"


BLOCKS: dict[str, Callable[[], str]] = {
    "<!-- unbottle methods --markdown -->\n": methods,
    "<!-- scripts/readme.py: CPR (CEPR for T5) beside a softmax head with the same budget -->\n": evidence,
}


def updated(text: str) -> str:
    for start, made in BLOCKS.items():
        before, found, rest = text.partition(start)
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError(f"{README}: it has no lines {start.strip()} and {END.strip()}.")
        text = f"{before}{start}{made()}{END}{after}"
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Written to {README}")
