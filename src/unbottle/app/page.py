"""The app in Gradio: its tabs, which handler each control calls, and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio

from unbottle.app import predictions
from unbottle.app.handlers import Handlers, error_message
from unbottle.app.predictions import ShownModel
from unbottle.eval.generation import SAMPLING
from unbottle.eval.next_words import PROMPTS
from unbottle.report.palette import stylesheet

STYLE = Path(__file__).with_name("style.css")
DARK = ".dark {}"  # how Gradio marks a dark page
SYSTEM_FONTS = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
CLICKS = Path(__file__).with_name("clicks.js")
ONE_AT_A_TIME: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "models", "api_visibility": "private"}
STORY = (
    "Anna met the king of France in Paris on Monday. The king said that the old bridge over the river would be closed "
    "for a year, and that Anna should go to London instead. She did not want to, but the queen of England had sent "
    "her a letter."
)


def next_word_tab(handlers: Handlers, page: gradio.Blocks) -> None:
    """Next words while typing; a click on a word appends it."""
    with gradio.Tab("Next word"):
        text = _text("Text", str(PROMPTS[3]), "next-text", info="Type, or click on a word below to append it.")
        with gradio.Row():
            words = _slider("Words of each model", predictions.SHOWN_WORDS, 8)
            bias = _copy_bias()
        output = _html("next-out", js_on_load=CLICKS.read_text(encoding="utf-8"))
        _examples([str(prompt) for prompt in PROMPTS], text)

    def append(before: str, clicked: gradio.EventData) -> str:
        try:
            return handlers.append(before, clicked._data)
        except Exception as error:
            gradio.Warning(escape(error_message(error)))
            return before

    arguments = ([text, words, bias], output)
    for changed in (text.change, words.change, bias.change):  # while one is answered, only the last one after it waits
        changed(handlers.next_words, *arguments, trigger_mode="always_last", show_progress="hidden", **ONE_AT_A_TIME)
    page.load(handlers.next_words, *arguments, show_progress="hidden", **ONE_AT_A_TIME)
    output.click(append, text, text, show_progress="hidden", **ONE_AT_A_TIME)


def continue_tab(handlers: Handlers) -> None:
    """A text, continued by each model."""
    with gradio.Tab("Continue"):
        text = _text("Text", str(PROMPTS[0]), "continue-text", info="Each model goes on from here.")
        words = _slider("New words", predictions.NEW_WORDS, 20)
        with gradio.Accordion("Sampling and knobs", open=False):
            top_k = _slider("Sample from the k most likely words (1: always the most likely)", predictions.TOP_K, 1)
            seed = _seed()
            bias = _copy_bias()
        _button("Continue", "continue", handlers.continued, text, [words, top_k, seed, bias])


def order_tab(handlers: Handlers) -> None:
    """A list in many orders."""
    with gradio.Tab("Order of a list"):
        text = _text(
            "Text with options in brackets", PROMPTS[0].marked(), "order-text",
            info="The options are shuffled. Does their order decide which one comes next?",
        )  # fmt: skip
        orders = _slider("Orders to try", predictions.ORDERS, 12)
        with gradio.Accordion("Which orders", open=False):
            seed = _seed()
        _button("Shuffle", "order", handlers.shuffled, text, [orders, seed])
        _examples([prompt.marked() for prompt in PROMPTS], text)


def summarize_tab(handlers: Handlers) -> None:
    """A document, summarized by each model."""
    with gradio.Tab("Summarize"):
        text = _text("Document", STORY, "summarize-text", lines=8, most=predictions.SOURCE)
        tokens = _slider("Length of the summary, in tokens, at most", predictions.SUMMARY_TOKENS, 60)
        with gradio.Accordion("Sampling and knobs", open=False):
            sampling = gradio.Radio([*SAMPLING], value="beams", label="Sampling")
            seed = _seed()
            bias = _copy_bias()
            only = gradio.Checkbox(label="Only words of the document (for heads that copy)")
        _button("Summarize", "summarize", handlers.summarized, text, [sampling, tokens, seed, bias, only])


def _button(
    name: str,
    place: str,
    answer: Callable[..., object],
    text: gradio.Textbox,
    others: Sequence[gradio.components.Component],
) -> None:
    """A button and its output; Shift and Enter in the text do the same."""
    button = gradio.Button(name, variant="primary", elem_id=f"{place}-button")
    output = _html(f"{place}-out")
    gradio.on([button.click, text.submit], answer, [text, *others], output, show_progress="minimal", **ONE_AT_A_TIME)


def _text(
    label: str, value: str, place: str, *, lines: int = 3, most: int = predictions.TEXT, info: str = ""
) -> gradio.Textbox:
    return gradio.Textbox(
        label=label, value=value, lines=lines, max_lines=12, max_length=most, elem_id=place, info=info or None
    )


def _slider(label: str, between: tuple[int, int], value: int) -> gradio.Slider:
    return gradio.Slider(*between, value=value, step=1, label=label)


def _seed() -> gradio.Number:
    return gradio.Number(0, label="Seed", minimum=predictions.SEED[0], maximum=predictions.SEED[1], precision=0)


def _copy_bias() -> gradio.Slider:
    least, most = predictions.COPY_BIAS
    return gradio.Slider(
        least, most, value=0, step=0.5, label="Copy bias (words of the text more or less likely; for heads that copy)"
    )


def _html(place: str, **options: str) -> gradio.HTML:
    return gradio.HTML(elem_id=place, apply_default_css=False, padding=False, **options)


def _examples(texts: Sequence[str], target: gradio.Textbox) -> None:
    gradio.Examples([[text] for text in texts], target, label="Examples")


def page(models: Sequence[ShownModel]) -> gradio.Blocks:
    """The page, with tabs for the kinds of models there are."""
    handlers = Handlers(models)
    with gradio.Blocks(title="Unbottle", analytics_enabled=False) as blocks:
        gradio.HTML("<h1>Unbottle</h1><p>What the output layer does to the next word.</p>", elem_id="title")
        with gradio.Tabs():
            if handlers.causal:
                next_word_tab(handlers, blocks)
                continue_tab(handlers)
                order_tab(handlers)
            if handlers.encoder_decoder:
                summarize_tab(handlers)
    blocks.queue(max_size=predictions.QUEUE, default_concurrency_limit=1, api_open=False)
    return blocks


def theme() -> gradio.themes.Base:
    """The default theme without web fonts, and with notes dark enough to read."""
    notes = {"body_text_color_subdued": "*neutral_600", "block_info_text_color": "*neutral_600"}
    dark = {f"{name}_dark": "*neutral_300" for name in notes}
    return gradio.themes.Default(**SYSTEM_FONTS).set(**notes, **dark)


@contextmanager
def served(models: Sequence[ShownModel], *, host: str, port: int | None) -> Iterator[str]:
    """Serve the page within this context and return its address. Nothing is shared, uploaded or sent elsewhere."""
    blocks = page(models)
    widgets = (files("unbottle.report") / "widgets.css").read_text(encoding="utf-8")
    try:
        _, address, _ = blocks.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            show_error=False,
            ssr_mode=False,
            mcp_server=False,
            pwa=False,
            enable_monitoring=False,
            max_file_size="1kb",
            max_threads=4,
            footer_links=[],
            theme=theme(),
            css=stylesheet(DARK) + widgets + STYLE.read_text(encoding="utf-8"),
        )
        yield address
    finally:
        blocks.close(verbose=False)
