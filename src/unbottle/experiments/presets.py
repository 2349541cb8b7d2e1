"""Presets: everything an experiment depends on except the method and the seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from unbottle.data.sources import SAMPLE
from unbottle.eval.generation import Decoding
from unbottle.eval.summary_scores import DEFAULT_METRICS, METRICS
from unbottle.head.projection import form_for
from unbottle.train import SUMMARIZE_PRESETS, Settings, SummarizeSettings
from unbottle.train.presets import PRESETS as LANGUAGE_ARGUMENTS
from unbottle.train.presets import RunSettings

Json = dict[str, Any]  # an object of a JSON file: settings, or what was measured
CONTENT = "content"  # key of the hash of the data
ADDED = {"table", "epochs", "curve_epochs", "draws"}  # settings of presets that files of earlier versions lack


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """The model that all rows start from: the name or folder of a pretrained one, or a config to train one from."""

    pretrained: str | None = None
    config: Json = field(default_factory=dict)


def without_path(model: str | None) -> str | None:
    """The name of a model in a folder, without the path on this machine; a name of the hub as it is."""
    return Path(model).name if model and (Path(model).is_absolute() or Path(model).is_dir()) else model


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What presets of all experiments have.

    A backbone without pretrained weights is trained with the settings `base` on the first `base_share` of the training
    data. Every row is then trained with the settings `rows` on the rest.
    """

    name: str
    about: str
    data: str  # the default of --data; empty: --data is required
    backbones: dict[str, Backbone]  # the first is the one of most tables
    rows: RunSettings
    base: RunSettings | None = None
    base_share: float = 0.0
    vocabulary: int | None = None  # size of the tokenizer that is trained for such a backbone
    gate_starts: dict[str, dict[str, float]] = field(default_factory=dict)  # by backbone and base, if not attach's

    @property
    def form(self) -> str:
        """Parameterisation of the heads whose rows do not name one."""
        return "paper"

    def to_dict(self) -> Json:
        """For JSON; pretrained models without paths of this machine."""
        backbones = {
            title: replace(backbone, pretrained=without_path(backbone.pretrained))
            for title, backbone in self.backbones.items()
        }
        return asdict(replace(self, backbones=backbones))


def same_settings(stored: object, settings: Json) -> bool:
    """Whether settings are equal, whatever presets say about themselves.

    Old files have no hash of the data, nor what presets got later: other backbones, and settings of other experiments.
    """
    first, second = json.loads(json.dumps(stored)), json.loads(json.dumps(settings))
    if not isinstance(first, dict):
        return False
    if CONTENT not in first:
        second.pop(CONTENT, None)
    old, new = first.get("preset"), second.get("preset")
    if isinstance(old, dict) and isinstance(new, dict):
        for values in (old, new):
            for backbone in values.get("backbones", {}).values():
                if backbone.get("pretrained"):  # without the owner on the hub, as in earlier files
                    backbone["pretrained"] = Path(backbone["pretrained"]).name
            values.pop("about", None)
            values.pop("data", None)  # the default of --data; what was used stands beside the preset
            for name in ("b_ptr", "gate_starts"):  # attach's, as in all earlier files
                if not values.get(name):
                    values.pop(name, None)
        for name in ADDED - {*old}:
            new.pop(name, None)
        if isinstance(old.get("backbones"), dict) and isinstance(new.get("backbones"), dict):
            new["backbones"] = {name: new["backbones"].get(name) for name in old["backbones"]}
    return bool(first == second)


@dataclass(frozen=True, kw_only=True)
class LanguagePreset(Preset):
    """A preset of the paper's experiments on causal language models."""

    rows: Settings
    base: Settings | None = None
    test_tokens: int | None = None  # maximum
    table: tuple[str, ...] = ()  # backbones of table 1; without any, the first
    epochs: dict[str, float] = field(default_factory=dict)  # of backbones that are not trained as long as `rows` says
    curve_epochs: float | None = None  # of the size curve, if not those of the rows
    reranker_share: float = 0.15  # of the training steps, in the table of the word-by-word reranker
    reranker_tokens: int = 100_000  # of the validation part, in that table
    analogies: int | None = 200  # contexts of each relation, kind and part; None: all
    sequences: int = 100  # number of texts to complete; the paper samples 40,000
    prompts: tuple[int, ...] = (20, 70, 120)  # lengths of their prompts, in words
    draws: int = 3  # continuations of each prompt

    def on_model(self, model: str, *, train: str) -> LanguagePreset:
        """The same on a pretrained model, of which the head is trained, or adapters and the head: "head", "lora"."""
        usual = LANGUAGE_ARGUMENTS[train]
        rows = replace(
            self.rows,
            train=train,
            lr=float(str(usual["learning_rate"])),
            eps=float(str(usual["adam_epsilon"])),
            warmup_steps=int(str(usual["warmup_steps"])),
        )
        backbones = {Path(model).name: Backbone(pretrained=model)}
        return replace(
            self,
            backbones=backbones,
            rows=rows,
            base=None,
            base_share=0.0,
            table=(),
            epochs={},
            gate_starts={},
            vocabulary=None,
        )

    @property
    def form(self) -> str:
        return "paper" if self.rows.train == "all" else form_for(self.rows.train)

    def row_settings(self, size: str) -> Settings:
        """Training settings of a backbone."""
        return replace(self.rows, epochs=self.epochs.get(size, self.rows.epochs))

    def curve_share(self, size: str) -> float:
        """The share of the training steps of a row after which the size curve measures it."""
        return 1.0 if self.curve_epochs is None else self.curve_epochs / self.row_settings(size).epochs


