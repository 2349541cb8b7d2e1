"""Text completion: a model continues excerpts of texts, and its continuations are compared with the true ones."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.generation import TOKENS_PER_WORD, continuations
from unbottle.eval.metrics import cider, nist, rouge
from unbottle.eval.proper_nouns import Tagger, words_of
from unbottle.files import Json, ResumableJsonl
from unbottle.hf.model_identity import model_digest, old_model_digest
from unbottle.progress import Progress, silent

WORD = re.compile(r"\S+")  # words are what stands between spaces
FILE = "completions.jsonl"
COUNT = "continuations"  # the setting that says how many rows follow
ALL = "all"
BATCH_SEEDS = 1_000_003  # the seeds of a run's batches start at a multiple of this, far from those of the next run


class CompletionRow(TypedDict):
    """The first `prompt_words` words of sample number `sample`, the words after them, and the model's continuation."""

    sample: int
    prompt_words: int
    prompt: str
    reference: str
    draw: NotRequired[int]  # of several continuations of the same prompt
    continuation: NotRequired[str]


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """The protocol; the default is the paper's: read 20, 70 and 120 words, sample 50 words from the top 5, three times.

    `samples` counts the excerpts, `draws` the continuations of each prompt: the paper's 360,000 are 40,000 excerpts x 3
    lengths of prompts x 3 draws. `batch` is part of it, since the random numbers of a row depend on the rows beside it.
    """

    prompts: tuple[int, ...] = (20, 70, 120)
    words: int = 50
    top_k: int = 5
    samples: int = 1000
    draws: int = 3
    seed: int = 0
    batch: int = 16

    def __post_init__(self) -> None:
        if self.top_k < 1 or self.batch < 1 or self.draws < 1:
            raise ValueError(f"top_k {self.top_k}, draws {self.draws}, batch {self.batch}: expected 1 or more of each.")
        if min(self.prompts, default=0) < 1 or self.words < 1 or self.samples < 1:
            raise ValueError(
                f"prompts {self.prompts}, words {self.words}, samples {self.samples}: expected 1 or more of each."
            )

    def to_dict(self) -> Json:
        fixed = {"temperature": 1.0, "end of text": "never generated", "tokens at most": TOKENS_PER_WORD * self.words}
        return {**asdict(self), "prompts": list(self.prompts), **fixed}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Scores of all continuations together, under "all", and by the number of words in the prompt."""

    settings: Json
    continuations: int
    mean_words: float
    tagger: str
    implementations: dict[str, str]
    scores: dict[str, dict[str, float | None]]

    def to_dict(self) -> Json:
        return asdict(self)


def excerpts(texts: Iterable[str], config: CompletionConfig) -> list[CompletionRow]:
    """`samples` stretches of max(prompts) + words words, drawn without replacement; each is used with every prompt.

    Stretches are cut from each text one after the other, so no two overlap. Ordered by prompt, then by draw, then as
    in the text.
    """
    length = max(config.prompts) + config.words
    stretches = []
    for text in texts:
        spans = [match.span() for match in WORD.finditer(text)]
        stretches += [(text, spans[i : i + length]) for i in range(0, len(spans) - length + 1, length)]
    if not stretches:
        raise ValueError(
            f"no text of {length} words or more: {max(config.prompts)} to read and {config.words} to compare with."
        )
    chosen = sorted(random.Random(config.seed).sample(range(len(stretches)), min(config.samples, len(stretches))))
    rows = []
    for prompt_words, draw in product(config.prompts, range(config.draws)):
        for sample, (text, spans) in enumerate(stretches[index] for index in chosen):
            prompt = text[spans[0][0] : spans[prompt_words - 1][1]]
            reference = text[spans[prompt_words][0] : spans[prompt_words + config.words - 1][1]]
            row = CompletionRow(sample=sample, prompt_words=prompt_words, prompt=prompt, reference=reference)
            if config.draws > 1:
                row["draw"] = draw
            rows.append(row)
    return rows


def completion(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    tagger: Tagger,
    config: CompletionConfig | None = None,
    output: Path | None = None,
    report: Progress = silent,
    stemmer: bool = False,
) -> Completion:
    """Generate continuations and score them. With `output`, they are written to output/completions.jsonl as they come.

    An interrupted run resumes from that file with the same result; `rescore` computes the scores of the file again.
    """
    config = config or CompletionConfig()
    if model.config.is_encoder_decoder:
        raise ValueError(f"{type(model).__name__} has an encoder: completion is for causal language models.")
    rows = excerpts(texts, config)
    settings = {**config.to_dict(), COUNT: len(rows), "model": model_digest(model)}
    if output is None:
        _continue(model, tokenizer, rows, config, None, report)
    else:
        earlier = {**settings, "model": old_model_digest(model)}
        if config.draws == 1:
            del earlier["draws"]
        with ResumableJsonl(Path(output) / FILE, settings, earlier=earlier) as file:
            _continue(model, tokenizer, rows, config, file, report)
    return rescore(settings, rows, tagger=tagger, stemmer=stemmer)


def _continue(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    rows: Sequence[CompletionRow],
    config: CompletionConfig,
    file: ResumableJsonl | None,
    report: Progress,
) -> None:
    """Add its continuation to every row: from the file where it has one, else from the model."""
    stored = [] if file is None else file.resume(len(rows), config.batch)
    for row, before in zip(rows, stored, strict=False):
        continuation = before.pop("continuation", None)
        if before != row:
            assert file is not None
            raise ValueError(f"{file.path} has continuations of other texts. Choose another output.")
        row["continuation"] = cast(str, continuation)
    for number, start in enumerate(range(0, len(rows), config.batch)):
        batch = rows[start : start + config.batch]
        if start >= len(stored):
            prompts, seed = [row["prompt"] for row in batch], config.seed * BATCH_SEEDS + number
            texts = continuations(model, tokenizer, prompts, words=config.words, top_k=config.top_k, seed=seed)
            for row, text in zip(batch, texts, strict=True):
                row["continuation"] = text
            if file is not None:
                file.append([{**row} for row in batch])
        done = start + len(batch)
        report(done, len(rows), f"{done} of {len(rows)} continuations")


def rescore(settings: Json, rows: Sequence[CompletionRow], *, tagger: Tagger, stemmer: bool = False) -> Completion:
    """The scores of existing continuations, without a model."""
    by_prompt: dict[str, list[CompletionRow]] = {ALL: [*rows]}
    for row in rows:
        by_prompt.setdefault(str(row["prompt_words"]), []).append(row)
    return Completion(
        settings=settings,
        continuations=len(rows),
        mean_words=sum(len(row["continuation"].split()) for row in rows) / max(len(rows), 1),
        tagger=tagger.description,
        implementations=implementations(tagger, stemmer=stemmer),
        scores={name: scores(members, tagger, stemmer=stemmer) for name, members in by_prompt.items()},
    )


def read_completions(path: Path) -> tuple[Json, list[CompletionRow]]:
    """The settings and rows of a complete file of completions."""
    try:
        # bytes: a text may contain characters that end a line for str.splitlines, and only for it
        settings, *rows = (json.loads(line) for line in path.read_bytes().splitlines())
        complete = all(isinstance(row["continuation"], str) for row in rows) and len(rows) == settings[COUNT]
    except (ValueError, KeyError, TypeError, RecursionError):
        complete = False
    if not complete:
        raise ValueError(
            f"{path}: not a complete file of completions, as unbottle eval completion --output DIR writes it. If that "
            "run was interrupted, rerun the same command to resume."
        )
    return settings, rows


def scores(rows: Sequence[CompletionRow], tagger: Tagger, *, stemmer: bool = False) -> dict[str, float | None]:
    """The paper's eight metrics. ROUGE in percent; a P Ratio of None: no reference has a proper noun.

    R1 and R2 compare a continuation with its reference, R1C with its prompt; R1P and R1PC do so with proper nouns
    alone, never stemmed, and pairs of texts without any count 0. Texts are tagged with the prompt before
    them. P Ratio is the number of proper nouns in all continuations divided by that in all references.
    """
    if not rows:
        raise ValueError("no continuations to score.")
    values: dict[str, list[float]] = {name: [] for name in ("R1", "R1C", "R1P", "R1PC", "R2")}
    generated_count, true_count = 0, 0
    for row in rows:
        overlap = rouge.rouge(row["continuation"], row["reference"], stemmer=stemmer)
        values["R1"].append(overlap["rouge1"])
        values["R2"].append(overlap["rouge2"])
        values["R1C"].append(rouge.rouge(row["continuation"], row["prompt"], stemmer=stemmer)["rouge1"])
        generated = names_after(row["prompt"], row["continuation"], tagger)
        true = names_after(row["prompt"], row["reference"], tagger)
        generated_count, true_count = generated_count + len(generated), true_count + len(true)
        for name, names in (("R1P", true), ("R1PC", words_of(row["prompt"], tagger(row["prompt"])))):
            values[name].append(rouge.name_overlap(generated, names))
    texts, references = [row["continuation"] for row in rows], [row["reference"] for row in rows]
    return {
        **{name: sum(numbers) / len(numbers) for name, numbers in values.items()},
        "P Ratio": generated_count / true_count if true_count else None,
        "CIDEr": cider.cider(texts, references),
        "NIST": nist.nist(texts, references),
    }


def names_after(prompt: str, text: str, tagger: Tagger) -> list[str]:
    """Proper nouns of a text, tagged as the continuation of its prompt."""
    start, joined = len(prompt) + 1, f"{prompt} {text}"
    return words_of(joined, [(first, end) for first, end in tagger(joined) if first >= start])


def implementations(tagger: Tagger, *, stemmer: bool = False) -> dict[str, str]:
    """Which code computes each metric."""
    rouge_code, nouns = rouge.implementation(stemmer=stemmer), f"proper nouns by {tagger.description}"
    names = f"{nouns}; {rouge.implementation()}; pairs of texts without any count 0"
    return {
        "R1": rouge_code,
        "R1C": f"{rouge_code}; against the prompt",
        "R1P": names,
        "R1PC": f"{names}; against the prompt",
        "R2": rouge_code,
        "P Ratio": nouns,
        "CIDEr": cider.IMPLEMENTATION,
        "NIST": nist.implementation(),
    }
