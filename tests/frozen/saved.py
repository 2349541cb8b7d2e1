"""Folders that earlier code wrote (data/), the command lines that wrote them, and what is measured of them.

The command lines stand here and nowhere else: where an option gets another name, this file follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from frozen import golden, public
from safetensors.torch import load_file
from torch import Tensor

DATA = Path(__file__).parent / "data"
EXPECTED = DATA / "expected.json"
TEXT, LONGER, PAIRS = "text.txt", "longer.txt", "pairs.jsonl"
CAUSAL, SEQ2SEQ = "plain-causal", "plain-seq2seq"  # models without a head, where the runs start
METHOD, SEQ2SEQ_METHOD = "softmax+cpr:3,9+mi", "softmax+cepr:3+mi"
SENTENCE = "Anna met the old king , and Boris heard Anna ."
FORMS = {  # the name in the file: the name by which it was written
    "separate": "paper", "difference": "residual", "steady": "steady",
    "scaled": "scaled", "paper": "paper", "residual": "residual", "folded": "folded",
}  # fmt: skip
STEPS, BROKEN = 6, 3  # of a run, and after how many it was interrupted

# Run in a copy of data/; every option has to be what it was, or the run is refused as another one.
_LM = ("train", "lm", "--model", CAUSAL, "--method", METHOD, "--data", TEXT, "--length", "12", "--batch", "4")
_SUMMARIES = ("train", "summarize", "--model", SEQ2SEQ, "--method", SEQ2SEQ_METHOD, "--data", PAIRS, "--batch", "4")
_LENGTHS = ("--source-length", "32", "--target-length", "16", "--set", "warmup_steps=2")
_STEPS = ("--lr", "1e-3", "--max-steps", str(STEPS), "--set", "log_every=1", "--set", "report_to=")
RUNS = {  # name of a folder in runs/: the command line
    "all": (*_LM, *_STEPS, "--output", "runs/all"),
    "head": (*_LM, *_STEPS, "--train", "head", "--form", "residual", "--output", "runs/head"),
    "lora": (*_LM, *_STEPS, "--train", "lora", "--output", "runs/lora"),
    "summarize": (*_SUMMARIES, *_LENGTHS, *_STEPS, "--form", "paper", "--output", "runs/summarize"),
}
FINISHED = ("lora",)  # the others were interrupted
_PARTS = ("--tokens", "240", "--valid-tokens", "48", "--test-tokens", "60", "--length", "12", "--tagger", "rules")
_COMPARE = ("compare", "--model", CAUSAL, "--data", LONGER, *_PARTS, "--lr", "1e-3", "--seeds", "1")
_COMPARE_ROWS = ("--method", "plain", "--method", "softmax+mi", "--method", "softmax+cpr:3,9+mi form=paper")
_TABLE = ("reproduce", "table1", "--preset", "tiny", "--data", LONGER)
_TABLE_ROWS = ("--method", "softmax", "--method", "softmax+c+mi")
RESULTS = {  # folder with results.json: the command line; work/ is not kept
    "results/longer.txt-head": (
        *_COMPARE,
        *_COMPARE_ROWS,
        "--threads",
        "1",
        "--work",
        "work/compare",
        "--output",
        "results",
    ),
    "results/table1": (*_TABLE, *_TABLE_ROWS, "--threads", "1", "--work", "work/reproduce", "--output", "results"),
}
ONE_MORE = {"results/longer.txt-head": "softmax+c+mi", "results/table1": "ps"}  # a row that is not there yet


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """In another working directory: command lines name no folder of this machine."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def counted(kill_at: int | None = None) -> Iterator[list[int]]:
    """Counts training steps, whoever trains; at one of them it may send SIGTERM, as schedulers do."""
    original, steps = transformers.Trainer.training_step, [0]

    def training_step(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        steps[0] += 1
        if steps[0] == kill_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *args, **kwargs)

    transformers.Trainer.training_step = training_step
    try:
        yield steps
    finally:
        transformers.Trainer.training_step = original


def command(*arguments: str) -> None:
    """A command that is expected to succeed."""
    code, printed = public.run(*arguments)
    assert code == 0, printed


@torch.no_grad()
def predicted(model: Any, folder: Path) -> dict[str, Any]:
    """Of one sentence, as the tokenizer in a folder reads it: the loss, and log-probabilities after its last word."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(SENTENCE, return_tensors="pt")["input_ids"]
    model = model.eval()
    outputs = model(input_ids=ids, labels=ids[:, :6] if model.config.is_encoder_decoder else ids)
    log_probs = outputs.logits.double().log_softmax(-1)[0, -1]
    return {"loss": float(outputs.loss).hex(), "log_probs": [value.hex() for value in log_probs.tolist()]}


def ended(run: Path) -> dict[str, Any]:
    """How a training ended: losses, and the weights of its model."""
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    weights = dict(sorted(load_file(run / "model" / "model.safetensors").items()))
    checksum = hashlib.sha256(b"".join(value.contiguous().numpy().tobytes() for value in weights.values()))
    return {
        "steps": result["steps"],
        "losses": [[step, float(loss).hex()] for step, loss in result["losses"]],
        "valid_losses": [[step, float(loss).hex()] for step, loss in result["valid_losses"]],
        "weights": {name: golden.squares(value) for name, value in weights.items()},
        "sha256": checksum.hexdigest(),
    }


def rows(folder: Path) -> list[dict[str, Any]]:
    """Of a results.json."""
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]
    return found
