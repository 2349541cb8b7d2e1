"""unbottle compare: output layers on a pretrained causal model and a text of the user's choice.

A learning rate is chosen for the baseline on the validation part; then every row is trained and measured.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from unbottle.data import Windows
from unbottle.data.sources import is_python
from unbottle.eval import Perplexity, perplexity, tagger
from unbottle.eval.logit_rank import effective_rank, gradient_share
from unbottle.eval.perplexity import likely_tokens
from unbottle.experiments.corpora import content_hash, read_windows
from unbottle.experiments.figures import MetricPanels
from unbottle.experiments.language_tables import GROUPS, num_parameters, order_metrics
from unbottle.experiments.paired import differences_to
from unbottle.experiments.presets import CONTENT, Backbone, Json, Preset
from unbottle.experiments.results import Column, Experiment, Results, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import run_experiment
from unbottle.experiments.workspace import CausalWorkspace, Data, EvalWindows, Workspace
from unbottle.head.projection import form_for
from unbottle.hf.head_inputs import states
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress
from unbottle.train import Settings
from unbottle.train.hidden_state_cache import WindowsWithStates, cache_hidden_states
from unbottle.train.presets import TINY, RunSettings

SOFTMAX = "softmax+mi"
CPR = "softmax+cpr:20,100+mi"
OTHERS = (
    "mos+mi", "pg+mi", "ps+mi", "softmax+c+mi", "softmax+p+mi", "softmax+r:20,100+mi", "softmax+cr:20,100+mi", CPR,
    f"{CPR} convention=release", "mos+cpr:20,100+mi",
)  # fmt: skip
PAPER = "form=paper"  # diverges on current models at the learning rate of the others: LOG.md
METHODS = (PLAIN, "softmax", SOFTMAX, *OTHERS, f"{SOFTMAX} {PAPER}", f"{CPR} {PAPER}")
LEARNING_RATES = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4)
ROWS = Settings(
    output="", train="head", length=256, batch=2, eps=TINY, clip=1.0, schedule="linear", warmup_steps=10,
    report_to=(), save_every=None, keep=1,
)  # fmt: skip
EVAL_BATCH = 2  # windows: their logits take 100 MB with a vocabulary of 49,152


@dataclass(frozen=True, kw_only=True)
class Comparison(Preset):
    """All rows start from one pretrained model. The learning rate that is best for the baseline is used for all."""

    name: str = "compare"
    about: str = "Output layers on a model and a text of one's own."
    rows: Settings = ROWS
    lrs: tuple[float, ...] = LEARNING_RATES
    train_tokens: int = 24_576
    valid_tokens: int = 4_096
    test_tokens: int = 12_288
    k: int = 100  # size of W(k), by which tokens are grouped
    tagger: str = "auto"  # of proper nouns
    shuffles: int = 6  # orders of each list
    gradients: int = 0  # positions at which the gradient share is measured, which takes seconds each
    baseline: ClassVar[str] = SOFTMAX

    @classmethod
    def create(
        cls,
        model: str,
        data: str,
        *,
        train: str = ROWS.train,
        length: int = ROWS.length,
        batch: int | None = None,
        lrs: Sequence[float] | None = None,
        precision: str = ROWS.precision,
        tagger: str | None = None,
        **numbers: Any,
    ) -> Comparison:
        """The comparison that options of the command describe; `numbers` are fields."""
        rates = tuple(lrs or LEARNING_RATES)
        for rate in rates:
            replace(ROWS, lr=rate)  # refuses invalid learning rates
        return cls(
            data=data,
            backbones={Path(model).name: Backbone(pretrained=model)},
            rows=replace(ROWS, train=train, length=length, batch=batch or ROWS.batch, lr=rates[0], precision=precision),
            lrs=rates,
            tagger=tagger or ("identifiers" if is_python(data) else "auto"),
            **numbers,
        )

    @property
    def form(self) -> str:
        return form_for(self.rows.train)

    def to_dict(self) -> Json:
        """For JSON; the text and the model of the tagger, too, without paths of this machine."""
        kind, colon, path = self.tagger.partition(":")
        tagger = f"{kind}{colon}{Path(path).name}"
        return super().to_dict() | {"data": Path(self.data).name, "tagger": tagger}


def select_rows(names: Sequence[str], methods: Sequence[str] = METHODS, baseline: str = SOFTMAX) -> list[str]:
    """The rows that are named, or else `methods`, each once; the baseline is always among them."""
    rows = [str(RowSpec.parse(name)) for name in names or methods]
    return [*dict.fromkeys(rows if baseline in rows else [baseline, *rows])]


def model_hashes(workspace: Workspace) -> dict[str, str | None]:
    return {size: content_hash(str(backbone.pretrained)) for size, backbone in workspace.preset.backbones.items()}


class ReplayedModel(nn.Module):
    """Predicts the windows whose hidden states are stored. Any other input raises a KeyError."""

    def __init__(self, model: Any, stored: WindowsWithStates) -> None:
        super().__init__()
        self.model: Any = model
        self.config = model.config
        self.stored = stored
        self.indices = {tuple(stored.windows[index]["input_ids"].tolist()): index for index in range(len(stored))}

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def get_output_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.model.get_output_embeddings()
        return embeddings

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        layers = torch.stack([self.stored[self.indices[tuple(row.tolist())]]["layers"] for row in input_ids])
        layers = layers.to(self.model.device, self.model.dtype)
        here = states(layers, input_ids, None, None, past=None)
        return self.model._predict(here, past=None, labels=None, num_items=None, logits_to_keep=0, skip_logits=False)


class CompareWorkspace(CausalWorkspace):
    """One pretrained model and one text. With a frozen backbone, its hidden states are computed once for all rows."""

    preset: Comparison
    lr: float | None = None  # of all rows, once it is chosen
    keep_models = False

    @cached_property
    def settings(self) -> Json:
        return super().settings | {CONTENT: content_hash(self.data), "models": model_hashes(self)}

    @property
    def row_settings(self) -> Settings:
        """Training settings of all rows."""
        settings = replace(self.preset.rows, states=str(self.folder / "states"))
        return settings if self.lr is None else replace(settings, lr=self.lr)

    @property
    def is_frozen(self) -> bool:
        return self.preset.rows.train == "head"

    @cached_property
    def cpu_seconds(self) -> dict[Path, float]:
        """CPU time of the trainings of this process, by folder."""
        return {}

    @cached_property
    def parts(self) -> dict[str, Windows]:
        """The windows of each part of the text."""
        self.progress(0, 1, "reading the text")
        preset = self.preset
        tokens = {"train": preset.train_tokens, "valid": preset.valid_tokens, "test": preset.test_tokens}
        return read_windows(self.data, self.tokenizer, preset.rows.length, tokens)

    def eval_windows(self, part: str) -> EvalWindows:
        return cast(EvalWindows, self.parts[part])

    def base_data(self, size: str) -> Data:
        raise AssertionError("a comparison starts from a pretrained model")

    def trained_model(self, method: str, seed: int, size: str) -> Path:
        """The folder of a trained row."""
        group = "rows" if self.lr is None else f"rows-{self.lr:g}"
        return self.train_row(
            method, seed, size, data=lambda: self.parts["train"], settings=self.row_settings, group=group
        )

    def fit(self, model: PreTrainedModel, data: Data, settings: RunSettings, size: str, progress: Progress) -> None:
        if self.is_frozen and settings.train == "head":
            # shared by all rows, so not counted as time of this one
            cache_hidden_states(cast(HeadMixin, model), cast(Windows, data), settings, progress)
        started = time.process_time()
        super().fit(model, data, settings, size, progress)
        self.cpu_seconds[Path(settings.output)] = time.process_time() - started

    def discard(self, folder: Path) -> None:
        """Delete the run of a model that was measured: a hundred models would take half a gigabyte each."""
        if not self.keep_models:
            shutil.rmtree(folder.parent)

    def untrained(self, size: str) -> PreTrainedModel:
        """The backbone with a new head, which predicts what the backbone does and reads stored hidden states."""
        model = self.with_new_head(RowSpec.parse(self.preset.baseline), 0, size)
        model.eval()
        return model

    def stored_windows(self, model: PreTrainedModel, part: str) -> WindowsWithStates:
        """Windows to evaluate, with hidden states in float32, which are computed now unless that was done before."""
        settings, progress = replace(self.row_settings, precision="float32"), self.labelled(f"{part} text")
        return cache_hidden_states(cast(HeadMixin, model), self.parts[part], settings, progress)

    def reader(self, model: PreTrainedModel, part: str) -> PreTrainedModel | ReplayedModel:
        """What predicts the windows of a part: the model, or its head on stored hidden states."""
        return ReplayedModel(model, self.stored_windows(model, part)) if self.is_frozen else model

    @cached_property
    def _likely(self) -> dict[tuple[str, str], list[Tensor]]:
        return {}

    def likely(self, part: str, size: str) -> list[Tensor]:
        """Which tokens are in W(k) of the plain model, so that the groups of all rows have the same tokens."""
        if (part, size) not in self._likely:
            reader = self.reader(self.untrained(size), part)
            self._likely[part, size] = likely_tokens(reader, self.eval_windows(part), k=self.preset.k, batch=EVAL_BATCH)
        return self._likely[part, size]

    def perplexity(self, model: PreTrainedModel, part: str, size: str, *, names: bool = True) -> Perplexity:
        """Perplexity of a part by groups of tokens; with `names`, proper nouns are one of them."""
        return perplexity(
            self.reader(model, part),
            self.eval_windows(part),
            k=self.preset.k,
            likely=self.likely(part, size),
            tokenizer=self.tokenizer if names else None,
            tagger=tagger(self.preset.tagger) if names else None,
            batch=EVAL_BATCH,
            report=self.labelled("perplexity"),
        )


NAMES = "proper noun"  # the group of tokens that the tagger finds


def measure(workspace: CompareWorkspace, row: RowKey, *, part: str = "test") -> Json:
    """Train a row, then measure the perplexity of a part, and order bias and rank with the first seed.

    The trained model is not kept.
    """
    is_plain = RowSpec.parse(row.method).method is None
    with workspace.phase(0, 0.8):
        folder = None if is_plain else workspace.trained_model(*row)
    with workspace.phase(0.8, 1):
        model = workspace.untrained(row.size) if folder is None else workspace.load(folder)
        result = workspace.perplexity(model, part, row.size).to_dict()
    groups = {name: result["groups"][name] for name in (*GROUPS, NAMES)}
    metrics = {
        "head": 0.0 if is_plain else num_parameters(model.get_submodule("head")) / 1e6,
        **{name: result[name] for name in ("loss", "perplexity", "tokens", "tagger")},
        **{name: group["perplexity"] for name, group in groups.items()},
        **{f"share of {name}": group["share"] for name, group in groups.items()},
        "windows": result["windows"],
    }
    if folder is not None and folder.parent in workspace.cpu_seconds:
        metrics["cpu"] = workspace.cpu_seconds[folder.parent]
    if row.seed == 0 and part == "test":
        metrics |= order_metrics(model, workspace.tokenizer, workspace.preset.shuffles)
        rank = effective_rank(workspace.reader(model, part), workspace.eval_windows(part))
        metrics |= {"rank": rank.effective, "directions": float(rank.numerical)}
        if positions := workspace.preset.gradients:
            metrics["gradient"] = gradient_share(
                cast(HeadMixin, model), workspace.eval_windows(part), positions=positions
            ).share
    if folder is not None:
        workspace.discard(folder)
    return metrics


NOTE = (
    "All rows: the same windows in the same order, learning rate {lr:g} unless a row names its own. "
    "To the baseline, which is {baseline}: difference of perplexities, its 95 % bootstrap interval over held-out "
    "windows (paired, losses averaged over seeds), and with how many seeds it is better. In context, in W(100), "
    "elsewhere: by where the true next token was, W(100) is that of the model before training; names: by the tagger "
    "named below. Evenness, mass on the list and winner changes: over lists to choose from, each in several "
    "orders; mass repeated: probability of words already listed after a list that should go on with something new. "
    "Effective rank of the logits at 1,024 positions (exp of the entropy of their singular values), and singular "
    "values above 1e-5 of the largest. Gradient: share of the norm of the logits' gradient that the last hidden state "
    "can follow, if asked for. The last seven columns: first seed."
)
COLUMNS = (
    Column("Perplexity", "perplexity"),
    Column("to the baseline", "difference"),
    Column("95 %", "interval"),
    Column("better", "wins"),
    Column("in context", "context", 2, "by token"),
    Column("in W(100)", "top", 2, "by token"),
    Column("elsewhere", "elsewhere", 2, "by token"),
    Column("names", NAMES, 2, "by token"),
    Column("head, M", "head", 1, "other"),
    Column("training, CPU s", "cpu", 0, "other"),
    Column("evenness", "evenness", 3, "other"),
    Column("mass on the list", "mass", 3, "other"),
    Column("winner changes", "changes", 3, "other"),
    Column("mass repeated", "repeated", 3, "other"),
    Column("effective rank", "rank", 0, "other"),
    Column("directions", "directions", 0, "other"),
    Column("gradient", "gradient", 2, "other"),
)
PANELS = {  # gain and cost
    "perplexity": ("perplexity", ()),
    "of words of the context": ("context", ()),
    "training time": ("cpu", ()),
}
TRAINED = {
    "head": "only the head is trained",
    "all": "all weights are trained",
    "lora": "LoRA and the head are trained",
}


def comparison_experiment(
    methods: tuple[str, ...], name: str, *, title: str, command: str, lr: float, baseline: str
) -> Experiment:
    """The rows of a comparison, measured on the test part."""
    return Experiment(
        name=name,
        title=title,
        methods=methods,
        measure=measure,
        columns=COLUMNS,
        workspace=CompareWorkspace,
        finish=lambda workspace, rows: differences_to(baseline, rows),
        plot=MetricPanels(title, PANELS, baseline=baseline),
        tagged=True,
        note=NOTE.format(lr=lr, baseline=RowSpec.parse(baseline).title),
        command=command,
    )


def compare(
    workspace: CompareWorkspace, output: Path, methods: Sequence[str], *, seeds: Sequence[int], command: str
) -> Results:
    """Choose learning rates, run all rows, and return the results, which are in a folder below `output`."""
    preset = workspace.preset
    size, data, train = next(iter(preset.backbones)), Path(workspace.data).name, preset.rows.train
    specs = [RowSpec.parse(method) for method in methods]
    workspace.lr, specs = choose_learning_rates(
        workspace, output / f"{data}-{train}-lr", specs, measure=partial(measure, part="valid"), command=command
    )
    experiment = comparison_experiment(
        tuple(dict.fromkeys(map(str, specs))),
        f"{data}-{train}",
        title=f"Output layers of {size} on {data}: {TRAINED[train]}",
        command=command,
        lr=workspace.lr,
        baseline=preset.baseline,
    )
    return run_experiment(experiment, workspace, output / experiment.name, experiment.rows(preset, seeds))


def choose_learning_rates(
    workspace: Workspace,
    folder: Path,
    specs: Sequence[RowSpec],
    *,
    measure: Callable[[Any, RowKey], Json],
    command: str,
) -> tuple[float, list[RowSpec]]:
    """The learning rate for all rows, and the rows, each of those with several learning rates with its best one.

    The best has the lowest loss on the validation part, which `measure` returns; the one for all rows is the best for
    the baseline.
    """
    preset: Any = workspace.preset
    rates = {RowSpec.parse(f"{preset.baseline} lr={rate:g}"): rate for rate in preset.lrs}
    choices = [candidates for candidates in (tuple(rates), *(spec.candidates for spec in specs)) if len(candidates) > 1]
    methods = tuple(dict.fromkeys(str(spec) for candidates in choices for spec in candidates))
    losses: dict[str, float] = {}
    if methods:
        experiment = Experiment(
            name=folder.name,
            title="Which learning rate suits a row? Perplexity of the validation part",
            methods=methods,
            measure=measure,
            columns=(Column("Perplexity", "perplexity"),),
            workspace=type(workspace),
            command=command,
        )
        results = run_experiment(experiment, workspace, folder, experiment.rows(preset, [0]))
        losses = {row.method: row.metrics["loss"] for row in results.rows if not row.is_broken}
    return rates[_best(tuple(rates), losses)], [_best(spec.candidates, losses) for spec in specs]


def _best(candidates: Sequence[RowSpec], losses: dict[str, float]) -> RowSpec:
    if len(candidates) == 1:
        return candidates[0]
    trained = [spec for spec in candidates if str(spec) in losses]
    if not trained:
        raise ValueError(f"{', '.join(map(str, candidates))}: training diverged with each. Give lower learning rates.")
    return min(trained, key=lambda spec: losses[str(spec)])
