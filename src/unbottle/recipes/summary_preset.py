"""SummaryPreset: everything an experiment on summaries depends on but the method and the seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from unbottle.eval.decoding import Decoding
from unbottle.eval.summary_metrics import DEFAULT, METRICS
from unbottle.recipes.any_preset import AnyPreset, Backbone
from unbottle.train import SUMMARIZE_PRESETS, SummarizeSettings


@dataclass(frozen=True, kw_only=True)
class SummaryPreset(AnyPreset):
    """`special` settings are for one data set, or for a backbone on it ("booksum, BART Large")."""

    rows: SummarizeSettings
    base: SummarizeSettings | None = None
    table: tuple[str, ...]  # backbones of the tables
    curve: tuple[str, ...]  # backbones of the curve of sizes
    beside: dict[str, str] = field(default_factory=dict)  # backbone: the paper's that it stands beside
    special: dict[str, dict[str, Any]] = field(default_factory=dict)
    decoding: Decoding = field(default_factory=Decoding)  # the paper's
    metrics: tuple[str, ...] = DEFAULT
    test_pairs: int | None = None  # of which summaries are written, at most; the loss is of all

    def rows_of(self, size: str, data: str) -> SummarizeSettings:
        """How a backbone is trained on these data."""
        return replace(self.rows, **self.special.get(data, {}), **self.special.get(f"{data}, {size}", {}))


PAPER = SUMMARIZE_PRESETS["paper"]
CPU = replace(
    PAPER, batch=16, source_length=192, target_length=48, schedule="constant", warmup_steps=0, save_every=100, keep=1
)  # fmt: skip
CPU_DECODING = Decoding(max_length=CPU.target_length, source_length=CPU.source_length, batch=CPU.batch)
TINY = replace(CPU, batch=4, source_length=48, target_length=10)


def t5(width: int, *, layers: int, heads: int) -> Backbone:
    """As T5 is, but small. What a summary starts from is padding, as in T5."""
    sizes = {"d_model": width, "d_kv": width // heads, "d_ff": 4 * width, "num_layers": layers, "num_heads": heads}
    return Backbone(config={"model_type": "t5", **sizes, "dropout_rate": 0.0, "decoder_start_token_id": 0})


def bart(width: int, *, layers: int, heads: int, positions: int) -> Backbone:
    """As BART is, but small. What a summary starts from is the end of a text, as in BART."""
    sides = ("encoder", "decoder")
    sizes = {f"{side}_{what}": value for side in sides for what, value in (
        ("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width),
    )}  # fmt: skip
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
            rows=PAPER,
            table=("T5-Small", "T5-Base", "BART Base", "BART Large"),
            curve=("T5-Small", "T5-Base"),
            special={
                "booksum": {"epochs": SUMMARIZE_PRESETS["paper-booksum"].epochs},
                "booksum, BART Large": {"lr": SUMMARIZE_PRESETS["paper-booksum-bart-large"].lr},
            },
            metrics=tuple(METRICS),
        ),
        SummaryPreset(
            name="cpu",
            about="A small T5 and a small BART trained here on SAMSum, about an hour for the table on two cores.",
            data="samsum",
            backbones={
                "T5": t5(128, layers=2, heads=4),
                "BART": bart(128, layers=2, heads=4, positions=CPU.source_length),
                "T5 wide": t5(192, layers=2, heads=6),
            },
            base=replace(CPU, lr=1e-3, schedule="linear", warmup_steps=100, weight_decay=0.01, max_steps=1000),
            base_share=0.7,
            rows=replace(CPU, lr=3e-4, max_steps=120),
            vocabulary=4096,
            table=("T5", "BART"),
            curve=("T5", "T5 wide"),
            beside={"T5": "T5-Small", "BART": "BART Base", "T5 wide": "T5-Base"},
            decoding=CPU_DECODING,
            test_pairs=150,
        ),
        SummaryPreset(
            name="tiny",
            about="Seconds, to see that everything runs. Its numbers mean nothing.",
            data="",
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
            beside={"T5": "T5-Small", "BART": "BART Base", "T5 wide": "T5-Base"},
            decoding=Decoding(max_length=TINY.target_length, source_length=TINY.source_length, batch=4),
            test_pairs=6,
        ),
    )
}
