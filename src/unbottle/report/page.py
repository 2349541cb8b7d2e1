"""page: one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from unbottle.report.html import paragraph

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
    """A part of a page with its own heading; `body` is HTML, made by unbottle.report.html and its neighbours."""

    title: str
    body: tuple[str, ...]


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """All sections below each other."""
    style = (files("unbottle.report") / "page.css").read_text(encoding="utf-8")
    parts = [paragraph(lead)] if lead else []
    for section in sections:
        parts += [f"<h2>{escape(section.title)}</h2>", *section.body]
    return PAGE.format(title=escape(title), style=style, body="\n".join(parts))
