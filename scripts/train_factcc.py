"""Train a classifier of FactCC's architecture on constructed claims, and compare it with people.

    python scripts/train_factcc.py --data samsum --output runs/factcc [--people mturk_cnndm.jsonl] [--base NAME]

Claims are those of factcc_claims.py, of the documents of the training part. Without --base the classifier is a
small BERT from random weights, whose tokenizer is trained on the documents: it exercises the metric, and is no judge.
`--base manueldeprada/FactCC` goes on from the published checkpoint for one epoch, as the paper does; any other BERT
gets a new classification layer. The folder is what
`unbottle eval summaries --metric factcc --factcc-model FOLDER` reads. Printed are the accuracies on claims of test
documents, by kind of swap, and with --people (the file of QAGS) the AUC against the majority of three votes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from factcc_claims import Claim, claims
from support_vs_people import read, row
from torch.nn import functional as F
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from unbottle.eval.inference import best_device
from unbottle.eval.proper_nouns import tagger
from unbottle.experiments.corpora import PairCorpus, train_pair_tokenizer
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


def batch_of(tokenizer: PreTrainedTokenizerBase, some: Sequence[Claim], length: int, device: str) -> dict:
    pairs = tokenizer(
        [claim.document for claim in some], [claim.text for claim in some], truncation="longest_first",
        max_length=length, padding=True, return_tensors="pt",
    )  # fmt: skip
    return dict(pairs.to(device))


@torch.no_grad()
def support(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, some: Sequence[Claim], length: int
) -> list[float]:
    """The probability of CORRECT for each claim."""
    model.eval()
    values: list[float] = []
    for start in range(0, len(some), 32):
        inputs = batch_of(tokenizer, some[start : start + 32], length, str(model.device))
        values += model(**inputs).logits.softmax(-1)[:, 0].tolist()
    return values


def train(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, some: list[Claim], args: argparse.Namespace
) -> None:
    """Passes over all claims in random order, AdamW, a learning rate that falls to 0."""
    steps = args.epochs * -(-len(some) // args.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 50) * (1 - step / steps))
    done = 0
    for epoch in range(args.epochs):
        Random(epoch).shuffle(some)
        for start in range(0, len(some), args.batch):
            part = some[start : start + args.batch]
            labels = torch.tensor([int(not claim.supported) for claim in part], device=model.device)
            model.train()
            logits = model(**batch_of(tokenizer, part, args.length, str(model.device))).logits
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done % 100 == 0:
                print(f"step {done} of {steps}, loss {loss.item():.3f}", flush=True)


def main(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    corpus, tag = PairCorpus.read(args.data), tagger(args.tagger)
    documents = [*corpus.train["document"]][: args.documents]
    model, tokenizer = classifier(args.base, documents, args.length)
    model = model.to(best_device())
    made = claims(documents, tag, seed=args.seed)
    print(f"{len(made)} claims of {len(documents)} documents; names by {tag.description}.")
    train(model, tokenizer, made, args)
    args.output.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(args.output)
    tokenizer.save_pretrained(args.output)
    held_out = claims([*corpus.test["document"]], tag, seed=args.seed)
    right = [
        (value > 0.5) == claim.supported
        for value, claim in zip(support(model, tokenizer, held_out, args.length), held_out, strict=True)
    ]
    kinds = {None: "as they are"} | {claim.swap: f"{claim.swap} swapped" for claim in held_out if claim.swap}
    rows = []
    for kind, name in kinds.items():
        of_kind = [correct for correct, claim in zip(right, held_out, strict=True) if claim.swap == kind]
        rows.append([name, str(len(of_kind)), f"{sum(of_kind) / len(of_kind):.3f}"])
    print(Table(["claims of test documents", "number", "accuracy"], rows).markdown())
    if args.people is not None:
        judged = read(args.people)
        values = support(model, tokenizer, [Claim(document=one.source, text=one.text) for one in judged], args.length)
        print(
            Table(
                ["against people (QAGS)", "sentences", "AUC", "95 %"], [row("this classifier", values, judged)]
            ).markdown()
        )
    print(f"Written to {args.output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="Pairs of document and summary, as for unbottle reproduce.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--base", help="A classifier or BERT to go on from. [a small BERT from random weights]")
    parser.add_argument("--people", type=Path, help="mturk_cnndm.jsonl of QAGS.")
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tagger", default="auto")
    main(parser.parse_args())