OPEN = {"pg": 0.0, "ps": 0.0, "copynet": 0.0}  # the paper's b_ptr; it names no start for b
PAPER = Settings(output="", length=200, batch=4, lr=1e-5)
CPU = replace(PAPER, batch=8, clip=1.0, save_every=100, keep=1)


def gpt2(width: int, *, layers: int, heads: int, positions: int) -> Backbone:
    """A small GPT-2 without dropout."""
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions}
    return Backbone(config={**sizes, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})


PRESETS = {
    preset.name: preset
    for preset in (
        LanguagePreset(
            name="paper",
            about="GPT-2 small and medium from the hub, the paper's settings. For a GPU and days.",
            data="wikipedia",
            backbones={
                "GPT-2 Small": Backbone(pretrained="gpt2"),
                "GPT-2 Medium": Backbone(pretrained="gpt2-medium"),
            },
            rows=PAPER,
            table=("GPT-2 Small", "GPT-2 Medium"),
            epochs={"GPT-2 Medium": float(str(LANGUAGE_ARGUMENTS["paper-medium"]["num_train_epochs"]))},
            curve_epochs=0.4,
            gate_starts={"GPT-2 Small": OPEN, "GPT-2 Medium": OPEN},
            analogies=None,
            sequences=40_000,
        ),
        LanguagePreset(
            name="cpu",
            about="A small GPT-2 trained here, about an hour for table 1 on two cores.",
            data="Salesforce/wikitext:wikitext-2-raw-v1",
            backbones={
                name: gpt2(width, layers=4, heads=4, positions=512)
                for name, width in (("small", 128), ("medium", 256), ("smaller", 64))
            },
            # longer windows than the rows': text generated after 120 words is at positions beyond 200
            base=replace(
                CPU, length=320, lr=2e-3, schedule="linear", warmup_steps=100, weight_decay=0.01, max_steps=800
            ),
            base_share=0.6,
            rows=replace(CPU, lr=3e-4, max_steps=200),
            vocabulary=8192,
            test_tokens=100_000,
            reranker_tokens=4_000,
            sequences=40,
        ),
        LanguagePreset(
            name="tiny",
            about="Runs in seconds, to test that everything works. The numbers are meaningless.",
            data=SAMPLE,
            backbones={
                "small": gpt2(16, layers=3, heads=2, positions=160),
                "medium": gpt2(32, layers=3, heads=2, positions=160),
            },
            base=replace(CPU, batch=2, length=32, lr=2e-3, max_steps=4),
            base_share=0.5,
            rows=replace(CPU, batch=2, length=32, lr=1e-3, max_steps=3),
            vocabulary=300,
            test_tokens=300,
            reranker_share=0.7,
            reranker_tokens=20,
            analogies=4,
            sequences=2,
            prompts=(2, 4),
            draws=2,
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class SummaryPreset(Preset):
    """A preset of experiments on summarization.

    `special` holds settings for one data set, or for one backbone on it ("booksum, BART Large").
    """

    rows: SummarizeSettings
    base: SummarizeSettings | None = None
    table: tuple[str, ...]  # backbones of the tables
    curve: tuple[str, ...]  # backbones of the size curve
    beside: dict[str, str] = field(default_factory=dict)  # backbone: the paper's backbone to compare it with
    special: dict[str, Json] = field(default_factory=dict)
    decoding: Decoding = field(default_factory=lambda: Decoding(prefix=""))  # the paper's: no prefix, T5's neither
    metrics: tuple[str, ...] = DEFAULT_METRICS
    test_pairs: int | None = None  # maximum number of generated summaries; the loss is of all pairs

    def row_settings(self, size: str, data: str) -> SummarizeSettings:
        """Training settings of a backbone on a data set."""
        return replace(self.rows, **self.special.get(data, {}), **self.special.get(f"{data}, {size}", {}))


SUMMARY_PAPER = SummarizeSettings(output="")
SUMMARY_CPU = replace(
    SUMMARY_PAPER, batch=16, source_length=192, target_length=48, schedule="constant", warmup_steps=0, save_every=100,
    keep=1,
)  # fmt: skip
CPU_DECODING = Decoding(
    max_length=SUMMARY_CPU.target_length, source_length=SUMMARY_CPU.source_length, batch=SUMMARY_CPU.batch, prefix=""
)
BESIDE = {"T5": "T5-Small", "BART": "BART Base", "T5 wide": "T5-Base", "T5 narrow": "T5-Small"}
TINY = replace(SUMMARY_CPU, batch=4, source_length=48, target_length=10)


def t5(width: int, *, layers: int, heads: int) -> Backbone:
    """A small T5, whose decoder starts from the padding token."""
    sizes = {"d_model": width, "d_kv": width // heads, "d_ff": 4 * width, "num_layers": layers, "num_heads": heads}
    return Backbone(config={"model_type": "t5", **sizes, "dropout_rate": 0.0, "decoder_start_token_id": 0})


def bart(width: int, *, layers: int, heads: int, positions: int) -> Backbone:
    """A small BART, whose decoder starts from the end-of-text token."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width))
    }
    start = {"decoder_start_token_id": 2, "forced_bos_token_id": None, "forced_eos_token_id": None}
    limits = {"max_position_embeddings": positions, "dropout": 0.0}
    return Backbone(config={"model_type": "bart", "d_model": width, **sizes, **limits, **start})


SUMMARY_PRESETS = {
    preset.name: preset
    for preset in (
        SummaryPreset(
            name="paper",
            about="T5 and BART from the hub, the paper's settings, on any of its data sets. For a GPU and days.",
            data="samsum",
            backbones={
                "T5-Small": Backbone(pretrained="t5-small"),
                "T5-Base": Backbone(pretrained="t5-base"),
                "BART Base": Backbone(pretrained="facebook/bart-base"),
                "BART Large": Backbone(pretrained="facebook/bart-large"),
            },
            rows=SUMMARY_PAPER,
            table=("T5-Small", "T5-Base", "BART Base", "BART Large"),
            curve=("T5-Small", "T5-Base"),
            special={
                "booksum": {"epochs": SUMMARIZE_PRESETS["paper-booksum"]["num_train_epochs"]},
                "booksum, BART Large": {"lr": SUMMARIZE_PRESETS["paper-booksum-bart-large"]["learning_rate"]},
            },
            gate_starts={
                "T5-Small": {**OPEN, "pg": 3.0},
                "T5-Base": {**OPEN, "pg": 3.0},
                "BART Base": OPEN,
                "BART Large": OPEN,
            },
            metrics=tuple(METRICS),
        ),
        SummaryPreset(
            name="cpu",
            about="A small T5 and a small BART trained here on SAMSum, about an hour for the table on two cores.",
            data="samsum",
            backbones={
                "T5": t5(128, layers=2, heads=4),
                "BART": bart(128, layers=2, heads=4, positions=SUMMARY_CPU.source_length),
                "T5 wide": t5(192, layers=2, heads=6),
                "T5 narrow": t5(64, layers=2, heads=2),
            },
            base=replace(SUMMARY_CPU, lr=1e-3, schedule="linear", warmup_steps=100, weight_decay=0.01, max_steps=1000),
            base_share=0.7,
            # eps: projections that start at 1e-10 never move with the paper's 1e-6, so CopyNet would not learn to copy
            rows=replace(SUMMARY_CPU, lr=3e-4, eps=1e-12, max_steps=120),
            vocabulary=4096,
            table=("T5", "BART"),
            curve=("T5 narrow", "T5", "T5 wide"),
            beside=BESIDE,
            decoding=CPU_DECODING,
            test_pairs=150,
        ),
        SummaryPreset(
            name="tiny",
            about="Runs in seconds, to test that everything works. The numbers are meaningless.",
            data=SAMPLE,
            backbones={
                "T5": t5(16, layers=2, heads=2),
                "BART": bart(16, layers=2, heads=2, positions=TINY.source_length),
                "T5 wide": t5(32, layers=2, heads=2),
            },
            base=replace(TINY, lr=1e-3, max_steps=3),
            base_share=0.5,
            rows=replace(TINY, lr=1e-3, max_steps=2),
            vocabulary=300,
            table=("T5", "BART"),
            curve=("T5", "T5 wide"),
            beside=BESIDE,
            decoding=Decoding(max_length=TINY.target_length, source_length=TINY.source_length, batch=4, prefix=""),
            test_pairs=6,
        ),
    )
}
