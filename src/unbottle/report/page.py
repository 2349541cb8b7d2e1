"""The report page: Jinja templates, rendered into one HTML file that loads nothing.

Templates escape whatever they show, so that no text of a model or a file becomes markup.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup, escape

from unbottle.method import LETTERS, Method, MethodError
from unbottle.report.palette import PARTITIONS, colour_of, stylesheet
from unbottle.tables import Table

PACKAGE = "unbottle.report"
DARK = "@media (prefers-color-scheme: dark) { :root {} }"
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
BASES = {"softmax": "Softmax: one vector for all words", "mos": "MoS: several vectors for all words, weighted"}
PARTS = {  # of a method, in the words of the page
    "c": "a vector of its own for words of the text so far",
    "e": "a vector of its own for words of the encoder input",
    "p": "words of the text are embedded by what surrounds them there",
    "r": "vectors of their own for the most likely words",
}
MARGIN = 2  # percent of the width of a dot chart, at both ends


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
    environment.globals |= {"colour_of": colour_of, "percent": "{:.1%}".format, "tip": tip}
    environment.globals |= {"explained": explained, "plain": "softmax", "Markup": Markup}
    return environment


def code(text: str) -> Markup:
    """A text with `code` between backticks; HTML stays as it is."""
    if isinstance(text, Markup):
        return text
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


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value with an interval around it, as a line of a dot chart; `text` is what is written beside it."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    colour: str = PARTITIONS["V"].css
    tip: str = ""


def dot_chart(dots: Sequence[Dot], *, reference: float, caption: str, log: bool = False) -> dict[str, object]:
    """Places of dots and intervals on one axis, in percent of its width; a line marks the reference.

    The axis ends where the values do: what is compared is the distance to the reference, not to 0.
    """
    scale = math.log if log else float
    known = [value for dot in dots for value in (dot.value, dot.low, dot.high) if value is not None]
    first, last = scale(min(*known, reference)), scale(max(*known, reference))
    width = (last - first) or 1.0

    def place(value: float | None) -> float | None:
        return None if value is None else round(MARGIN + (100 - 2 * MARGIN) * (scale(value) - first) / width, 2)

    rows = [{"dot": dot, "place": place(dot.value), "low": place(dot.low), "high": place(dot.high)} for dot in dots]
    return {"rows": rows, "reference": place(reference), "caption": caption}


def tip(text: str, explanation: str) -> Markup:
    """A text that explains itself when it is pointed at or tapped."""
    return Markup('<abbr tabindex="0" title="{}">{}</abbr>').format(explanation, text) if explanation else escape(text)


def explained(method: str) -> str:
    """What the parts of a method are; nothing of a text that is no method."""
    try:
        parsed = Method.parse(method)
    except MethodError:
        return ""
    parts = [BASES.get(parsed.base, "")]
    parts += [f"{letter.upper()}: {PARTS.get(letter, LETTERS[letter].meaning)}" for letter in parsed.letters]
    parts += ["Mi: reads several layers and positions"] if parsed.mi else []
    return "; ".join(filter(None, parts))


def plain_text(table: Table) -> str:
    """A table of the page for a terminal: without explanations."""
    rows = [[cell.striptags() if isinstance(cell, Markup) else cell for cell in row] for row in table.rows]
    return Table(table.header, rows).text()
