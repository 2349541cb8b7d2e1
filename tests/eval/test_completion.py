"""Completion: the paper's protocol, deterministic, resumable, and scored again from its file."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
import torch
from byte_pairs import TEXT, byte_pairs
from hypothesis import given
from hypothesis import strategies as st
from models import shaken, tiny

from unbottle.eval.completion import (
    FILE,
    Completion,
    CompletionConfig,
    completion,
    excerpts,
    read_completions,
    rescore,
)
from unbottle.eval.generation import continuations
from unbottle.eval.proper_nouns import Capitals
from unbottle.files import ResumableJsonl
from unbottle.hf import attach
from unbottle.hf.model_identity import fingerprint

SMALL = CompletionConfig(prompts=(3, 6), words=4, samples=3, draws=1, batch=2, seed=1)
TEXTS = [TEXT, TEXT.replace("Anna", "Berta")]


def model_of(method: str | None = "softmax+cpr:5,20+mi"):
    model = tiny("gpt2")
    torch.manual_seed(0)
    model.resize_token_embeddings(len(byte_pairs()))
    return model if method is None else shaken(attach(model, method))


def run(output: Path | None = None, config: CompletionConfig = SMALL, **options):
    model = options.pop("model", None) or model_of()
    return completion(model, byte_pairs(), TEXTS, tagger=Capitals(), config=config, output=output, **options)


# -- excerpts


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    prompts=st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(tuple),
    words=st.integers(1, 4),
    samples=st.integers(1, 8),
    seed=st.integers(0, 3),
)
def test_excerpts(lengths: list[int], prompts: tuple[int, ...], words: int, samples: int, seed: int) -> None:
    texts = [" \n ".join(f"{number}.{place}" for place in range(length)) for number, length in enumerate(lengths)]
    need = max(prompts) + words
    there = sum(length // need for length in lengths)
    settings = CompletionConfig(prompts=prompts, words=words, samples=samples, seed=seed, draws=1)
    if not there:
        with pytest.raises(ValueError, match=f"no text of {need} words"):
            excerpts(texts, settings)
        return
    found = excerpts(texts, settings)
    assert found == excerpts(texts, settings)
    assert len(found) == min(samples, there) * len(prompts)
    starts = {}
    for each in found:
        assert len(each["prompt"].split()) == each["prompt_words"]
        assert len(each["reference"].split()) == words
        assert any("{prompt} \n {reference}".format(**each) in text for text in texts)
        starts.setdefault(each["sample"], set()).add(each["prompt"].split()[0])
    assert all(len(first) == 1 for first in starts.values())  # one sample, all prompts
    assert len(set.union(*starts.values())) == len(starts)  # no sample twice


# -- sampling


@pytest.mark.parametrize("method", [None, "softmax+cpr:5,20+mi", "mos:2", "ps"])
def test_continuations(method: str | None) -> None:
    model, made = model_of(method), byte_pairs()
    model.generation_config.eos_token_id = made.eos_token_id
    prompts = ["The king of France met Anna", "She met", "the queen said that Anna should go"]
    before = torch.get_rng_state()
    model.train()
    found = continuations(model, made, prompts, words=6, top_k=5, seed=3)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert found == continuations(model, made, prompts, words=6, top_k=5, seed=3)
    assert found != continuations(model, made, prompts, words=6, top_k=5, seed=4)
    assert all(1 <= len(text.split()) <= 6 for text in found)
    assert all("<eos>" not in text for text in found)


def test_padding_changes_nothing() -> None:
    """With one candidate there is no chance: a row in a batch is the row alone."""
    model, made = model_of().eval(), byte_pairs()
    prompts = ["The king of France met Anna", "She met"]
    together = continuations(model, made, prompts, words=3, top_k=1, seed=0)
    assert together == [continuations(model, made, [prompt], words=3, top_k=1, seed=9)[0] for prompt in prompts]


def test_no_text_ends() -> None:
    """Whatever the model takes for an end is not generated, be it the most likely word."""
    model, made, prompt = model_of().eval(), byte_pairs(), "The king of France met Anna"
    with torch.no_grad():
        likely = model(torch.tensor([made(prompt).input_ids])).logits[0, -1].argmax().item()
    [before] = continuations(model, made, [prompt], words=3, top_k=1, seed=0)
    model.generation_config.eos_token_id = [likely]
    [after] = continuations(model, made, [prompt], words=3, top_k=1, seed=0)
    assert len(after) > 1
    assert after != before


def test_only_the_most_likely_words(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made, seen = model_of("mos:2").eval(), byte_pairs(), []
    before = model.generate
    monkeypatch.setattr(model, "generate", lambda *args, **named: (seen.append(before(*args, **named)), seen[-1])[1])
    continuations(model, made, ["The king of France met Anna"], words=5, top_k=3, seed=0)
    [ids], start = seen[0].tolist(), len(made("The king of France met Anna").input_ids)
    with torch.no_grad():
        logits = model(seen[0]).logits[0]
    logits[:, made.eos_token_id] = -torch.inf
    ranks = [int((logits[t - 1] > logits[t - 1, ids[t]]).sum()) for t in range(start, len(ids))]
    assert max(ranks) <= 2
    assert len({*ranks}) > 1


def test_no_room() -> None:
    with pytest.raises(ValueError, match=r"leaves no room for 50 words: .* reads at most 128"):
        continuations(model_of(None), byte_pairs(), ["a b " * 45], words=50, top_k=5, seed=0)


# -- the whole


def test_the_file_holds_all_there_is_to_score(tmp_path: Path) -> None:
    seen = []
    found = run(tmp_path, report=lambda *told: seen.append(told))
    assert found.continuations == 6
    assert seen[-1][:2] == (6, 6)
    assert list(found.scores) == ["all", "3", "6"]
    settings, rows = read_completions(tmp_path / FILE)
    again = rescore(settings, rows, tagger=Capitals())
    assert again.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert run() == found  # without a file, the same
    assert [row["prompt_words"] for row in rows] == [3] * 3 + [6] * 3
    assert "rules: capital letters" in found.tagger
    assert found.implementations["CIDEr"].startswith("unbottle.eval.metrics.cider: equals pycocoevalcap")


def test_each_prompt_is_continued_three_times(tmp_path: Path) -> None:
    """40,000 excerpts, three lengths of prompts: the paper's 360,000 continuations are three of each."""
    assert CompletionConfig().draws == 3
    found = run(tmp_path, CompletionConfig(**{**vars(SMALL), "draws": 3}))
    assert found.continuations == 3 * 6
    _, rows = read_completions(tmp_path / FILE)
    assert [(row["prompt_words"], row["draw"], row["sample"]) for row in rows] == [
        (prompt, draw, sample) for prompt in (3, 6) for draw in range(3) for sample in range(3)
    ]
    same = [row["continuation"] for row in rows if (row["prompt_words"], row["sample"]) == (3, 0)]
    assert len(same) == 3
    assert len({*same}) > 1  # drawn anew


