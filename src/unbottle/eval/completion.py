"""Excerpts of texts: some words to read, and the words that really follow.

Completions on disk: a line of settings, then a line for each continuation, in the order of the work.

Scores of continuations: R1, R1C, R1P, R1PC, R2, P Ratio, CIDEr, NIST.

Text completion: a model goes on with a text, and what it writes is compared with what was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from unbottle.eval.generation import TOKENS_PER_WORD, continuations
from unbottle.eval.metrics import cider as cider_metric
from unbottle.eval.metrics import nist as nist_metric
from unbottle.eval.metrics import rouge as rouge_metric
from unbottle.eval.proper_nouns import Tagger, words_of
from unbottle.files import Lock, explain_full_disk, output_lock
from unbottle.hf.model_identity import fingerprint
from unbottle.progress import Progress

WORD = re.compile(r"\S+")  # words are what stands between spaces


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The first `prompt_words` words of sample number `sample`, and the words after them, spaces as in the text."""

    sample: int
    prompt_words: int
    prompt: str
    reference: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def excerpts(texts: Iterable[str], *, prompts: tuple[int, ...], words: int, samples: int, seed: int) -> list[Excerpt]:
    """`samples` stretches of max(prompts) + words words, drawn without repetition; each is used with every prompt.

    Stretches are cut from each text one after the other, so no two overlap. Ordered by prompt, then as in the text.
    """
    if not prompts or min(prompts) < 1 or words < 1 or samples < 1:
        raise ValueError(f"prompts {prompts}, words {words}, samples {samples}: expected 1 or more of each.")
    need = max(prompts) + words
    stretches = []
    for text in texts:
        spans = [match.span() for match in WORD.finditer(text)]
        stretches += [(text, spans[i : i + need]) for i in range(0, len(spans) - need + 1, need)]
    if not stretches:
        raise ValueError(f"no text of {need} words or more: {max(prompts)} to read and {words} to compare with.")
    chosen = sorted(random.Random(seed).sample(range(len(stretches)), min(samples, len(stretches))))
    found = []
    for prompt_words in prompts:
        for sample, place in enumerate(chosen):
            text, spans = stretches[place]
            prompt = text[spans[0][0] : spans[prompt_words - 1][1]]
            reference = text[spans[prompt_words][0] : spans[prompt_words + words - 1][1]]
            found.append(Excerpt(sample=sample, prompt_words=prompt_words, prompt=prompt, reference=reference))
    return found


NUMBER = "continuations"  # in the settings: how many lines follow


