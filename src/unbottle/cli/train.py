"""unbottle train lm and unbottle train summarize: train a model with another output layer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbottle.cli.options import TEXT_HELP, flag
from unbottle.cli.train_options import TrainingOptions, run_training, text_option, training_command
from unbottle.data.sources import NAMED
from unbottle.train.presets import PRESETS, SUMMARIZE_PRESETS

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from unbottle.cli.train_options import Loaded
    from unbottle.data import Pairs, StreamedWindows, Windows
    from unbottle.train.arguments import LMTrainingArguments, SummarizeTrainingArguments

LM_EXAMPLES = """
unbottle train lm --model smollm2 --method softmax+cpr:20,100+mi --data python --preset head --streaming --max_steps 200
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data wikitext-2 --preset paper --dry-run
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data texts/ --preset head --output runs/head
unbottle train lm --model gpt2 --method ps --data owner/name:config --streaming --max_steps 10000 --output runs/ps
unbottle train lm --config small.json --tokenizer gpt2 --data wiki.txt --preset scratch --output runs/small
unbottle train lm --config-file examples/07_train_lm.yaml --gradient_accumulation_steps 4 --bf16 --dry-run
"""
SUMMARIZE_EXAMPLES = """
unbottle train summarize --model t5-small --method s+cepr:20 --data samsum --preset paper --output runs/cepr
unbottle train summarize --model t5-small --method s+cepr:20+mi --data xsum --preset paper --output runs/mi
unbottle train summarize --model facebook/bart-large --data pairs.jsonl --text-column chapter --summary-column short
unbottle train summarize --model t5-small --method s+ce --data train.csv --eval-data valid.csv --preset head
unbottle train summarize --model t5-small --data samsum --gradient_accumulation_steps 4 --bf16 --dry-run
"""
HELD_OUT = "validation"  # what hub data sets call it
FRACTIONS = (0.96, 0.98)  # where validation starts and ends, as for texts

TEXT_OPTIONS = {
    "data": text_option("PATH", TEXT_HELP),
    "text_column": text_option("NAME", "Column with texts. [text]"),
    "streaming": Annotated[bool | None, flag("--streaming", "Read --data while training. Needs --max_steps.")],
}
PAIR_OPTIONS = {
    "data": text_option("NAME|PATH", f"{', '.join(NAMED)}; a jsonl, csv, parquet, folder, or hub data set."),
    "text_column": text_option("NAME", "Column with documents. [that of NAME, or document]"),
    "summary_column": text_option("NAME", "Column with summaries. [that of NAME, or summary]"),
}


@training_command("lm", PRESETS, TEXT_OPTIONS)
def train_lm(options: TrainingOptions, dry_run: bool) -> None:
    """Train a causal language model on text, with the Hugging Face Trainer and its arguments.

    A hub data set, or a folder with files train, valid and test, has its own parts; any other text is split 96/2/2 into
    training, validation and test, without shuffling, unless --eval-data is given. If interrupted, rerun the same
    command to resume: the result is the same. DIR/model is the trained model, for from_pretrained and unbottle eval;
    with --train lora, DIR/adapter is for PEFT. Several processes: torchrun --nproc-per-node 2 -m unbottle train lm ...,
    see docs/distributed.md.
    """
    run_training(options, load_lm, data_name=options.own["data"], dry_run=dry_run)


@training_command("summarize", SUMMARIZE_PRESETS, PAIR_OPTIONS)
def train_summarize(options: TrainingOptions, dry_run: bool) -> None:
    """Train an encoder-decoder model on documents and summaries, with the Hugging Face Trainer and its arguments.

    If interrupted, rerun the same command to resume: the result is the same. DIR/model is the trained model, for
    from_pretrained and unbottle summarize; with --train lora, DIR/adapter is for PEFT. Pairs without a document or a
    summary are left out, and longer ones are truncated; both are counted. Several processes: torchrun --nproc-per-node
    2 -m unbottle train summarize ..., see docs/distributed.md.
    """
    name = options.own["data"]
    hub_name = NAMED[name].path if name in NAMED else name
    run_training(options, load_summarize, data_name=hub_name, known_data=NAMED, dry_run=dry_run)


def load_lm(options: TrainingOptions, args: LMTrainingArguments) -> Loaded:
    """The model and its tokenizer, windows to train on and to validate with."""
    from unbottle.cli.models import starting_model

    model, tokenizer = starting_model(options.own, args.seed, folder=Path(str(args.output_dir)), train=args.train_mode)
    return model, tokenizer, *windows(options.own, tokenizer, args.window_length)


def load_summarize(options: TrainingOptions, args: SummarizeTrainingArguments) -> Loaded:
    """The model and its tokenizer, pairs to train on and to validate with."""
    from unbottle.cli.models import starting_model
    from unbottle.hf.pretrained import prefix_of

    train, valid = pair_rows(options.own)
    folder = Path(str(args.output_dir))
    model, tokenizer = starting_model(
        options.own, args.seed, folder=folder, train=args.train_mode, encoder_decoder=True
    )
    prefix = prefix_of(model) if args.source_prefix is None else args.source_prefix
    return model, tokenizer, tokenize(train, tokenizer, args, prefix), tokenize(valid, tokenizer, args, prefix)


def windows(
    options: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, length: int
) -> tuple[Windows | StreamedWindows, Windows | None]:
    """Windows to train on, and to validate with."""
    from unbottle.data import StreamedWindows, TextSource, Windows, read_texts, split, tokens_of
    from unbottle.data.sources import Part, parts_of

    column, path, other = options.get("text_column") or "text", options["data"], options.get("eval_data")
    streaming = bool(options.get("streaming"))
    parts = parts_of(path)
    valid_part = parts.get("valid") if other is None else parts_of(other).get("valid", Part(other))
    train_part = parts["train"]
    texts = read_texts(TextSource(path=train_part.path, column=column, split=train_part.split, streaming=streaming))
    valid_tokens = None
    if valid_part is not None:
        source = TextSource(path=valid_part.path, column=column, split=valid_part.split)
        valid_tokens = tokens_of(read_texts(source), tokenizer)
    if streaming:
        valid = None if valid_tokens is None else Windows(valid_tokens, length)
        return StreamedWindows(texts, tokenizer, length), valid
    train_tokens = tokens_of(texts, tokenizer)
    if valid_tokens is None:
        pieces = split(train_tokens)
        train_tokens, valid_tokens = pieces["train"], pieces["valid"]
    if len(train_tokens) < length:
        raise ValueError(f"{path}: {len(train_tokens)} tokens to train on are less than a window of {length} tokens.")
    if len(valid_tokens) < 2:
        raise ValueError(f"{other or path}: {len(valid_tokens)} tokens for validation. Give more text in --eval-data.")
    return Windows(train_tokens, length, whole=True), Windows(valid_tokens, length)


def pair_rows(options: Mapping[str, Any]) -> tuple[Dataset, Dataset]:
    """Rows of document and summary to train on, and to validate with."""
    from unbottle.data import PairSource, read_pairs
    from unbottle.data.sources import Part, parts_of

    def read(part: Part) -> Dataset:
        columns = {name: options[name] for name in ("text_column", "summary_column")}
        return read_pairs(PairSource(path=part.path, split=part.split, **columns))

    path, other = options["data"], options["eval_data"]
    parts = parts_of(path, NAMED)
    rows = read(parts["train"])
    valid = parts.get("valid") if other is None else Part(other, HELD_OUT)
    if valid is not None:
        return rows, read(valid)
    start, end = (round(len(rows) * fraction) for fraction in FRACTIONS)
    if start == end:
        raise ValueError(f"{path}: {len(rows)} pairs are too few to hold some out for validation: --eval-data.")
    return rows.select(range(start)), rows.select(range(start, end))


def tokenize(rows: Dataset, tokenizer: PreTrainedTokenizerBase, args: SummarizeTrainingArguments, prefix: str) -> Pairs:
    """Rows as tokens. Warns of documents and summaries that are truncated."""
    from unbottle.data import Pairs

    source, target = args.max_source_length, args.max_target_length
    pairs = Pairs(rows, tokenizer, source_length=source, target_length=target, prefix=prefix)
    truncated = {"documents": (pairs.truncated_documents, source), "summaries": (pairs.truncated_summaries, target)}
    for name, (count, most) in truncated.items():
        if count:
            text = f"{count:,} of {len(pairs):,} {name} are longer than {most} tokens and were truncated"
            warnings.warn(text, stacklevel=2)
    return pairs
