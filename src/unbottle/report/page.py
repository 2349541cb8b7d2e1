"""Pieces of a page. Whatever is shown is escaped here, so nothing that a model or a file says becomes markup.

markdown: the Markdown that our own commands write, as HTML: headings, tables, paragraphs.

page: one HTML file that needs nothing else: no script, no font, no picture from elsewhere.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

NUMBER = re.compile(r"[-+]?[\d.,]+(e[+-]?\d+)?( ?%|x)?( ± [\d.]+)?|inf|")


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_kind(kind)}>{inline(text)}</p>"


def inline(text: str) -> str:
    """A text, `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def heading(text: str) -> str:
    return f"<h3>{inline(text)}</h3>"


def preformatted(text: str, kind: str = "") -> str:
    return f"<pre{_kind(kind)}>{escape(text)}</pre>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[tuple[int, int]] = ()) -> str:
    """Columns of numbers stand right; `best` are the places (row, column) that are set off."""
    numeric = [column > 0 and all(NUMBER.fullmatch(row[column]) for row in rows) for column in range(len(header))]

    def cell(tag: str, text: str, column: int, row: int = -1) -> str:
        kinds = ["number"] * numeric[column] + ["best"] * ((row, column) in best)
        return f"<{tag}{_kind(' '.join(kinds))}>{inline(text)}</{tag}>"

    head = "".join(cell("th", text, column) for column, text in enumerate(header))
    body = "".join(
        f"<tr>{''.join(cell('td', text, column, number) for column, text in enumerate(row))}</tr>"
        for number, row in enumerate(rows)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def picture(path: Path, alt: str) -> str:
    """A PNG file, inside the page."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def markdown(text: str) -> list[str]:
    """A piece for each block. Headings of any depth look alike; the page has its own above them."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = block.strip().splitlines()
        if not lines:
            continue
        if lines[0].startswith("#"):
            found.append(heading(lines[0].lstrip("# ")))
            lines = lines[1:]
        if lines and lines[0].startswith("|"):
            rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
            found.append(table(rows[0], rows[2:]))
        elif lines:
            found.append(paragraph(" ".join(lines), "quiet"))
    return found


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page with its own heading; `body` is HTML, made by unbottle.report.page and its neighbours."""

    title: str
    body: tuple[str, ...]


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """All sections below each other."""
    style = (files("unbottle.report") / "page.css").read_text(encoding="utf-8")
    parts = [paragraph(lead)] if lead else []
    for section in sections:
        parts += [f"<h2>{escape(section.title)}</h2>", *section.body]
    return PAGE.format(title=escape(title), style=style, body="\n".join(parts))
