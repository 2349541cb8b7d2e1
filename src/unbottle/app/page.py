"""The app in Gradio: its tabs, which handler each control calls, and the server."""

from __future__ import annotations

import json
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
WIDEST_HALF = 240  # pixels: on a phone, sliders stand below each other
SYSTEM_FONTS = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
QUIET: dict[str, Any] = {"api_visibility": "private"}
ONE_AT_A_TIME: dict[str, Any] = QUIET | {"concurrency_limit": 1, "concurrency_id": "models", "show_progress": "minimal"}
STORY = (
    "Anna met the king of France in Paris on Monday. The king said that the old bridge over the river would be closed "
    "for a year, and that Anna should go to London instead. She did not want to, but the queen of England had sent "
    "her a letter."
)


Fields = dict[str, gradio.components.Component]  # of a tab, by their names in a link


def next_word_tab(handlers: Handlers, texts: Sequence[str]) -> Fields:
    """Next words while typing; a click on a word appends it."""
    text = _text("Text", texts[0], "next-text", info="Type, or click on a word below to append it.")
    with gradio.Row():
        words = _slider("Words of each model", predictions.SHOWN_WORDS, 8)
        bias = _copy_bias()
    output = _html("next-out", value=handlers.next_words(texts[0], words.value, bias.value))
    _examples(texts, text)

    def append(before: str, clicked: gradio.EventData) -> str:
        try:
            return handlers.append(before, clicked._data)
        except Exception as error:
            gradio.Warning(escape(error_message(error)))
            return before

    fields = {"text": text, "words": words, "copy_bias": bias}
    for field in fields.values():  # while one change is answered, only the last one after it waits
        field.change(handlers.next_words, [*fields.values()], output, trigger_mode="always_last", **ONE_AT_A_TIME)
    output.click(append, text, text, **ONE_AT_A_TIME | {"show_progress": "hidden"})
    return fields


def continue_tab(handlers: Handlers, texts: Sequence[str]) -> Fields:
    """A text, continued by each model."""
    text = _text("Text", texts[0], "continue-text", info="Each model goes on from here.")
    words = _slider("New words", predictions.NEW_WORDS, 20)
    with gradio.Accordion("Sampling and knobs", open=False):
        top_k = _slider("Sample from the k most likely words (1: always the most likely)", predictions.TOP_K, 1)
        seed = _seed()
        bias = _copy_bias()
    fields = {"text": text, "words": words, "top_k": top_k, "seed": seed, "copy_bias": bias}
    return _button("Continue", "continue", handlers.continued, fields)


def order_tab(handlers: Handlers) -> Fields:
    """A list in many orders."""
    text = _text(
        "Text with options in brackets", PROMPTS[0].marked(), "order-text",
        info="The options are shuffled. Does their order decide which one comes next?",
    )  # fmt: skip
    orders = _slider("Orders to try", predictions.ORDERS, 12)
    with gradio.Accordion("Which orders", open=False):
        seed = _seed()
    fields = _button("Shuffle", "order", handlers.shuffled, {"text": text, "orders": orders, "seed": seed})
    _examples([prompt.marked() for prompt in PROMPTS], text)
    return fields


def summarize_tab(handlers: Handlers) -> Fields:
    """A document, summarized by each model."""
    text = _text("Document", STORY, "summarize-text", lines=8, most=predictions.SOURCE)
    tokens = _slider("Length of the summary, in tokens, at most", predictions.SUMMARY_TOKENS, 60)
    with gradio.Accordion("Sampling and knobs", open=False):
        sampling = gradio.Radio([*SAMPLING], value="beams", label="Sampling")
        seed = _seed()
        bias = _copy_bias()
        only = gradio.Checkbox(label="Only words of the document (for heads that copy)")
    fields = {"text": text, "sampling": sampling, "tokens": tokens, "seed": seed, "copy_bias": bias, "only": only}
    return _button("Summarize", "summarize", handlers.summarized, fields)


