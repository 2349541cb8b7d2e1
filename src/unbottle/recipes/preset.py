"""Preset: everything an experiment depends on but the method and the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unbottle.recipes.any_preset import AnyPreset, Backbone
from unbottle.train import Settings


@dataclass(frozen=True, kw_only=True)
class Preset(AnyPreset):
    """Of experiments on language models."""

    rows: Settings
    base: Settings | None = None
    test_tokens: int | None = None  # at most so many
    reranker_share: float = 0.15  # of the steps, where wbwR takes part
    reranker_tokens: int = 100_000  # for validation
    analogies: int = 200  # contexts of each relation, kind and part
    sequences: int = 100  # of text completion; the paper samples 40,000
    prompts: tuple[int, ...] = (20, 70, 120)  # words of them that are read


PAPER = Settings(output="", length=200, batch=4, lr=1e-5)
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SMALL = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 512, **NO_DROPOUT}
CPU = replace(PAPER, batch=8, clip=1.0, save_every=100, keep=1)

PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="paper",
            about="GPT-2 small and medium from the hub, the paper's settings. For a GPU and days.",
            data="Salesforce/wikitext:wikitext-103-raw-v1",
            backbones={
                "GPT-2 Small": Backbone(pretrained="gpt2"),
                "GPT-2 Medium": Backbone(pretrained="gpt2-medium"),
            },
            rows=PAPER,
            sequences=40_000,
        ),
        Preset(
            name="cpu",
            about="A small GPT-2 trained here, about an hour for table 1 on two cores.",
            data="Salesforce/wikitext:wikitext-2-raw-v1",
            backbones={
                "small": Backbone(config=SMALL),
                "medium": Backbone(config=SMALL | {"n_embd": 256}),
            },
            # longer windows than the rows': what is generated after 120 words stands at positions beyond 200
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
        Preset(
            name="tiny",
            about="Seconds, to see that everything runs. Its numbers mean nothing.",
            data="",
            backbones={
                "small": Backbone(config={"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 160, **NO_DROPOUT}),
                "medium": Backbone(config={"n_embd": 32, "n_layer": 3, "n_head": 2, "n_positions": 160, **NO_DROPOUT}),
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
        ),
    )
}
