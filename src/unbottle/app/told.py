"""An error as a sentence on the page. The traceback, if it is our own mistake, goes to the terminal."""

from __future__ import annotations

import sys
import traceback
from html import escape


def told(error: Exception) -> str:
    """A sentence for people: what they gave is explained, what we did wrong is only named."""
    if isinstance(error, ValueError | OSError):
        words = " ".join(str(error).split())
        return f"{words[:1].upper()}{words[1:]}" or "That did not work."
    traceback.print_exception(error, file=sys.stderr)
    return f"That did not work ({type(error).__name__}). The terminal that runs unbottle says why."


def alert(error: Exception) -> str:
    """The sentence as HTML that a screen reader reads out."""
    return f'<p class="ub-alert" role="alert">{escape(told(error))}</p>'
