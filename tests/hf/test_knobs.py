"""Knobs under generate(): exactly the right logits move, and every way to decode still agrees with every other."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from models import EOS, PAD, SEQ2SEQ, VOCABULARY, shaken, tiny, words
from modes import DECODER_ONLY, MODES, generate
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

import unbottle
from unbottle import Knobs

METHODS = {"gpt2": ["softmax+cpr:3,6+mi", "mos:2+c", "pg", "ps+mi", "copynet"], "t5": ["softmax+cepr:3+mi", "pg+e"]}
ROWS = [(name, method) for name, methods in METHODS.items() for method in methods]
MODELS = pytest.mark.parametrize(("name", "method"), ROWS)


def build(name: str, method: str):
    return shaken(unbottle.attach(tiny(name), method))


def logits(model, ids: torch.Tensor, **knobs: object) -> torch.Tensor:
    inputs = {"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {}
    return model(input_ids=ids, **inputs, **knobs, use_cache=False).logits


@pytest.mark.parametrize(
    ("name", "method"), [("gpt2", "softmax+cpr:3,6+mi"), ("t5", "softmax+cepr:3+mi"), ("t5", "s+c")]
)
@torch.no_grad()
def test_copy_bias_moves_exactly_the_words_of_the_texts(name: str, method: str) -> None:
    model, ids = build(name, method), words()
    before = logits(model, ids)
    with unbottle.knobs(model, copy_bias=1.5):
        after = logits(model, ids)
    read = ids.flip(1) if name in SEQ2SEQ else ids
    for b in range(2):
        for t in range(9):
            copied = set(read[b, : t + 1].tolist()) | (set(ids[b].tolist()) if "e" in method[1:] else set())
            for word in range(VOCABULARY):
                want = before[b, t, word] + 1.5 if word in copied else before[b, t, word]
                assert after[b, t, word] == want


CALLS = [{"copy_bias": 2.0}, {"source_only": True}, {"copy_bias": -0.5, "source_only": True, "always_allowed": [7]}]


@MODELS
@pytest.mark.parametrize("knobs", CALLS, ids=str)
@torch.no_grad()
def test_knobs_of_a_call_are_those_of_a_block(name: str, method: str, knobs: dict) -> None:
    model, ids = build(name, method), words()
    before = logits(model, ids)
    with unbottle.knobs(model, **knobs):
        want, texts = logits(model, ids), generate(model, ids, num_beams=2).sequences
    assert torch.equal(logits(model, ids, **knobs), want)
    assert torch.equal(generate(model, ids, num_beams=2, **knobs).sequences, texts)
    assert torch.equal(logits(model, ids), before)


@torch.no_grad()
def test_a_call_overrides_what_it_names() -> None:
    model, ids = build("gpt2", "softmax+c"), words()
    want = logits(model, ids, copy_bias=-1.0, source_only=True, always_allowed=[7])
    with unbottle.knobs(model, copy_bias=1.0, source_only=True, always_allowed=[7]):
        assert torch.equal(logits(model, ids, copy_bias=-1.0, source_only=True), want)


@torch.no_grad()
def test_threads_have_their_own_knobs() -> None:
    """Each thread turns its knob, waits for the other one to have turned its own, and only then predicts."""
    model, ids, biases = build("gpt2", "softmax+cpr:3,6+mi"), words(), (3.0, -3.0)
    want = [logits(model, ids, copy_bias=bias) for bias in biases]
    both = threading.Barrier(2, timeout=60)

    def in_a_block(bias: float) -> torch.Tensor:
        with torch.no_grad(), unbottle.knobs(model, copy_bias=bias):
            both.wait()
            found = logits(model, ids)
            both.wait()
        return found

    class Meet(LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            both.wait()
            return scores

    def in_generate(bias: float) -> list:
        return generate(model, ids, copy_bias=bias, logits_processor=LogitsProcessorList([Meet()])).sequences.tolist()

    with ThreadPoolExecutor(2) as threads:
        assert all(map(torch.equal, threads.map(in_a_block, biases), want))
        together = [*threads.map(in_generate, biases)]
    assert together == [generate(model, ids, copy_bias=bias).sequences.tolist() for bias in biases]
    assert together[0] != together[1]


@torch.no_grad()
def test_blocks_in_generators_end_in_any_order() -> None:
    model = build("gpt2", "softmax+c")

    def block(bias: float) -> Iterator[None]:
        with unbottle.knobs(model, copy_bias=bias):
            yield

    first, second = block(1.0), block(2.0)
    next(first), next(second)
    first.close()
    assert model.knobs.copy_bias == 2.0
    second.close()
    assert model.knobs == Knobs()


@torch.no_grad()
def test_generate_allows_the_end_that_it_is_given() -> None:
    model, ids = build("gpt2", "softmax+c"), words()
    model.generation_config.eos_token_id = EOS
    seen: list[Knobs] = []
    model.head.watch = lambda x, distribution: seen.append(x.knobs)
    generate(model, ids, source_only=True, eos_token_id=40)
    generate(model, ids, source_only=True, generation_config=GenerationConfig(eos_token_id=[40, 41]))
    generate(model, ids, source_only=True)
    assert [knobs.always_allowed for knobs in dict.fromkeys(seen)] == [(40,), (40, 41), (EOS,)]


@torch.no_grad()
def test_an_assistant_without_a_head() -> None:
    """It proposes words and has no knobs; what is accepted is decided by the model that has."""
    model, ids = build("gpt2", "softmax+c"), words(1)
    want = generate(model, ids, copy_bias=-9.0).sequences
    assert torch.equal(generate(model, ids, copy_bias=-9.0, assistant_model=tiny("gpt2")).sequences, want)
    assert not torch.equal(generate(model, ids).sequences, want)


def matrix() -> list[tuple[str, str, str]]:
    """Every method decodes greedily, the usual ones in every mode that knows the words."""
    usual = [
        (name, METHODS[name][0], mode) for name in METHODS for mode in set(MODES) - {"embeddings", "foreign_cache"}
    ]
    rows = [row for row in usual if row[0] not in SEQ2SEQ or row[2] not in DECODER_ONLY]
    return sorted({*rows, *((*row, "greedy") for row in ROWS)})


@pytest.mark.parametrize("knobs", [{"copy_bias": 2.0}, {"copy_bias": -0.5, "source_only": True}], ids=str)
@pytest.mark.parametrize(("name", "method", "mode"), matrix())
def test_decoding(name: str, method: str, mode: str, knobs: dict) -> None:
    model = build(name, method)
    with unbottle.knobs(model, **knobs):
        MODES[mode](model)


@pytest.mark.parametrize(("name", "method"), [*ROWS, ("t5", "s+c"), ("bart", "copynet"), ("llama", "softmax+cr:3")])
@torch.no_grad()
def test_source_only_generates_words_of_the_source_only(name: str, method: str) -> None:
    model, ids = build(name, method), words(2, 5)
    torch.manual_seed(0)
    free = generate(model, ids, do_sample=True, temperature=3.0, num_return_sequences=10).sequences
    with unbottle.knobs(model, source_only=True):
        bound = generate(model, ids, do_sample=True, temperature=3.0, num_return_sequences=10).sequences
    skip = 1 if name in SEQ2SEQ else 5
    source = [set(row) for row in ids.repeat_interleave(10, dim=0).tolist()]
    assert all(set(row) <= words for row, words in zip(bound[:, skip:].tolist(), source, strict=True))
    assert not all(set(row) <= words for row, words in zip(free[:, skip:].tolist(), source, strict=True))


@pytest.mark.parametrize("ends", [EOS, [EOS, 40]])
@torch.no_grad()
def test_source_only_can_stop(ends: int | list[int]) -> None:
    model, ids = build("t5", "softmax+e"), words(1)
    model.generation_config.eos_token_id = ends
    with unbottle.knobs(model, source_only=True) as knobs:
        allowed = logits(model, ids)[0, -1].isfinite().nonzero()[:, 0].tolist()
    assert list(knobs.always_allowed) == (ends if isinstance(ends, list) else [ends])
    assert set(allowed) == set(ids[0].tolist()) | set(knobs.always_allowed)
    with unbottle.knobs(model, source_only=True, always_allowed=[50]):
        allowed = logits(model, ids)[0, -1].isfinite().nonzero()[:, 0].tolist()
    assert set(allowed) == {*ids[0].tolist(), 50}


@pytest.mark.parametrize(("name", "method"), [("gpt2", "pg"), ("gpt2", "ps"), ("t5", "copynet"), ("t5", "softmax+p")])
@torch.no_grad()
def test_more_bias_more_copies(name: str, method: str) -> None:
    model, ids = build(name, method), words(1)
    masses = []
    for bias in (-3.0, 0.0, 3.0, 30.0):
        with unbottle.knobs(model, copy_bias=bias):
            masses.append(logits(model, ids)[0, -1].softmax(-1)[ids[0].unique()].sum().item())
    assert masses == sorted(masses)
    assert masses[0] < masses[-1]
    assert masses[-1] == pytest.approx(1)


@MODELS
@torch.no_grad()
def test_knobs_are_back_afterwards(name: str, method: str) -> None:
    model, ids = build(name, method), words()
    before = logits(model, ids)
    with unbottle.knobs(model, copy_bias=1.0) as outer:
        with pytest.raises(ValueError, match="labels"), unbottle.knobs(model, source_only=True):
            model(input_ids=ids, labels=ids)
        assert model.knobs is outer
    assert model.knobs == model.head.knobs == Knobs()
    assert torch.equal(logits(model, ids), before)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_labels_are_refused(name: str) -> None:
    model, ids = build(name, "softmax+c"), words()
    with unbottle.knobs(model, copy_bias=1.0):
        with pytest.raises(ValueError, match=r"training or labels under Knobs\(copy_bias=1.0"):
            model(input_ids=ids, labels=ids)
        if name == "gpt2":
            with pytest.raises(ValueError, match="knobs are for inference"):
                model(input_ids=ids, shift_labels=ids)
    with pytest.raises(ValueError, match="knobs are for inference"):
        model(input_ids=ids, labels=ids, source_only=True)
    with unbottle.knobs(model):
        assert model(input_ids=ids, labels=ids).loss.isfinite()


def test_training_is_refused() -> None:
    model = build("gpt2", "softmax+c").train()
    with unbottle.knobs(model, source_only=True), pytest.raises(ValueError, match="knobs are for inference"):
        model(input_ids=words())


@pytest.mark.parametrize("method", ["softmax+r:3", "mos"])
def test_nothing_to_copy(method: str) -> None:
    model = build("gpt2", method)
    with pytest.raises(ValueError, match="has nothing to copy"), unbottle.knobs(model, copy_bias=1.0):
        pass
    with pytest.raises(ValueError, match="has nothing to copy"):
        model(words(), copy_bias=1.0)
    assert model.knobs == Knobs()


def test_no_head() -> None:
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel has no head. Give it one with unbottle.attach"):
        unbottle.knobs(tiny("gpt2"), copy_bias=1.0).__enter__()


@torch.no_grad()
def test_source_only_needs_to_know_the_words() -> None:
    decoder, encoder = build("gpt2", "softmax+c"), build("t5", "softmax+c")
    embeds = decoder.get_input_embeddings()(words())
    with unbottle.knobs(decoder, source_only=True):
        with pytest.raises(ValueError, match="source_only: a context of embeddings has no words to choose from"):
            decoder(inputs_embeds=embeds)
        decoder(inputs_embeds=embeds, context_ids=words())
    start = torch.full((2, 1), PAD)
    states = encoder.get_encoder()(input_ids=words())
    with unbottle.knobs(encoder, source_only=True):
        with pytest.raises(ValueError, match="source_only: the encoder input of row 0 has no words"):
            encoder(inputs_embeds=embeds, decoder_input_ids=start)
        with pytest.raises(ValueError, match="these encoder_outputs do not carry them"):
            encoder(encoder_outputs=(states[0],), decoder_input_ids=start)
        encoder(encoder_outputs=states, decoder_input_ids=start)
