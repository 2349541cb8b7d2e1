"""Bad input is refused: what was wrong, the value, what is allowed. Nothing is silently clipped."""

import re
from dataclasses import replace

import pytest
import torch
from cases import SIZE, VOCABULARY, Case, random_shape

from unbottle.head import Embedding, HeadConfig
from unbottle.spec import Method, MethodError


def case(method: str = "softmax+cpr:2,5", encoder_decoder: bool = False) -> Case:
    return Case(method, encoder_decoder, random_shape(1))


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 10**9])
def test_ids_outside_the_vocabulary(wrong: int) -> None:
    c = case()
    states = c.states()
    states.ids[0, 1] = wrong
    states.readable[0, 1] = True
    with pytest.raises(
        ValueError, match=f"ids contain {wrong}: the vocabulary has words 0 to 12; mask what is padding"
    ):
        c.head(states, c.embedding)


def test_ids_of_padding_may_be_anything() -> None:
    c = case()
    states, changed = c.states(), c.states()
    assert not states.mask[0, -1]
    changed.ids[0, -1] = -100
    assert torch.equal(c.head(changed, c.embedding).log_probs(), c.head(states, c.embedding).log_probs())


@pytest.mark.parametrize("wrong", [-1, VOCABULARY])
def test_source_ids_outside_the_vocabulary(wrong: int) -> None:
    c = case("softmax+e", True)
    source = c.source
    source.ids[0, 0] = wrong
    with pytest.raises(ValueError, match=f"source ids contain {wrong}: the vocabulary has words 0 to 12"):
        c.head(c.states(), c.embedding, source=source)


@pytest.mark.parametrize("method", ["softmax+e", "softmax+p", "pg", "ps", "copynet"])
def test_a_missing_source(method: str) -> None:
    c = case(method, True)
    with pytest.raises(ValueError, match=f"method '{re.escape(method)}' reads the encoder input: give a source"):
        c.head(c.states(), c.embedding)


def test_e_without_an_encoder() -> None:
    with pytest.raises(MethodError, match="part 'e' reads the encoder input, and this model has no encoder"):
        HeadConfig(method=Method.parse("softmax+e"), hidden_size=4, vocabulary=9)


def test_k_larger_than_the_vocabulary() -> None:
    with pytest.raises(MethodError, match="k = 10 is more than the 9 words of the vocabulary"):
        HeadConfig(method=Method.parse("softmax+r:10"), hidden_size=4, vocabulary=9)
    c = case("softmax+r:9")
    with pytest.raises(MethodError, match="k = 9 is more than the 8 words of the vocabulary"):
        c.head(c.states(), Embedding(weight=c.weight[:8]))


def test_unknown_convention() -> None:
    with pytest.raises(ValueError, match="convention 'theirs': expected one of paper, release"):
        HeadConfig(method=Method.parse("softmax"), hidden_size=4, vocabulary=9, convention="theirs")


@pytest.mark.parametrize("name", ["ids", "mask", "readable", "documents"])
def test_shapes_that_do_not_match(name: str) -> None:
    """Raised by the library itself, not by the shape checks of the test run: those are off for an unhooked class."""
    c = case()
    states = c.states()
    object.__setattr__(states, name, getattr(states, name)[:, 1:])
    with pytest.raises(ValueError, match=rf"{name} has shape \(2, 4\), expected \(2, 5\)"):
        c.head(states, c.embedding)


def test_layers_of_another_model() -> None:
    c = case("softmax+c+mi")
    with pytest.raises(ValueError, match=r"expected \(batch, positions, 3, 4\) for softmax\+c\+mi"):
        c.head(replace(c.states(), layers=c.layers[:, :, :2]), c.embedding)


def test_embeddings_of_another_model() -> None:
    c = case()
    with pytest.raises(ValueError, match="word embeddings have 5 dimensions, this head was built for 4"):
        c.head(c.states(), Embedding(weight=torch.randn(VOCABULARY, SIZE + 1)))


def test_a_bias_that_is_not_one_per_word() -> None:
    c = case()
    embedding = Embedding(weight=c.weight, bias=torch.zeros(VOCABULARY))
    object.__setattr__(embedding, "bias", torch.zeros(3))
    with pytest.raises(ValueError, match=r"bias has shape \(3,\), expected \(13,\): one per word"):
        c.head(c.states(), embedding)


def test_source_of_another_encoder() -> None:
    c = case("softmax+e", True)
    with pytest.raises(ValueError, match=r"source states have shape \(2, 4, 4\): expected \(2, tokens, 5\)"):
        c.head(c.states(), c.embedding, source=replace(c.source, states=c.source_states[..., 1:]))


def test_padding_that_may_be_read() -> None:
    c = case()
    states = c.states()
    states.readable[0, -1] = True
    with pytest.raises(ValueError, match=r"readable is True at \[0, 4\], where mask is False"):
        c.head(states, c.embedding)


@pytest.mark.parametrize("wrong", [-1, -99, VOCABULARY])
def test_labels_out_of_range(wrong: int) -> None:
    c = case()
    labels = torch.zeros(2, 5, dtype=torch.long)
    labels[1, 2] = wrong
    with pytest.raises(ValueError, match=f"label {wrong}: allowed are 0 to 12, and -100 for no loss"):
        c.head(c.states(), c.embedding).nll(labels)


def test_labels_of_another_shape() -> None:
    c = case()
    with pytest.raises(ValueError, match=r"labels have shape \(2, 4\), the positions \(2, 5\)"):
        c.head(c.states(), c.embedding).nll(torch.zeros(2, 4, dtype=torch.long))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_strict_mode_refuses_what_is_not_finite(value: float) -> None:
    c = case()
    layers = c.layers.detach().clone()
    layers[1, 2, 0, 3] = value
    states = replace(c.states(), layers=layers)
    c.head(states, c.embedding)
    c.head.strict = True
    with pytest.raises(
        ValueError, match=rf"layers is {value} at \[1, 2, 0, 3\]; strict mode allows finite values only"
    ):
        c.head(states, c.embedding)


def test_strict_mode_sees_logits_that_overflow() -> None:
    c = case()
    c.head.strict = True
    c.head(c.states(), c.embedding)
    with pytest.raises(ValueError, match=r"logits is -?(inf|nan)"):
        c.head(c.states(), replace(c.embedding, weight=c.weight.detach() * 1e308))


def test_wbwr_without_its_second_pass() -> None:
    c = case("softmax+wbwr:3")
    with pytest.raises(ValueError, match="wbwr needs second_pass"):
        c.head(c.states(), c.embedding)