def _button(name: str, place: str, answer: Callable[..., object], fields: Fields) -> Fields:
    """A button and its output; Shift and Enter in the text do the same."""
    button = gradio.Button(name, variant="primary", elem_id=f"{place}-button")
    triggers = [button.click, fields["text"].submit]
    gradio.on(triggers, answer, [*fields.values()], _html(f"{place}-out"), **ONE_AT_A_TIME)
    return fields


def _text(
    label: str, value: str, place: str, *, lines: int = 3, most: int = predictions.TEXT, info: str = ""
) -> gradio.Textbox:
    return gradio.Textbox(
        label=label, value=value, lines=lines, max_lines=12, max_length=most, elem_id=place, info=info or None
    )


def _slider(label: str, between: tuple[int, int], value: int) -> gradio.Slider:
    return gradio.Slider(*between, value=value, step=1, label=label, min_width=WIDEST_HALF)


def _seed() -> gradio.Number:
    return gradio.Number(0, label="Seed", minimum=predictions.SEED[0], maximum=predictions.SEED[1], precision=0)


def _copy_bias() -> gradio.Slider:
    info = "Makes words of the text more or less likely, in heads that copy."
    return gradio.Slider(*predictions.COPY_BIAS, value=0, step=0.5, label="Copy bias", info=info, min_width=WIDEST_HALF)


def _html(place: str, value: str = "") -> gradio.HTML:
    return gradio.HTML(value, elem_id=place, apply_default_css=False, js_on_load=_script("clicks"))


def _script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.js").read_text(encoding="utf-8")


def _examples(texts: Sequence[str], target: gradio.Textbox) -> None:
    gradio.Examples([[text] for text in texts], target, label="Examples")


def page(models: Sequence[ShownModel]) -> gradio.Blocks:
    """The page, with tabs for the kinds of models there are. It opens where the models differ most."""
    handlers = Handlers(models)
    tabs: dict[str, tuple[str, Callable[[], Fields]]] = {}
    if handlers.causal:
        texts = predictions.examples(handlers.causal)
        tabs["next"] = ("Next word", lambda: next_word_tab(handlers, texts))
        tabs["continue"] = ("Continue", lambda: continue_tab(handlers, texts))
        tabs["order"] = ("Order of a list", lambda: order_tab(handlers))
    if handlers.encoder_decoder:
        tabs["summarize"] = ("Summarize", lambda: summarize_tab(handlers))
    with gradio.Blocks(title="Unbottle", analytics_enabled=False) as blocks:
        with gradio.Row(elem_id="title"):
            gradio.HTML("<h1>Unbottle</h1><p>What the output layer does to the next word.</p>")
            gradio.Button("Copy link", size="sm", scale=0, min_width=100, elem_id="link").click(
                None, js=_linked("copy"), **QUIET
            )
        with gradio.Tabs() as bar:
            for place, (name, content) in tabs.items():
                with gradio.Tab(name, id=place) as tab:
                    _link(blocks, bar, tab, place, content())
    blocks.queue(max_size=predictions.QUEUE, default_concurrency_limit=1, api_open=False)
    return blocks


def _link(blocks: gradio.Blocks, bar: gradio.Tabs, tab: gradio.Tab, place: str, fields: Fields) -> None:
    """Keep what a tab is asked in the address of the page, and ask it again when that address is opened."""
    values = [*fields.values()]
    changes = [tab.select, *(field.change for field in values)]
    gradio.on(changes, None, values, js=_linked("save", place, [*fields]), trigger_mode="multiple", **QUIET)
    blocks.load(None, values, [bar, *values], js=_linked("open", place, [*fields]), **QUIET)


def _linked(action: str, *arguments: object) -> str:
    """JavaScript that calls a function of link.js with these arguments, and then the values of the fields."""
    given = "".join(f"{json.dumps(argument)}, " for argument in arguments)
    return f"(...values) => ({_script('link')}).{action}({given}values)"


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
