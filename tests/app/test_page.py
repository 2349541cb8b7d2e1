"""The page as Gradio knows it, before any browser: its tabs, its bounds, its silence."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unbottle.app.predictions import QUEUE

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="needs Gradio: make test-browser, or pip install 'unbottle[app]'"
)
TESTS = Path(__file__).parents[1]
CAUSAL = ["Next word", "Continue", "Order of a list"]
# In a process of its own: Gradio leaves event loops open, which a test run that takes warnings for errors minds.
LOOK = """
import json, os, tiny_shown
from unbottle.app.page import page, theme

causal, others = tiny_shown.causal(), tiny_shown.encoder_decoder()
pages = {"causal": page(causal), "others": page(others), "both": page([*others, *causal])}
parts = {name: made.get_config_file()["components"] for name, made in pages.items()}
ours = [each for each in pages["both"].fns.values() if each.concurrency_id == "models"]
print(json.dumps({
    "tabs": {name: [p["props"]["label"] for p in found if p["type"] == "tabitem"] for name, found in parts.items()},
    "kinds": sorted({p["type"] for p in parts["both"]}),
    "limits": [each.concurrency_limit for each in ours],
    "visible": sorted({each.api_visibility for each in ours}),
    "queue": pages["both"]._queue.max_size,
    "open": pages["both"].api_open,
    "analytics": [os.environ["GRADIO_ANALYTICS_ENABLED"], pages["both"].analytics_enabled],
    "stylesheets": theme()._stylesheets,
}))
"""


@pytest.fixture(scope="module")
def facts() -> dict:
    paths = [str(TESTS), str(TESTS / "hf"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_tabs_are_those_that_the_models_can_fill(facts: dict) -> None:
    assert facts["tabs"] == {"causal": CAUSAL, "others": ["Summarize"], "both": [*CAUSAL, "Summarize"]}


def test_one_at_a_time_and_few_in_line(facts: dict) -> None:
    assert facts["limits"] == [1] * 7
    assert facts["visible"] == ["private"]
    assert facts["queue"] == QUEUE
    assert not facts["open"]


def test_nobody_is_told(facts: dict) -> None:
    assert facts["analytics"] == ["False", False]
    assert facts["stylesheets"] == []


def test_no_box_for_files_or_paths(facts: dict) -> None:
    assert not {"file", "fileexplorer", "uploadbutton", "image", "dropdown", "code"} & {*facts["kinds"]}
    assert {"textbox", "html", "slider"} <= {*facts["kinds"]}
