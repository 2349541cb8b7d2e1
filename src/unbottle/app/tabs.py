"""The tabs of the page: boxes, buttons, and which answer each asks for. Gradio's part, and nothing but wiring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import gradio

from unbottle.app import bounds
from unbottle.app.answers import Answers
from unbottle.app.told import told
from unbottle.eval.generate import SAMPLING
from unbottle.eval.prompt import PROMPTS

CLICKS = Path(__file__).with_name("clicks.js")
ONE_AT_A_TIME: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "models", "api_visibility": "private"}
STORY = (
    "Anna met the king of France in Paris on Monday. The king said that the old bridge over the river would be closed "
    "for a year, and that Anna should go to London instead. She did not want to, but the queen of England had sent "
    "her a letter."
)


def next_word_tab(answers: Answers, page: Any) -> None:
    """Bars that follow what is typed; a click on a word appends it."""
    with gradio.Tab("Next word"):
        text = _text("Text", str(PROMPTS[3]), "next-text", info="Type, or click on a word below to append it.")
        with gradio.Row():
            words = _slider("Words of each model", bounds.SHOWN_WORDS, 8)
            bias = _copy_bias()
        found = _html("next-out", js_on_load=CLICKS.read_text(encoding="utf-8"))
        _examples([str(prompt) for prompt in PROMPTS], text)

    def append(given: str, clicked: gradio.EventData) -> str:
        try:
            return answers.append(given, clicked._data)
        except Exception as error:
            gradio.Warning(escape(told(error)))
            return given

    asked = ([text, words, bias], found)
    for changed in (text.change, words.change, bias.change):  # while one is answered, only the last one after it waits
        changed(answers.next_words, *asked, trigger_mode="always_last", show_progress="hidden", **ONE_AT_A_TIME)
    page.load(answers.next_words, *asked, show_progress="hidden", **ONE_AT_A_TIME)
    found.click(append, text, text, show_progress="hidden", **ONE_AT_A_TIME)


def continue_tab(answers: Answers) -> None:
    """A text, continued by each model."""
    with gradio.Tab("Continue"):
        text = _text("Text", str(PROMPTS[0]), "continue-text", info="Each model goes on from here.")
        words = _slider("New words", bounds.NEW_WORDS, 20)
        with gradio.Accordion("Sampling and knobs", open=False):
            top_k = _slider("Sample from the k most likely words (1: always the most likely)", bounds.TOP_K, 1)
            seed = _seed()
            bias = _copy_bias()
        _asked("Continue", "continue", answers.continued, text, [words, top_k, seed, bias])


def order_tab(answers: Answers) -> None:
    """A list in many orders."""
    with gradio.Tab("Order of a list"):
        text = _text(
            "Text with options in brackets", PROMPTS[0].marked(), "order-text",
            info="The options are shuffled. Does their order decide which one comes next?",
        )  # fmt: skip
        orders = _slider("Orders to try", bounds.ORDERS, 12)
        with gradio.Accordion("Which orders", open=False):
            seed = _seed()
        _asked("Shuffle", "order", answers.shuffled, text, [orders, seed])
        _examples([prompt.marked() for prompt in PROMPTS], text)


def summarize_tab(answers: Answers) -> None:
    """A document, summarized by each model."""
    with gradio.Tab("Summarize"):
        text = _text("Document", STORY, "summarize-text", lines=8, most=bounds.SOURCE)
        tokens = _slider("Length of the summary, in tokens, at most", bounds.SUMMARY_TOKENS, 60)
        with gradio.Accordion("Sampling and knobs", open=False):
            sampling = gradio.Radio([*SAMPLING], value="beams", label="Sampling")
            seed = _seed()
            bias = _copy_bias()
            only = gradio.Checkbox(label="Only words of the document (for heads that copy)")
        _asked("Summarize", "summarize", answers.summarized, text, [sampling, tokens, seed, bias, only])


def _asked(name: str, place: str, answer: Callable[..., Any], text: Any, others: Sequence[Any]) -> None:
    """A button, and where its answer appears. Shift and Enter in the text do the same."""
    button = gradio.Button(name, variant="primary", elem_id=f"{place}-button")
    found = _html(f"{place}-out")
    gradio.on([button.click, text.submit], answer, [text, *others], found, show_progress="minimal", **ONE_AT_A_TIME)


def _text(label: str, value: str, place: str, *, lines: int = 3, most: int = bounds.TEXT, info: str = "") -> Any:
    return gradio.Textbox(
        label=label, value=value, lines=lines, max_lines=12, max_length=most, elem_id=place, info=info or None
    )


def _slider(label: str, between: tuple[int, int], value: int) -> Any:
    return gradio.Slider(*between, value=value, step=1, label=label)


def _seed() -> Any:
    return gradio.Number(0, label="Seed", minimum=bounds.SEED[0], maximum=bounds.SEED[1], precision=0)


def _copy_bias() -> Any:
    least, most = bounds.COPY_BIAS
    return gradio.Slider(
        least, most, value=0, step=0.5, label="Copy bias (words of the text more or less likely; for heads that copy)"
    )


def _html(place: str, **options: Any) -> Any:
    return gradio.HTML(elem_id=place, apply_default_css=False, padding=False, **options)


def _examples(texts: Sequence[str], target: Any) -> None:
    gradio.Examples([[text] for text in texts], target, label="Examples")
