"""Pieces of a page. Whatever is shown is escaped here, so nothing that a model or a file says becomes markup."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
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
