"""What people read: boxes, colours and whole words on a terminal, the plain text everywhere else."""

from __future__ import annotations

import sys
from typing import TextIO


def is_terminal(stream: TextIO | None = None) -> bool:
    return (sys.stdout if stream is None else stream).isatty()


def show(markdown: str) -> None:
    """Print Markdown: drawn on a terminal, as it is where another program reads it."""
    if not is_terminal():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout).print(Markdown(markdown))


def show_text(text: str, stream: TextIO | None = None, *, style: str = "") -> None:
    """Print text, which a terminal gets in lines that end between words."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        print(text, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stream).print(Text(text, style=style), highlight=False)
