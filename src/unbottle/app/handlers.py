"""An error as a sentence on the page. The traceback, if it is our own mistake, goes to the terminal.

Answers: what the page asks, as HTML. One question at a time, and errors are sentences.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from html import escape
from threading import Lock
from typing import Any, TypeVar

from unbottle.app.predictions import ShownModel, appended, continued, next_words, shuffled, summarized
from unbottle.app.render import bars, heat_map, marked


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


Found = TypeVar("Found")


class Answers:
    """Of the models named when the page was started. A browser names them by number, and nothing else by name.

    What yields is a generator function, not one that returns an iterator: Gradio asks the function.
    """

    def __init__(self, models: Sequence[ShownModel]) -> None:
        self.causal = [shown for shown in models if not shown.encoder_decoder]
        self.encoder_decoder = [shown for shown in models if shown.encoder_decoder]
        self.lock = Lock()  # seeds are of the process, and a request can go around the queue

    def next_words(self, text: Any, words: Any, copy_bias: Any) -> str:
        """Bars of all causal models."""
        try:
            with self.lock:
                return bars(next_words(self.causal, text, words=words, copy_bias=copy_bias))
        except Exception as error:
            return alert(error)

    def append(self, text: Any, clicked: Any) -> str:
        """The text and the word that was clicked."""
        told = clicked if isinstance(clicked, dict) else {}
        return appended(self.causal, text, model=told.get("model"), word=told.get("word"))

    def continued(self, text: Any, words: Any, top_k: Any, seed: Any, copy_bias: Any) -> Iterator[str]:
        """Continuations of all causal models, one after the other."""
        work = continued(self.causal, text, words=words, top_k=top_k, seed=seed, copy_bias=copy_bias)
        yield from self._steps(self.causal, work, lambda done, waiting: marked(text, done, waiting))

    def shuffled(self, text: Any, orders: Any, seed: Any) -> Iterator[str]:
        """Heat maps of all causal models, one after the other."""
        yield from self._steps(self.causal, shuffled(self.causal, text, orders=orders, seed=seed), heat_map)

    def summarized(
        self, source: Any, sampling: Any, tokens: Any, seed: Any, copy_bias: Any, source_only: Any
    ) -> Iterator[str]:
        """Summaries of all encoder-decoder models, one after the other."""
        knobs = {"copy_bias": copy_bias, "source_only": source_only}
        work = summarized(self.encoder_decoder, source, sampling=sampling, tokens=tokens, seed=seed, **knobs)
        yield from self._steps(self.encoder_decoder, work, lambda done, waiting: marked(source, done, waiting))

    def _steps(
        self,
        models: Sequence[ShownModel],
        work: Iterator[Found],
        html: Callable[[Sequence[Found], Sequence[str]], str],
    ) -> Iterator[str]:
        """The page after each model. Another question may be answered in between."""
        names = [shown.name for shown in models]
        done: list[Found] = []
        try:
            while len(done) < len(names):
                if done:
                    yield html(done, names[len(done) :])
                with self.lock:
                    done.append(next(work))
            yield html(done, ())
        except Exception as error:
            yield alert(error) + (html(done, ()) if done else "")
