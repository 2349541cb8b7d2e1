"""unbottle train summarize: train an encoder-decoder model with another output layer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unbottle.cli.train_options import TrainingOptions, run_training, text_option, training_command
from unbottle.data.sources import NAMED
from unbottle.train.presets import SUMMARIZE_PRESETS

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from unbottle.cli.train_options import Loaded
    from unbottle.data import Pairs
    from unbottle.train.arguments import HeadTrainingArguments

EXAMPLES = """
unbottle train summarize --model t5-small --method s+cepr:20 --data samsum --preset paper --output runs/cepr
unbottle train summarize --model t5-small --method s+cepr:20+mi --data xsum --preset paper --output runs/mi
unbottle train summarize --model facebook/bart-large --data pairs.jsonl --text-column chapter --summary-column short
unbottle train summarize --model t5-small --method s+ce --data train.csv --eval-data valid.csv --preset head
unbottle train summarize --model t5-small --data samsum --gradient_accumulation_steps 4 --bf16 --dry-run
"""
HELD_OUT = "validation"  # what hub data sets call it
FRACTIONS = (0.96, 0.98)  # where validation starts and ends, as in train lm


DATA_OPTIONS = {
    "data": text_option("NAME|PATH", f"{', '.join(NAMED)}; a jsonl, csv, parquet, folder, or hub data set."),
    "text_column": text_option("NAME", "Column with documents. [that of NAME, or document]"),
    "summary_column": text_option("NAME", "Column with summaries. [that of NAME, or summary]"),
}


@training_command("summarize", SUMMARIZE_PRESETS, DATA_OPTIONS)
def train_summarize(options: TrainingOptions, dry_run: bool) -> None:
    """Train an encoder-decoder model on documents and summaries, with the Hugging Face Trainer and its arguments.

    If interrupted, rerun the same command to resume: the result is the same. DIR/model is the trained model, for
    from_pretrained and unbottle summarize; with --train lora, DIR/adapter is for PEFT. Pairs without a document or a
    summary are left out, and longer ones are truncated; both are counted. Several processes: torchrun --nproc-per-node
    2 -m unbottle train summarize ..., see docs/distributed.md.
    """
    name = options.text("data")
    hub_name = NAMED[name].path if name in NAMED else name
    run_training(options, load, data_name=hub_name, known_data=NAMED, dry_run=dry_run)


def load(options: TrainingOptions, args: HeadTrainingArguments) -> Loaded:
    """The model and its tokenizer, pairs to train on and to validate with."""
    from unbottle.cli.models import starting_model
    from unbottle.hf.pretrained import prefix_of
    from unbottle.train.arguments import SummarizeTrainingArguments

    assert isinstance(args, SummarizeTrainingArguments)
    train, valid = data_of(options.own)
    folder = Path(str(args.output_dir))
    model, tokenizer = starting_model(
        options.own, args.seed, folder=folder, train=args.train_mode, encoder_decoder=True
    )
    prefix = prefix_of(model) if args.source_prefix is None else args.source_prefix
    return model, tokenizer, tokenize(train, tokenizer, args, prefix), tokenize(valid, tokenizer, args, prefix)


def data_of(options: Mapping[str, object]) -> tuple[Dataset, Dataset]:
    """Rows of document and summary to train on, and to validate with."""
    from unbottle.data import PairSource, read_pairs
    from unbottle.data.sources import Part, parts_of

    def read(part: Part) -> Dataset:
        text, summary = options["text_column"], options["summary_column"]
        return read_pairs(
            PairSource(
                path=part.path,
                split=part.split,
                text_column=None if text is None else str(text),
                summary_column=None if summary is None else str(summary),
            )
        )

    path, other = str(options["data"]), options["eval_data"]
    parts = parts_of(path, NAMED)
    rows = read(parts["train"])
    valid = parts.get("valid") if other is None else Part(str(other), HELD_OUT)
    if valid is not None:
        return rows, read(valid)
    start, end = (round(len(rows) * fraction) for fraction in FRACTIONS)
    if start == end:
        raise ValueError(f"{path}: {len(rows)} pairs are too few to hold some out for validation: --eval-data.")
    return rows.select(range(start)), rows.select(range(start, end))


def tokenize(rows: Dataset, tokenizer: PreTrainedTokenizerBase, args: HeadTrainingArguments, prefix: str) -> Pairs:
    """Rows as tokens. Warns of documents and summaries that are truncated."""
    from unbottle.data import Pairs
    from unbottle.train.arguments import SummarizeTrainingArguments

    assert isinstance(args, SummarizeTrainingArguments)
    source, target = args.max_source_length, args.max_target_length
    pairs = Pairs(rows, tokenizer, source_length=source, target_length=target, prefix=prefix)
    for name, count, most in (
        ("documents", pairs.truncated_documents, source),
        ("summaries", pairs.truncated_summaries, target),
    ):
        if count:
            warnings.warn(
                f"{count:,} of {len(pairs):,} {name} are longer than {most} tokens and were truncated", stacklevel=2
            )
    return pairs
