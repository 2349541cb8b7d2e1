"""predictions: alike one by one and in batches, with every method; what is cut, empty or refused."""

from __future__ import annotations

import pytest
import tiny_summaries as tiny
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from unbottle.eval import Decoding, Prediction, predictions

QUICK = ("s+cepr:20+mi", "ps")
LONG = [method for method in tiny.METHODS if method not in QUICK]
CASES = [
    pytest.param(name, method, marks=[] if method in QUICK else [pytest.mark.full])
    for name in ("t5", "bart")
    for method in [*QUICK, *LONG]
]


def texts(count: int = 6) -> list[str]:
    return tiny.rows(count, seed=3)["document"]


def written(model, documents: list[str], **options) -> list[str]:
    decoding = Decoding(**{"max_length": 8, "source_length": 20} | options)
    return [found.text for found in predictions(model, tiny.tokenizer(), documents, decoding)]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_batch_is_what_its_rows_are(name: str, method: str) -> None:
    """Documents of different lengths: padding is neither read nor copied."""
    model = tiny.model(name, method, seed=1, shake=0.4).double()
    for sampling in ("greedy", "beams"):
        alone = written(model, texts(), batch=1, sampling=sampling, beams=3)
        assert written(model, texts(), batch=4, sampling=sampling, beams=3) == alone
        assert len(set(alone)) > 1
    plain = model.eval().generate(
        **tiny.tokenizer()(texts()[0], return_tensors="pt", truncation=True, max_length=20),
        max_new_tokens=8,
        do_sample=False,
    )
    assert (
        tiny.tokenizer().decode(plain[0], skip_special_tokens=True) == written(model, texts()[:1], sampling="greedy")[0]
    )


def test_samples_are_of_the_seed_and_the_batch() -> None:
    model = tiny.model("t5", "s+ce")
    state = torch.get_rng_state()
    first = written(model, texts(), batch=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert written(model, texts(), batch=2) == first
    assert written(model, texts(), batch=2, seed=1) != first
    assert written(model, texts()[:2] * 2, batch=2)[:2] != written(model, texts()[:2] * 2, batch=2)[2:]
    rest = predictions(
        model, tiny.tokenizer(), texts()[4:], Decoding(max_length=8, source_length=20, batch=2), first_batch=2
    )
    assert [found.text for found in rest] == first[4:]
    assert written(model, texts(), sampling="top-k", top_k=1) == written(model, texts(), sampling="greedy")
    assert model.training


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        ("top-k", {"do_sample": True, "top_k": 7, "num_beams": 1}),
        ("greedy", {"do_sample": False, "num_beams": 1}),
        ("beams", {"do_sample": False, "num_beams": 3}),
    ],
)
def test_all_that_a_model_could_have_a_say_in_is_said(sampling: str, wanted: dict, monkeypatch) -> None:
    model, seen = tiny.model("t5", None), []
    before = model.generate
    monkeypatch.setattr(
        model, "generate", lambda **told: (seen.append(told["generation_config"].to_dict()), before(**told))[1]
    )
    written(model, texts(1), sampling=sampling, top_k=7, beams=3)
    wanted |= {
        "max_new_tokens": 8, "min_length": 0, "length_penalty": 1.0, "early_stopping": False, "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1,
    }  # fmt: skip
    assert wanted.items() <= seen[0].items()


def test_a_model_that_ends_at_once_may() -> None:
    """Whatever length its own settings ask for."""
    model = tiny.model("bart", None)
    model.final_logits_bias[0, tiny.tokenizer().eos_token_id] = 1000.0
    model.generation_config.update(min_length=6, num_beams=2)
    assert written(model, texts(2), sampling="greedy") == ["", ""]


def test_a_model_has_no_say_in_how_it_is_asked() -> None:
    model = tiny.model("bart", "s+e")
    before = written(model, texts(), sampling="greedy")
    model.generation_config.update(num_beams=3, min_length=6, no_repeat_ngram_size=1, length_penalty=5.0, top_k=3)
    assert written(model, texts(), sampling="greedy") == before


def test_what_is_cut_and_what_is_empty() -> None:
    model = tiny.model("bart", "s+ce")
    documents = ["", "the king " * 30, " \n", "Anna met the queen", "Zürich 東京"]
    found = [*predictions(model, tiny.tokenizer(), documents, Decoding(max_length=8, batch=2))]
    assert [(one.empty, one.dropped) for one in found] == [
        (True, 0), (False, 61 - tiny.LIMIT), (True, 0), (False, 0), (False, 0),
    ]  # fmt: skip
    assert found[0] == Prediction(text="", empty=True)
    shorter = [*predictions(model, tiny.tokenizer(), documents, Decoding(max_length=8, source_length=11))]
    assert shorter[1].dropped == 50


def test_the_prefix_is_the_model_s() -> None:
    model = tiny.model("t5", "s+ce", shake=0.4)
    bare = written(model, texts(), sampling="greedy")
    model.config.task_specific_params = {"summarization": {"prefix": "summarize : "}}
    prefixed = written(model, texts(), sampling="greedy")
    assert prefixed == written(model, ["summarize : " + text for text in texts()], sampling="greedy", prefix="")
    assert prefixed != bare
    assert written(model, texts(), sampling="greedy", prefix="") == bare


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "best"}, "sampling 'best': unknown. Known: top-k, greedy, beams."),
        ({"batch": 0}, "batch 0: give a number of at least 1."),
        ({"max_length": 33}, "max_length 33: BartForConditionalGeneration writes at most 32 tokens."),
    ],
)
def test_refusals(options: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        written(tiny.model("bart", None), texts(1), **options)
    assert str(error.value) == message


def test_causal_models_are_refused() -> None:
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(ValueError, match="GPT2LMHeadModel is a causal language model; an encoder-decoder"):
        written(gpt2, texts(1))
