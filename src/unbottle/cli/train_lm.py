"""unbottle train lm: train a causal language model with another output layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.options import TEXT_HELP
from unbottle.cli.train_options import TrainingOptions, run_training, text_option, training_command
from unbottle.train.presets import PRESETS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from unbottle.cli.train_options import Loaded
    from unbottle.data import StreamedWindows, Windows
    from unbottle.train.arguments import HeadTrainingArguments

EXAMPLES = """
unbottle train lm --model smollm2 --method softmax+cpr:20,100+mi --data python --preset head --streaming --max_steps 200
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data wikitext-2 --preset paper --dry-run
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data texts/ --preset head --output runs/head
unbottle train lm --model gpt2 --method ps --data owner/name:config --streaming --max_steps 10000 --output runs/ps
unbottle train lm --config small.json --tokenizer gpt2 --data wiki.txt --preset scratch --output runs/small
unbottle train lm --config-file examples/07_train_lm.yaml --gradient_accumulation_steps 4 --bf16 --dry-run
"""


DATA_OPTIONS = {
    "data": text_option("PATH", TEXT_HELP),
    "text_column": text_option("NAME", "Column with texts. [text]"),
    "streaming": Annotated[
        bool | None, typer.Option("--streaming", help="Read --data while training. Needs --max_steps.")
    ],
}


@training_command("lm", PRESETS, DATA_OPTIONS)
def train_lm(options: TrainingOptions, dry_run: bool) -> None:
    """Train a causal language model on text, with the Hugging Face Trainer and its arguments.

    A hub data set, or a folder with files train, valid and test, has its own parts; any other text is split 96/2/2 into
    training, validation and test, without shuffling, unless --eval-data is given. If interrupted, rerun the same
    command to resume: the result is the same. DIR/model is the trained model, for from_pretrained and unbottle eval;
    with --train lora, DIR/adapter is for PEFT. Several processes: torchrun --nproc-per-node 2 -m unbottle train lm ...,
    see docs/distributed.md.
    """
    run_training(options, load, data_name=options.text("data"), dry_run=dry_run)


def load(options: TrainingOptions, args: HeadTrainingArguments) -> Loaded:
    """The model and its tokenizer, windows to train on and to validate with."""
    from unbottle.cli.models import starting_model
    from unbottle.train.arguments import LMTrainingArguments

    assert isinstance(args, LMTrainingArguments)
    model, tokenizer = starting_model(options.own, args.seed, folder=Path(str(args.output_dir)), train=args.train_mode)
    return model, tokenizer, *data_of(options.own, tokenizer, args.window_length)


def data_of(
    options: Mapping[str, object], tokenizer: PreTrainedTokenizerBase, length: int
) -> tuple[Windows | StreamedWindows, Windows | None]:
    """Windows to train on, and to validate with."""
    from unbottle.data import StreamedWindows, TextSource, Windows, read_texts, split, tokens_of
    from unbottle.data.sources import Part, parts_of

    column, path = str(options.get("text_column") or "text"), str(options["data"])
    other, streaming = options.get("eval_data"), bool(options.get("streaming"))
    parts = parts_of(path)
    valid_part = parts.get("valid") if other is None else parts_of(str(other)).get("valid", Part(str(other)))
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
