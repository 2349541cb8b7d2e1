"""The report page: Jinja templates, rendered into one HTML file that loads nothing.

Templates escape whatever they show, so that no text of a model or a file becomes markup.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup, escape

from unbottle.report.palette import PARTITIONS, SERIES, colour_of, stylesheet
from unbottle.tables import Table

PACKAGE = "unbottle.report"
DARK = "@media (prefers-color-scheme: dark) { :root {} }"
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
WIDTH, VALUE_WIDTH, LETTER_WIDTH = 480, 60, 7.3  # of a bar chart, of the numbers right of its bars, of a letter
BAR, GAP, GROUP_GAP = 18, 4, 14  # heights


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page with a heading of its own."""

    title: str
    body: Markup


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page, its style included."""
    style = stylesheet(DARK) + "".join(
        (files(PACKAGE) / name).read_text(encoding="utf-8") for name in ("page.css", "widgets.css")
    )
    template = environment().get_template("page.html")
    return template.render(title=title, sections=sections, style=style) + "\n"


def render(template: str, macro: str, values: Mapping[str, object], *, package: str = PACKAGE) -> Markup:
    """One macro of a template of a package, as HTML."""
    html: Markup = getattr(environment(package).get_template(template).module, macro)(**values)
    return html.strip()  # what a macro returns is escaped already


@functools.cache
def environment(package: str = PACKAGE) -> Environment:
    """Templates of a package and of the report, with what they call."""
    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, PACKAGE))])
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"code": code, "visible": visible}
    environment.globals |= {"colour_of": colour_of, "percent": "{:.1%}".format}
    return environment


def code(text: str) -> Markup:
    """A text with `code` between backticks."""
    parts = re.split(r"`([^`]+)`", text)  # every second one stood between backticks
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def visible(text: str) -> Markup:
    """A token as people can read it: whitespace and unprintable characters are written out."""
    parts = [
        Markup('<span class="ub-faint">{}</span>').format(VISIBLE[character])
        if character in VISIBLE
        else escape(character if character.isprintable() else f"\\u{ord(character):04x}")
        for character in text
    ]
    return Markup("").join(parts) or Markup('<span class="ub-faint">(nothing)</span>')


def in_order(partitions: Iterable[str]) -> list[str]:
    """Each partition once, known ones first and in the order of the palette."""
    occurring = {*partitions}
    return [name for name in PARTITIONS if name in occurring] + sorted(occurring - {*PARTITIONS})


def markdown_blocks(text: str) -> list[tuple[str, str | Table]]:
    """The blocks of a Markdown file of ours: "heading", "table" and "paragraph" with what they hold."""
    blocks: list[tuple[str, str | Table]] = []
    for lines in (block.strip().splitlines() for block in text.strip().split("\n\n")):
        if lines and lines[0].startswith("#"):
            blocks.append(("heading", lines.pop(0).lstrip("# ")))
        if lines and lines[0].startswith("|"):
            blocks.append(("table", Table.from_markdown(lines)))
        elif lines:
            blocks.append(("paragraph", " ".join(lines)))
    return blocks


def bar_chart(groups: Mapping[str, Mapping[str, Sequence[float]]], *, label: str, digits: int = 2) -> dict[str, object]:
    """The shapes of horizontal bars, group by group: means, and dots for the values if there are several.

    All bars start at 0, so that their lengths compare. A group with an empty title has no heading.
    """
    most = max((value for group in groups.values() for values in group.values() for value in values), default=1.0)
    names = [*dict.fromkeys(name for group in groups.values() for name in group)]
    left = min(WIDTH / 2, LETTER_WIDTH * max(map(len, names), default=0) + 10)
    scale = (WIDTH - left - VALUE_WIDTH) / (most or 1.0)
    texts, bars, dots, y = [], [], [], 0.0
    for title, group in groups.items():
        if title:
            texts.append({"x": 0, "y": y + 14, "text": title, "kind": "bold"})
            y += 22
        for name, values in group.items():
            mean = fmean(values)
            end = left + scale * max(mean, 0.0, *values)
            bars.append(
                {
                    "x": round(left, 1),
                    "y": y,
                    "width": round(max(mean * scale, 0.0), 1),
                    "height": BAR,
                    "colour": SERIES[names.index(name) % len(SERIES)].css,
                }
            )
            texts.append({"x": round(left - 8, 1), "y": y + 13, "text": name, "kind": "end"})
            texts.append({"x": round(end + 8, 1), "y": y + 13, "text": f"{mean:.{digits}f}"})
            if len(values) > 1:
                dots += [{"x": round(left + value * scale, 1), "y": y + BAR / 2} for value in values]
            y += BAR + GAP
        y += GROUP_GAP
    texts.append({"x": 0, "y": y + 4, "text": label, "kind": "quiet"})
    return {"texts": texts, "bars": bars, "dots": dots, "width": WIDTH, "height": round(y + 12), "label": label}