def test_every_batch_of_every_run_has_random_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[int, list[int]] = {}

    def watched(model, tokenizer, prompts, *, seed, **options):
        seeds[run_seed].append(seed)
        return [""] * len(prompts)

    monkeypatch.setattr(sys.modules[completion.__module__], "continuations", watched)
    for run_seed in (0, 1, 2):
        seeds[run_seed] = []
        run(config=CompletionConfig(**{**vars(SMALL), "seed": run_seed}))
    assert [len(found) for found in seeds.values()] == [3, 3, 3]  # batches
    assert len({seed for found in seeds.values() for seed in found}) == 9


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Completion, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    return run(folder), (folder / FILE).read_bytes()


@pytest.mark.parametrize("left", [0, 3, 900, 1200, 10**6])
def test_a_killed_run_ends_with_the_same_file(
    left: int, uninterrupted: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at any byte: in the first line, in a later one, in the middle of a batch, at the end."""
    wanted, whole = uninterrupted
    (tmp_path / FILE).write_bytes(whole[:left])
    found = run(tmp_path)
    assert (tmp_path / FILE).read_bytes() == whole
    assert found == wanted
    monkeypatch.setattr(sys.modules[completion.__module__], "continuations", None)  # nothing is left to generate
    assert run(tmp_path) == found


def test_another_run_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(ValueError, match="other settings: seed was 1 and is 2 now"):
        run(tmp_path, CompletionConfig(**{**vars(SMALL), "seed": 2}))
    with pytest.raises(ValueError, match="other settings: model"):
        run(tmp_path, model=model_of("ps"))
    with pytest.raises(ValueError, match="has continuations of other texts"):
        completion(model_of(), byte_pairs(), TEXTS[::-1], tagger=Capitals(), config=SMALL, output=tmp_path)


def test_a_model_is_known_by_the_order_of_its_weights(tmp_path: Path) -> None:
    run(tmp_path, model=model_of("softmax+c"))
    other = model_of("softmax+c")
    with torch.no_grad():
        weight = other.head.L["C"].weight
        weight.copy_(weight.flip(0))  # with the same sum
    with pytest.raises(ValueError, match="other settings: model was 'sha256:"):
        run(tmp_path, model=other)


def test_a_file_of_an_earlier_version_is_continued(uninterrupted: tuple, tmp_path: Path) -> None:
    """It knows the model by sums of weights, and no draws."""
    wanted, whole = uninterrupted
    model = model_of()
    sums = [(name, parameter.detach().double().sum().item()) for name, parameter in model.head.named_parameters()]
    earlier = hashlib.sha256(repr((fingerprint(model), sums)).encode()).hexdigest()[:16]
    head, *rows = whole.splitlines(keepends=True)
    old = json.loads(head) | {"model": earlier}
    assert old.pop("draws") == 1
    (tmp_path / FILE).write_bytes(json.dumps(old).encode() + b"\n" + b"".join(rows[:3]))
    assert run(tmp_path) == wanted
    assert (tmp_path / FILE).read_bytes().splitlines(keepends=True)[1:] == rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"continuations": 1}\n{"prompt": 1}',
        "words",
        "[]\n[]",
        '{"continuations": 2}\n{"continuation": "a"}\n',
    ],
)
def test_no_file_of_completions(text: str, tmp_path: Path) -> None:
    (tmp_path / "some").write_text(text)
    with pytest.raises(ValueError, match="not a complete file of completions"):
        read_completions(tmp_path / "some")


def test_any_character_can_be_in_a_text(tmp_path: Path) -> None:
    row = {"prompt": "a\u2028b\x85c\x0b\r\n", "continuation": "\u2029", "reference": "\x1c"}
    with ResumableJsonl(tmp_path / FILE, {"continuations": 1}) as file:
        assert file.resume(1, 1) == []
        file.append([row])
        assert file.resume(1, 1) == [row]
    assert read_completions(tmp_path / FILE) == ({"continuations": 1}, [row])


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    refusal = r"completions\.jsonl: another process is writing to this file\. Wait"
    with ResumableJsonl(tmp_path / FILE, {"continuations": 1}) as file:
        file.resume(1, 1)
        with pytest.raises(ValueError, match=refusal), ResumableJsonl(tmp_path / FILE, {"continuations": 1}) as second:
            second.resume(1, 1)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="has an encoder"):
        run(model=tiny("t5"))
    with pytest.raises(ValueError, match="top_k 0"):
        CompletionConfig(top_k=0)
    with pytest.raises(ValueError, match="no text of 170 words"):
        run(config=CompletionConfig())
