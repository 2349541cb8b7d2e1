"""Take the picture of `unbottle app` for the README, with two small models that are trained on the spot.

    python scripts/app_picture.py docs/images/app.png

Needs what `make test-browser` installs, and chromium. The models read sentences after which exactly two words are
possible (unbottle.data.analogy, family words): one with its own softmax, one with a head, the same data and steps.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import unbottle
from unbottle.app.page import served
from unbottle.app.predictions import ShownModel
from unbottle.data.analogy import analogies, training_text
from unbottle.experiments.corpora import Sentences, train_tokenizer
from unbottle.train import Settings, train_lm

METHODS = {"softmax": None, "cpr": "softmax+cpr:5,20+mi:2x2"}
WIDTH, HEIGHT = 1120, 760


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    asked = parser.parse_args()
    items = analogies(relations=["family"], kinds=["diagonal"], parts=["train"])
    with tempfile.TemporaryDirectory() as folder:
        models = trained(training_text(items), Path(folder))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with served(models, host="127.0.0.1", port=None) as address:
        photograph(address, items[0].prompt, asked.output, asked.width, asked.height)
    print(f"Written to {asked.output}")


def trained(texts: list[str], folder: Path) -> list[ShownModel]:
    """The same small GPT-2 with each head, after the same steps."""
    tokenizer = train_tokenizer(texts, 500)
    found = []
    for name, method in METHODS.items():
        model = small(len(tokenizer))
        if method is not None:
            torch.manual_seed(1)
            unbottle.attach(model, method)
        settings = Settings(output=str(folder / name), lr=3e-3, max_steps=400, batch=16, report_to=(), device="cpu")
        train_lm(model, Sentences(texts, tokenizer), None, settings)
        found.append(ShownModel(name=name, model=model.eval(), tokenizer=tokenizer))
    return found


def small(vocabulary: int) -> Any:
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=2, n_positions=128, **ends))


def photograph(address: str, prompt: str, output: Path, width: int, height: int) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(address)
        page.locator("#next-text textarea").fill(prompt)
        page.locator("#next-out button").first.wait_for()
        page.wait_for_timeout(3000)
        page.screenshot(path=output)
        browser.close()


if __name__ == "__main__":
    main()