class CompletionFile:
    """A file that grows batch by batch. A run that was killed goes on with the first batch that is not whole.

    A second process that would write to it is refused. `earlier` are the same settings as an earlier version wrote
    them: a file that begins with them is continued as it is.
    """

    def __init__(self, path: Path, settings: dict[str, Any], earlier: dict[str, Any] | None = None) -> None:
        self.path, self.settings, self.earlier = path, settings, earlier
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock: Lock | None = None

    def __enter__(self) -> CompletionFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def resume(self, batches: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Rows of whole batches that are there already; whatever follows them is cut off."""
        if self._lock is None:
            self._lock = output_lock(self.path)
        if not self.path.exists() or not self.path.stat().st_size:
            self._write([self.settings], "w")
            return []
        lines = self.path.read_bytes().splitlines(keepends=True)
        if not lines[-1].endswith(b"\n"):
            lines.pop()  # killed while it was written
        if not lines:
            self._write([self.settings], "w")
            return []
        settings, *rows = (json.loads(line) for line in lines)
        if settings not in [
            json.loads(json.dumps(known)) for known in (self.settings, self.earlier) if known is not None
        ]:
            raise ValueError(
                f"{self.path} belongs to a run with other settings: {_difference(settings, self.settings)}. "
                "Take another folder, or delete the file."
            )
        kept = 0
        for batch in batches:
            if kept + len(batch) > len(rows):
                break
            kept += len(batch)
        with self.path.open("r+b") as file:
            file.truncate(sum(len(line) for line in lines[: kept + 1]))
        return rows[:kept]

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        self._write(rows, "a")

    def _write(self, rows: Sequence[dict[str, Any]], mode: str) -> None:
        with explain_full_disk(self.path.parent), self.path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())


def read_completions(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows of a file of completions."""
    try:
        # bytes: a text may hold characters that end a line for str.splitlines, and only for it
        settings, *rows = (json.loads(line) for line in path.read_bytes().splitlines())
        whole = all(isinstance(row["continuation"], str) for row in rows) and len(rows) == settings[NUMBER]
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError(
            f"{path}: not a whole file of completions, as unbottle eval completion --output DIR writes it. A run that "
            "was interrupted goes on if it is started again as before."
        )
    return settings, rows


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    names = [name for name in {**found, **wanted} if found.get(name) != json.loads(json.dumps(wanted.get(name)))]
    return ", ".join(f"{name} {found.get(name)} there and {wanted.get(name)} here" for name in names[:3])


Row = dict[str, Any]  # prompt, reference, continuation


def scores(rows: Sequence[Row], tagger: Tagger) -> dict[str, float | None]:
    """The paper's eight numbers. ROUGE in percent; None where no text has a proper noun.

    R1 and R2 compare a continuation with its reference, R1C with its prompt; R1P and R1PC do so with proper nouns
    alone, over the pairs of texts in which there are any. A continuation and its reference are tagged with the prompt
    before them. P Ratio is the number of proper nouns in all continuations divided by that in all references.
    """
    if not rows:
        raise ValueError("no continuations to score.")
    r1, r1c, r1p, r1pc, r2 = list[float](), list[float](), list[float](), list[float](), list[float]()
    made_names, true_names = 0, 0
    for row in rows:
        against = rouge_metric.rouge(row["continuation"], row["reference"])
        r1.append(against["rouge1"])
        r2.append(against["rouge2"])
        r1c.append(rouge_metric.rouge(row["continuation"], row["prompt"])["rouge1"])
        prompt = words_of(row["prompt"], tagger(row["prompt"]))
        made, true = (names_after(row["prompt"], row[which], tagger) for which in ("continuation", "reference"))
        made_names, true_names = made_names + len(made), true_names + len(true)
        for found, wanted in ((r1p, true), (r1pc, prompt)):
            if made or wanted:
                found.append(rouge_metric.rouge(" ".join(made), " ".join(wanted))["rouge1"])
    texts, references = [row["continuation"] for row in rows], [row["reference"] for row in rows]
    return {
        "R1": mean(r1),
        "R1C": mean(r1c),
        "R1P": mean(r1p),
        "R1PC": mean(r1pc),
        "R2": mean(r2),
        "P Ratio": made_names / true_names if true_names else None,
        "CIDEr": cider_metric.cider(texts, references),
        "NIST": nist_metric.nist(texts, references),
    }


def names_after(prompt: str, text: str, tagger: Tagger) -> list[str]:
    """Proper nouns of a text, tagged as what follows its prompt."""
    start = len(prompt) + 1
    whole = f"{prompt} {text}"
    return words_of(whole, [(first, end) for first, end in tagger(whole) if first >= start])


def implementations(tagger: Tagger) -> dict[str, str]:
    """Whose code each number is."""
    rouge, proper = rouge_metric.implementation(), f"proper nouns by {tagger.description}"
    names = f"{proper}; {rouge}; pairs of texts without any are left out"
    return {
        "R1": rouge,
        "R1C": f"{rouge}; against the prompt",
        "R1P": names,
        "R1PC": f"{names}; against the prompt",
        "R2": rouge,
        "P Ratio": proper,
        "CIDEr": cider_metric.IMPLEMENTATION,
        "NIST": nist_metric.implementation(),
    }


def mean(values: Iterable[float]) -> float | None:
    found = [*values]
    return sum(found) / len(found) if found else None


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
    report: Progress | None = None,
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
    report: Progress | None,
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
