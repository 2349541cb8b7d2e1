"""The page as Gradio knows it, before any browser: its tabs, its bounds, its silence."""

from __future__ import annotations

import os

import pytest
import tiny_shown

gradio = pytest.importorskip("gradio", reason="needs Gradio: make test-browser, or pip install 'unbottle[app]'")
pytestmark = pytest.mark.filterwarnings("default")  # Gradio's own

from unbottle.app.bounds import QUEUE  # noqa: E402
from unbottle.app.page import page, theme  # noqa: E402

CAUSAL = ["Next word", "Continue", "Order of a list"]


def tabs(made) -> list[str]:
    return [each["props"]["label"] for each in made.get_config_file()["components"] if each["type"] == "tabitem"]


def test_tabs_are_those_that_the_models_can_fill() -> None:
    assert tabs(page(tiny_shown.causal())) == CAUSAL
    assert tabs(page(tiny_shown.encoder_decoder())) == ["Summarize"]
    assert tabs(page([*tiny_shown.encoder_decoder(), *tiny_shown.causal()])) == [*CAUSAL, "Summarize"]


def test_one_at_a_time_and_few_in_line() -> None:
    made = page([*tiny_shown.encoder_decoder(), *tiny_shown.causal()])
    ours = [each for each in made.fns.values() if each.concurrency_id == "models"]
    assert len(ours) == 8
    assert {each.concurrency_limit for each in ours} == {1}
    assert {each.api_visibility for each in made.fns.values() if each in ours} == {"private"}
    assert made._queue.max_size == QUEUE
    assert not made.api_open


def test_nobody_is_told() -> None:
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert not page(tiny_shown.causal()).analytics_enabled
    assert theme()._stylesheets == []


def test_no_box_for_files_or_paths() -> None:
    config = page([*tiny_shown.encoder_decoder(), *tiny_shown.causal()]).get_config_file()
    kinds = {each["type"] for each in config["components"]}
    assert kinds <= {
        "accordion", "button", "checkbox", "dataset", "form", "html", "number", "radio", "row", "slider", "state",
        "tabitem", "tabs", "textbox", "column",
    }  # fmt: skip
