"""Text completion: a model goes on with a text, and what it writes is compared with what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unbottle.eval.completion_file import NUMBER, CompletionFile
from unbottle.eval.completion_scores import implementations, scores
from unbottle.eval.excerpts import excerpts
from unbottle.eval.proper_nouns import Tagger
from unbottle.eval.sampling import TOKENS_PER_WORD, continuations
from unbottle.hf.fingerprint import fingerprint

Report = Callable[[float, float, str], None]  # work done, work in all, what was done last
FILE = "completions.jsonl"
ALL = "all"
BATCH_SEEDS = 1_000_003  # batches of one run: seeds from here on, far from those of the next run


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The paper's: 20, 70 and 120 words are read, 50 generated from the 5 most likely words.

    `batch` is part of it: which random number a row gets depends on the rows beside it.
    """

    prompts: tuple[int, ...] = (20, 70, 120)
    words: int = 50
    top_k: int = 5
    samples: int = 1000
    seed: int = 0
    batch: int = 16

    def __post_init__(self) -> None:
        if self.top_k < 1 or self.batch < 1:
            raise ValueError(f"top_k {self.top_k}, batch {self.batch}: expected 1 or more of each.")

    def to_dict(self) -> dict[str, Any]:
        fixed = {"temperature": 1.0, "end of text": "never generated", "tokens at most": TOKENS_PER_WORD * self.words}
        return {**asdict(self), "prompts": list(self.prompts), **fixed}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Scores of all continuations together, under "all", and by the number of words that were read."""

    settings: dict[str, Any]
    continuations: int
    mean_words: float
    tagger: str
    implementations: dict[str, str]
    scores: dict[str, dict[str, float | None]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def completion(
    model: Any,
    tokenizer: Any,
    texts: Iterable[str],
    *,
    tagger: Tagger,
    protocol: Protocol | None = None,
    output: Path | None = None,
    report: Report | None = None,
) -> Completion:
    """Generate and score. With `output`, continuations go to output/completions.jsonl as they come.

    A run that was killed goes on from that file and ends with the same one. `rescore` takes it from there.
    """
    chosen = Protocol() if protocol is None else protocol
    if model.config.is_encoder_decoder:
        raise ValueError(f"{type(model).__name__} has an encoder: completion is for causal language models.")
    made = excerpts(texts, prompts=chosen.prompts, words=chosen.words, samples=chosen.samples, seed=chosen.seed)
    work = [excerpt.to_dict() for excerpt in made]
    batches = [work[start : start + chosen.batch] for start in range(0, len(work), chosen.batch)]
    settings = {**chosen.to_dict(), NUMBER: len(work), "model": _identity(model)}
    if output is None:
        rows = _continued(model, tokenizer, batches, chosen, None, report)
    else:
        earlier = {**settings, "model": _earlier_identity(model)}
        with CompletionFile(Path(output) / FILE, settings, earlier) as file:
            rows = _continued(model, tokenizer, batches, chosen, file, report)
    return rescore(settings, rows, tagger=tagger)


def _continued(
    model: Any,
    tokenizer: Any,
    batches: Sequence[list[dict[str, Any]]],
    protocol: Protocol,
    file: CompletionFile | None,
    report: Report | None,
) -> list[dict[str, Any]]:
    """All batches, each row with its continuation: from the file if it is there, and to the file if not."""
    rows = [] if file is None else file.resume(batches)
    done, total = 0, sum(map(len, batches))
    for number, batch in enumerate(batches):
        if done < len(rows):  # from before
            if [_asked(row) for row in rows[done : done + len(batch)]] != batch:
                assert file is not None
                raise ValueError(f"{file.path} continues other texts. Take another folder, or delete the file.")
        else:
            prompts, seed = [row["prompt"] for row in batch], protocol.seed * BATCH_SEEDS + number
            found = continuations(model, tokenizer, prompts, words=protocol.words, top_k=protocol.top_k, seed=seed)
            new = [{**row, "continuation": text} for row, text in zip(batch, found, strict=True)]
            rows += new
            if file is not None:
                file.add(new)
        done += len(batch)
        if report is not None:
            report(done, total, f"{done} of {total} continuations")
    return rows


def rescore(settings: dict[str, Any], rows: Sequence[dict[str, Any]], *, tagger: Tagger) -> Completion:
    """The scores of continuations that are there, without a model."""
    by_prompt: dict[str, list[dict[str, Any]]] = {ALL: [*rows]}
    for row in rows:
        by_prompt.setdefault(str(row["prompt_words"]), []).append(row)
    return Completion(
        settings=settings,
        continuations=len(rows),
        mean_words=sum(len(row["continuation"].split()) for row in rows) / max(len(rows), 1),
        tagger=tagger.description,
        implementations=implementations(tagger),
        scores={name: scores(members, tagger) for name, members in by_prompt.items()},
    )


def _asked(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "continuation"}


def _identity(model: Any) -> str:
    """The same for the same weights: a few of the model, all of its head."""
    digest = hashlib.sha256(json.dumps(fingerprint(model), sort_keys=True).encode())
    head = getattr(model, "head", None)
    for name, weight in [] if head is None else head.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def _earlier_identity(model: Any) -> str:
    """What earlier versions wrote: it knows sums of the head's weights, so it takes one order of them for another."""
    head = getattr(model, "head", None)
    weights = [] if head is None else [(name, p.detach().double().sum().item()) for name, p in head.named_parameters()]
    return hashlib.sha256(repr((fingerprint(model), weights)).encode()).hexdigest()[:16]
