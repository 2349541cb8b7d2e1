"""The page: tabs for the models that were given, and the server that shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before the import: it looks once

import gradio

from unbottle.app import bounds
from unbottle.app.answers import Answers
from unbottle.app.shown_model import ShownModel
from unbottle.app.tabs import continue_tab, next_word_tab, order_tab, summarize_tab

STYLE = Path(__file__).with_name("style.css")
SYSTEM_FONTS = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}


def page(models: Sequence[ShownModel]) -> Any:
    """Tabs for causal models if there are some, and for encoder-decoder models if there are some."""
    answers = Answers(models)
    with gradio.Blocks(title="Unbottle", analytics_enabled=False) as made:
        gradio.HTML("<h1>Unbottle</h1><p>What the output layer does to the next word.</p>", elem_id="title")
        with gradio.Tabs():
            if answers.causal:
                next_word_tab(answers, made)
                continue_tab(answers)
                order_tab(answers)
            if answers.encoder_decoder:
                summarize_tab(answers)
    made.queue(max_size=bounds.QUEUE, default_concurrency_limit=1, api_open=False)
    return made


def theme() -> Any:
    """Gradio's own, without its web fonts, and with notes dark enough to read."""
    notes = {"body_text_color_subdued": "*neutral_600", "block_info_text_color": "*neutral_600"}
    dark = {f"{name}_dark": "*neutral_300" for name in notes}
    return gradio.themes.Default(**SYSTEM_FONTS).set(**notes, **dark)


@contextmanager
def served(models: Sequence[ShownModel], *, host: str, port: int | None) -> Iterator[str]:
    """The address of the page, as long as the block lasts. Nothing is shared, uploaded or sent elsewhere."""
    made = page(models)
    try:
        _, address, _ = made.launch(
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
            css=STYLE.read_text(encoding="utf-8"),
        )
        yield address
    finally:
        made.close(verbose=False)
