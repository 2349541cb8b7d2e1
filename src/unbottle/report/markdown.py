"""markdown: the Markdown that our own commands write, as HTML: headings, tables, paragraphs."""

from __future__ import annotations

from unbottle.report.html import heading, paragraph, table


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
