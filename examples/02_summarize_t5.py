"""Fine-tune an encoder-decoder model to summarize: python examples/02_summarize_t5.py [model] [method] [pairs]

`pairs` is a jsonl, csv or parquet file with columns document and summary, or a data set on the Hugging Face Hub; the
default is a few pairs in this file. The default model, t5-small, is downloaded from the Hub.
Needs `pip install '.[train]'` in a clone of the repository.
"""

from __future__ import annotations

import sys
import tempfile

from datasets import Dataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import unbottle
from unbottle.data import Pairs, PairSource, read_pairs
from unbottle.eval import Decoding, predictions
from unbottle.train import SummarizeSettings, train_summarize

NAMES = ("Ada", "Boris", "Chen", "Dora")
THINGS = ("the red bicycle", "a piano", "two old maps", "the garden gate")
PAIRS = [
    {
        "document": f"{one}: I could not carry {thing} alone. {two}: I will help you with it tomorrow at noon.",
        "summary": f"{two} will help {one} with {thing}.",
    }
    for one in NAMES
    for two in NAMES
    for thing in THINGS
    if one != two
]


def main(name: str = "t5-small", method: str = "s+cepr:20", pairs: str | None = None, **changes: object) -> list[float]:
    """Train, then summarize; return the validation losses. `changes` are settings of the training."""
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    unbottle.attach(model, method)  # the only line that changes
    rows = Dataset.from_list(PAIRS) if pairs is None else read_pairs(PairSource(path=pairs))
    rows = rows.train_test_split(test_size=0.1, seed=0)
    lengths = {"source_length": 128, "target_length": 32}
    train, valid = (Pairs(rows[part], tokenizer, prefix="summarize: ", **lengths) for part in ("train", "test"))

    with tempfile.TemporaryDirectory() as folder:
        chosen = {"batch": 8, "lr": 1e-3, "max_steps": 60, "report_to": (), **lengths} | changes
        result = train_summarize(model, train, valid, SummarizeSettings(output=folder, **chosen), tokenizer=tokenizer)

    losses = [loss for _, loss in result.valid_losses]
    print(f"validation loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    documents = rows["test"]["document"][:3]
    decoding = Decoding(sampling="beams", max_length=24)
    for document, summary in zip(documents, predictions(model, tokenizer, documents, decoding), strict=True):
        print(f"\n{document}\n  -> {summary.text}")
    return losses


if __name__ == "__main__":
    main(*sys.argv[1:])
