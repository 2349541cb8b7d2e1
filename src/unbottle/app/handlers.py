"""Event handlers of the app: HTML for what was asked, one question at a time; errors become one sentence."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from unbottle.app.predictions import ShownModel, appended, continued, next_words, shuffled, summarized
from unbottle.app.render import alert, busy, copied_words, heat_maps, next_word_bars

Result = TypeVar("Result")


def error_message(error: Exception) -> str:
    """A sentence about what the user gave; of an error of ours only its type, and the traceback on stderr."""
    if isinstance(error, ValueError | OSError):
        words = " ".join(str(error).split())
        return f"{words[:1].upper()}{words[1:]}" or "That did not work."
    traceback.print_exception(error, file=sys.stderr)
    return f"That did not work ({type(error).__name__}). The terminal that runs unbottle says why."


class Handlers:
    """Handlers for the models that the app was started with, which a browser can only refer to by number.

    Arguments come from a browser, so they can be anything: `unbottle.app.predictions` checks them. What yields is a
    generator function, not a function that returns an iterator: Gradio asks the function which it is.
    """

    def __init__(self, models: Sequence[ShownModel]) -> None:
        self.causal = [shown for shown in models if not shown.encoder_decoder]
        self.encoder_decoder = [shown for shown in models if shown.encoder_decoder]
        self.lock = Lock()  # seeds are global, and a request can bypass the queue

    def next_words(self, text: object, words: object, copy_bias: object) -> str:
        """Bars of all causal models."""
        try:
            with self.lock:
                return next_word_bars(str(text), next_words(self.causal, text, words=words, copy_bias=copy_bias))
        except Exception as error:
            return alert(error_message(error))

    def append(self, text: object, clicked: object) -> str:
        """The text and the word that was clicked."""
        word = clicked if isinstance(clicked, dict) else {}
        return appended(self.causal, text, model=word.get("model"), word=word.get("word"))

    def continued(self, text: object, words: object, top_k: object, seed: object, copy_bias: object) -> Iterator[str]:
        """Continuations by all causal models, one after the other."""
        work = continued(self.causal, text, words=words, top_k=top_k, seed=seed, copy_bias=copy_bias)
        yield from self._steps(self.causal, work, lambda done, waiting: copied_words(str(text), done, waiting))

    def shuffled(self, text: object, orders: object, seed: object) -> Iterator[str]:
        """Heat maps of all causal models, one after the other."""
        yield from self._steps(self.causal, shuffled(self.causal, text, orders=orders, seed=seed), heat_maps)

    def summarized(
        self, source: object, sampling: object, tokens: object, seed: object, copy_bias: object, source_only: object
    ) -> Iterator[str]:
        """Summaries by all encoder-decoder models, one after the other."""
        models = self.encoder_decoder
        knobs = {"copy_bias": copy_bias, "source_only": source_only}
        work = summarized(models, source, sampling=sampling, tokens=tokens, seed=seed, **knobs)
        yield from self._steps(models, work, lambda done, waiting: copied_words(str(source), done, waiting))

    def _steps(
        self,
        models: Sequence[ShownModel],
        work: Iterator[Result],
        html: Callable[[Sequence[Result], Sequence[str]], str],
    ) -> Iterator[str]:
        """What is awaited, then the HTML after each model. Another question may be answered in between."""
        names = [shown.name for shown in models]
        done: list[Result] = []
        yield busy(names)
        try:
            while len(done) < len(names):
                if done:
                    yield html(done, names[len(done) :])
                with self.lock:
                    done.append(next(work))
            yield html(done, ())
        except Exception as error:
            yield alert(error_message(error)) + (html(done, ()) if done else "")
