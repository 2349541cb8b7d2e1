"""The settings of preset `paper`, line by line of the paper's section "Experiment Details"."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
from models import tiny
from torch import Tensor, ones
from transformers import TrainingArguments

from unbottle import attach
from unbottle.bench.cases import SHAPES
from unbottle.data.sources import parts_of
from unbottle.data.tokens import split
from unbottle.eval.completion import CompletionConfig
from unbottle.eval.generation import Decoding
from unbottle.experiments import language_tables, load_experiment, summary_tables
from unbottle.experiments.corpora import PAPER_FRACTIONS
from unbottle.experiments.language_tables import KS
from unbottle.experiments.presets import PRESETS, SUMMARY_PRESETS, Preset
from unbottle.experiments.results import ResultRow
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.workspace import LanguageWorkspace, SummaryWorkspace, Workspace
from unbottle.head.config import CLOSED
from unbottle.train.arguments import LMTrainingArguments

LANGUAGE, SUMMARIES = PRESETS["paper"], SUMMARY_PRESETS["paper"]


def test_the_last_2_percent_are_the_test_and_the_2_before_the_validation_set() -> None:
    assert PAPER_FRACTIONS == (0.96, 0.02, 0.02)
    parts = split(np.arange(1000), PAPER_FRACTIONS)  # in order: not shuffled
    assert (parts["train"][-1], parts["valid"][0], parts["test"][0], parts["test"][-1]) == (959, 960, 980, 999)


def test_data_sets_are_wikipedia_and_openwebtext() -> None:
    assert LANGUAGE.data == "wikipedia"
    for name in ("wikipedia", "openwebtext"):
        assert [*parts_of(name)] == ["train"]  # the rest is cut off its end


def test_backbones() -> None:
    assert {name: backbone.pretrained for name, backbone in (LANGUAGE.backbones | SUMMARIES.backbones).items()} == {
        "GPT-2 Small": "gpt2",
        "GPT-2 Medium": "gpt2-medium",
        "T5-Small": "t5-small",
        "T5-Base": "t5-base",
        "BART Base": "facebook/bart-base",
        "BART Large": "facebook/bart-large",
    }
    assert load_experiment("table1").select_sizes(LANGUAGE, []) == ["GPT-2 Small", "GPT-2 Medium"]
    assert load_experiment("table3").select_sizes(LANGUAGE, []) == ["GPT-2 Small"]
    assert load_experiment("table3").select_sizes(LANGUAGE, ["GPT-2 Medium"]) == ["GPT-2 Medium"]


def test_epochs() -> None:
    assert LANGUAGE.row_settings("GPT-2 Small").epochs == 1.0
    assert LANGUAGE.row_settings("GPT-2 Medium").epochs == 0.4
    for size in LANGUAGE.backbones:  # the curve is after 0.4 epochs of both
        assert LANGUAGE.row_settings(size).epochs * LANGUAGE.curve_share(size) == pytest.approx(0.4)
    assert LANGUAGE.row_settings("GPT-2 Small").epochs * LANGUAGE.reranker_share == pytest.approx(0.15)
    assert SUMMARIES.row_settings("T5-Small", "cnn_dailymail").epochs == 3.0
    assert SUMMARIES.row_settings("T5-Small", "booksum").epochs == 5.0


def test_reranking_is_evaluated_on_the_first_100k_validation_tokens() -> None:
    assert LANGUAGE.reranker_tokens == 100_000


def test_windows() -> None:
    assert LANGUAGE.rows.length == 200
    assert (SUMMARIES.rows.source_length, SUMMARIES.rows.target_length) == (1024, 128)


def test_batches() -> None:
    assert (LANGUAGE.rows.batch, SUMMARIES.rows.batch) == (4, 8)


def test_learning_rates() -> None:
    assert (LANGUAGE.rows.lr, SUMMARIES.rows.lr) == (1e-5, 5e-5)
    assert SUMMARIES.row_settings("BART Large", "booksum").lr == 1e-5


@pytest.fixture
def trainings() -> list[TrainingArguments]:
    """What rows of every backbone and data set are trained with, as the Trainer gets it."""
    sets = ("cnn_dailymail", "booksum", "samsum", "xsum")
    rows = [LANGUAGE.row_settings(size) for size in LANGUAGE.backbones]
    rows += [SUMMARIES.row_settings(size, data) for size in SUMMARIES.backbones for data in sets]
    return [replace(row, output="unused").arguments() for row in rows]


def test_betas_and_eps(trainings: list[TrainingArguments]) -> None:
    assert {(args.adam_beta1, args.adam_beta2, args.adam_epsilon) for args in trainings} == {(0.9, 0.999, 1e-6)}


def test_weight_decay(trainings: list[TrainingArguments]) -> None:
    assert {args.weight_decay for args in trainings} == {1.2e-6}


def test_schedules_and_warm_up(trainings: list[TrainingArguments]) -> None:
    """Language models: constant, as in the authors' code. Summaries: the example code's linear decay, 1000 steps."""
    for args in trainings:
        schedule = str(args.lr_scheduler_type.value), args.warmup_steps
        if isinstance(args, LMTrainingArguments):
            assert schedule == ("constant_with_warmup", 0)
            assert args.max_grad_norm == 0.25  # of the authors' code
        else:
            assert schedule == ("linear", 1000)


def test_all_of_the_test_part_is_read() -> None:
    assert LANGUAGE.test_tokens is SUMMARIES.test_pairs is LANGUAGE.analogies is None


def test_heads_have_the_paper_s_form() -> None:
    assert LANGUAGE.form == SUMMARIES.form == "paper"


@pytest.mark.parametrize(("name", "window"), [("gpt2", (3, 3)), ("t5", (1, 3)), ("bart", (1, 3))])
def test_multiple_inputs_read_three_by_three_hidden_states_or_one_by_three(name: str, window: tuple[int, int]) -> None:
    assert attach(tiny(name), "softmax+mi").head.config.block == window


def test_completion() -> None:
    config = CompletionConfig()
    assert (config.prompts, config.words, config.top_k, config.draws) == ((20, 70, 120), 50, 5, 3)
    assert LANGUAGE.sequences * len(LANGUAGE.prompts) * LANGUAGE.draws == 360_000


def test_summaries_are_generated_by_top_k_sampling() -> None:
    decoding = SUMMARIES.decoding
    assert (decoding.sampling, decoding.top_k, decoding.max_length, decoding.source_length) == ("top-k", 10, 128, 1024)
    assert decoding.prefix == ""  # the authors' code gives T5 none
    assert Decoding().top_k == 10


def test_k1_and_k2() -> None:
    assert KS == (20, 100, 200, 500)
    methods = load_experiment("sweep-k").methods
    assert {"softmax+cpr:20,100+mi", "softmax+cpr:200,500+mi", "softmax+cpr:500+mi"} < {*methods}


@pytest.mark.parametrize(
    ("workspace", "preset"), [(LanguageWorkspace, LANGUAGE), (SummaryWorkspace, SUMMARIES)], ids=["lm", "summaries"]
)
def test_where_pointers_start(workspace: type[Workspace], preset: Preset, monkeypatch) -> None:
    """b_ptr = 3 in T5 experiments, 0 in others; b of PS and CopyNet is 0. Other presets start as `attach` does."""
    lab = workspace.__new__(workspace)  # neither data nor models of the hub
    lab.preset = preset
    monkeypatch.setattr(
        lab, "auto_class", SimpleNamespace(from_pretrained=lambda name, **_: tiny(re.search("gpt2|t5|bart", name)[0]))
    )
    for size in preset.backbones:
        b_ptr = 3 if size.startswith("T5") else 0
        with pytest.warns(UserWarning, match=f"gate_start {b_ptr}: the fresh PG moves"):
            assert lab.with_new_head(RowSpec.parse("pg"), 0, size).head.gate.b_ptr.item() == b_ptr
        assert lab.with_new_head(RowSpec.parse("pg gate_start=7"), 0, size).head.gate.b_ptr.item() == 7
        for name in ("ps", *(["copynet"] if preset is SUMMARIES else [])):
            with pytest.warns(UserWarning, match="gate_start 0: the fresh "):
                assert lab.with_new_head(RowSpec.parse(name), 0, size).head.config.gate_start == 0
        assert lab.with_new_head(RowSpec.parse("softmax"), 0, size).head.config.gate_start == CLOSED
    for other in (*PRESETS.values(), *SUMMARY_PRESETS.values()):
        assert bool(other.gate_starts) == (other.name == "paper")


def test_time_is_that_of_batches_of_4_and_8(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (SHAPES["gpt2"].batch, SHAPES["t5-small"].batch) == (4, 8)
    timed: list[dict[str, Tensor]] = []
    for module in (language_tables, summary_tables):
        monkeypatch.setattr(
            module, "forward_times", lambda models, inputs: timed.append(inputs) or dict.fromkeys(models, 1.0)
        )
    text = SimpleNamespace(
        preset=LANGUAGE, corpus=SimpleNamespace(test=np.arange(10_000)), load=str, trained_model=lambda *row: ""
    )
    language_tables.time_ratios(text, [ResultRow("softmax", 0, "GPT-2 Small", {})])
    pairs = datasets.Dataset.from_dict({"document": ["a"] * 20})
    tokens = {"input_ids": ones(5, dtype=int), "labels": ones(3, dtype=int)}
    summaries = SimpleNamespace(
        preset=SUMMARIES, corpus=SimpleNamespace(test=pairs), load=str, base=str, tokenizer_of=str,
        tokenized_pairs=lambda rows, model, tokenizer: [tokens] * len(rows),
    )  # fmt: skip
    summary_tables.time_metrics(summaries, None, "T5-Small")
    assert [inputs["input_ids"].shape for inputs in timed] == [(4, 200), (8, 5)]
