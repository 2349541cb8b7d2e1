"""Train a classifier of FactCC's architecture on constructed claims, and compare it with people.

    python scripts/train_factcc.py --data samsum --output runs/factcc [--people mturk_cnndm.jsonl] [--base NAME]

Claims are those of factcc_claims.py, of the documents of the training part; those that do not fit in `--length` tokens
with their document are left out, because what supports them might be cut. Without --base the classifier is a
small BERT from random weights, whose tokenizer is trained on the documents: it exercises the metric, and is no judge.
`--base manueldeprada/FactCC` continues from the published checkpoint for one epoch, as the paper does; any other BERT
gets a new classification layer. The folder is what `unbottle eval summaries --metrics factcc --entailment FOLDER`
reads; table.md in it has the accuracies on claims of test documents, by kind of swap, and with --people (the file of
QAGS) the AUC against the majority of three votes. If interrupted, rerun the same command to resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from datasets import Dataset
from factcc_claims import Claim, claims
from support_vs_people import read, row
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

from unbottle.eval.inference import best_device
from unbottle.eval.metrics.model_based import LONGEST_PAIR
from unbottle.eval.proper_nouns import tagger
from unbottle.experiments.corpora import PairCorpus, train_pair_tokenizer
from unbottle.files import read_json, write_json, write_text
from unbottle.hf.pretrained import NO_CODE, SAFE
from unbottle.tables import Table

LABELS = {0: "CORRECT", 1: "INCORRECT"}  # as the published checkpoint calls them


def classifier(base: str | None, texts: Sequence[str], length: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The published checkpoint, another BERT with a new layer for the labels, or a small BERT from random weights."""
    if base is not None:
        model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=len(LABELS), **SAFE)
        model.config.id2label, model.config.label2id = LABELS, {name: number for number, name in LABELS.items()}
        return model, AutoTokenizer.from_pretrained(base, **NO_CODE)
    tokenizer = train_pair_tokenizer(texts, 8192)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=length, type_vocab_size=2, pad_token_id=tokenizer.pad_token_id,
        id2label=LABELS, label2id={name: number for number, name in LABELS.items()},
    )  # fmt: skip
    tokenizer.model_max_length = length
    return BertForSequenceClassification(config), tokenizer


def fitting(tokenizer: PreTrainedTokenizerBase, some: Sequence[Claim], length: int) -> Dataset:
    """Claims as token ids with their labels, without those that would be cut."""
    pairs = tokenizer([claim.document for claim in some], [claim.text for claim in some])
    rows = Dataset.from_dict({**pairs, "labels": [int(not claim.supported) for claim in some]})
    return rows.filter(lambda row: len(row["input_ids"]) <= length)


@torch.no_grad()
def support(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, some: Sequence[Claim], length: int
) -> list[float]:
    """The probability of CORRECT for each claim."""
    model.eval()
    values: list[float] = []
    for start in range(0, len(some), 32):
        part = some[start : start + 32]
        inputs = tokenizer(
            [claim.document for claim in part], [claim.text for claim in part], truncation="longest_first",
            max_length=length, padding=True, return_tensors="pt",
        )  # fmt: skip
        values += model(**inputs.to(model.device)).logits.softmax(-1)[:, 0].tolist()
    return values


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, args: argparse.Namespace) -> None:
    """Passes over all claims in random order; a learning rate that rises for 100 steps and falls to 0."""
    folder = args.output / "checkpoints"
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=args.epochs, max_steps=args.steps, learning_rate=args.lr,
        per_device_train_batch_size=args.batch, warmup_steps=100, bf16=args.bf16, seed=args.seed, logging_steps=100,
        save_steps=100, save_total_limit=1, report_to="none", disable_tqdm=True, use_cpu=not torch.cuda.is_available(),
        train_sampling_strategy="group_by_length",
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer),
    )  # fmt: skip
    if len(rows) == 0:
        raise ValueError(f"--length {args.length}: no claim fits in with its document.")
    check_settings(args)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if folder.exists() else None)


def check_settings(args: argparse.Namespace) -> None:
    """Store the settings of the training, and refuse a folder that was trained with others."""
    path = args.output / "settings.json"
    settings = {name: str(value) for name, value in vars(args).items() if name not in ("output", "people")}
    if path.exists() and read_json(path) != settings:
        raise ValueError(f"{args.output}: trained with other settings (settings.json). Choose another --output.")
    args.output.mkdir(parents=True, exist_ok=True)
    write_json(path, settings)


def accuracies(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, some: Sequence[Claim], length: int) -> Table:
    """The share of claims that are classified right, as they are and by kind of swap."""
    values = support(model, tokenizer, some, length)
    right = [(value > 0.5) == claim.supported for value, claim in zip(values, some, strict=True)]
    kinds = {None: "as they are"} | {claim.swap: f"{claim.swap} swapped" for claim in some if claim.swap}
    rows = []
    for kind, name in kinds.items():
        of_kind = [correct for correct, claim in zip(right, some, strict=True) if claim.swap == kind]
        rows.append([name, str(len(of_kind)), f"{sum(of_kind) / len(of_kind):.3f}"])
    return Table(["claims of test documents", "number", "accuracy"], rows)


def agreement(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, people: Path, length: int) -> Table:
    """How well the probability of CORRECT separates what most people call supported from the rest."""
    judged = read(people)
    values = support(model, tokenizer, [Claim(document=one.source, text=one.text) for one in judged], length)
    return Table(["against people (QAGS)", "sentences", "AUC", "95 %"], [row("this classifier", values, judged)])


def main(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    corpus, tag = PairCorpus.read(args.data), tagger(args.tagger)
    documents = [*corpus.train["document"]][: args.documents]
    model, tokenizer = classifier(args.base, documents, args.length)
    made = claims(documents, tag, seed=args.seed, per_document=args.per_document)
    rows = fitting(tokenizer, made, args.length)
    about = f"{len(rows)} of {len(made)} claims of {len(documents)} documents fit; names by {tag.description}."
    print(about, flush=True)
    held_out = claims([*corpus.test["document"]], tag, seed=args.seed)
    if not held_out:
        raise ValueError(f"{args.data}: no claim can be made of its test documents.")
    train(model, tokenizer, rows, args)
    model = model.to(best_device())
    model.save_pretrained(args.output)
    tokenizer.save_pretrained(args.output)
    longest = min(LONGEST_PAIR, model.config.max_position_embeddings)
    tables = [accuracies(model, tokenizer, held_out, longest)]
    if args.people is not None:
        tables.append(agreement(model, tokenizer, args.people, longest))
    text = "\n\n".join([*(table.markdown() for table in tables), about])
    write_text(args.output / "table.md", f"{text}\n")
    print(f"{text}\nWritten to {args.output}")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="Pairs of document and summary, as for unbottle reproduce.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--base", help="A classifier or BERT to go on from. [a small BERT from random weights]")
    parser.add_argument("--people", type=Path, help="mturk_cnndm.jsonl of QAGS.")
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--per-document", type=int, default=2, help="Sentences of a document, each with one swap.")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=-1, help="Number of training steps. [those of --epochs]")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--length", type=int, default=256, help="Tokens of a document and a claim, at most.")
    parser.add_argument("--bf16", action="store_true", help="Train under bfloat16 autocast.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tagger", default="auto")
    return parser.parse_args(words)


if __name__ == "__main__":
    main(arguments())
