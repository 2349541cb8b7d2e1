"""Bad input is refused: what was wrong, the value, what is allowed. Nothing is silently clipped."""

import re
from dataclasses import replace

import pytest
import torch
from cases import SIZE, VOCABULARY, Case, random_shape

from unbottle.head import Embedding, HeadConfig, Past, States
from unbottle.method import Method, MethodError


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
    assert torch.equal(
        c.head(changed, c.embedding).distribution.log_probs(), c.head(states, c.embedding).distribution.log_probs()
    )


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
        c.head(c.states(), c.embedding).distribution.nll(labels)


def test_labels_of_another_shape() -> None:
    c = case()
    with pytest.raises(ValueError, match=r"labels have shape \(2, 4\), the positions \(2, 5\)"):
        c.head(c.states(), c.embedding).distribution.nll(torch.zeros(2, 4, dtype=torch.long))


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
    with pytest.raises(ValueError, match=r"logits is (inf|nan)"):
        c.head(c.states(), replace(c.embedding, weight=c.weight.detach() * 1e308))


def test_strict_mode_sees_nan_wherever_it_comes_from() -> None:
    for name in ("C", "PD", "E", "R1"):
        c = case("softmax+cepr:3", True)
        c.head.strict = True
        c.head(c.states(), c.embedding, source=c.source)
        with torch.no_grad():
            c.head.L[name].weight[0, 0] = torch.nan
        with pytest.raises(ValueError, match=rf"score of {name} is nan"):
            c.head(c.states(), c.embedding, source=c.source)
    c = case("softmax+e", True)
    c.head.strict = True
    states = c.source_states.detach().clone()
    states[0, 1, 2] = torch.nan
    with pytest.raises(ValueError, match=r"source states is nan at \[0, 1, 2\]"):
        c.head(c.states(), c.embedding, source=replace(c.source, states=states))


def test_strict_mode_allows_words_that_the_model_excludes() -> None:
    c = case()
    c.head.strict = True
    bias = torch.zeros(VOCABULARY, dtype=torch.float64)
    bias[2] = -torch.inf
    c.head(c.states(), replace(c.embedding, bias=bias))


@pytest.mark.parametrize("method", ["softmax+cpr:2,5", "mos:2", "pg", "ps", "copynet"])
def test_words_that_the_model_excludes_leave_gradients_finite(method: str) -> None:
    c = case(method)
    bias = torch.zeros(VOCABULARY, dtype=torch.float64)
    bias[0] = -torch.inf
    labels = torch.tensor([[1, 2, -100, 3, -100]] * 2)
    distribution = c.head(c.states(), replace(c.embedding, bias=bias)).distribution
    losses = distribution.nll(labels)
    log_probs = distribution.log_probs()
    (losses.sum() + log_probs.where(log_probs > -torch.inf, 0).sum()).backward()
    for name, parameter in c.head.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("method", ["softmax+cpr:2,5+mi", "pg+mi", "ps+mi"])
def test_hidden_states_of_padding_reach_nobody(method: str) -> None:
    c = case(method)
    states = c.states()
    assert not states.mask[1, 0]
    layers = c.layers.detach().clone()
    layers[1, 0] = torch.nan
    want = c.head(states, c.embedding).distribution.log_probs()[1, 1:]
    assert torch.equal(c.head(replace(states, layers=layers), c.embedding).distribution.log_probs()[1, 1:], want)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("mask", torch.int64, "torch.bool"),
        ("readable", torch.float32, "torch.bool"),
        ("ids", torch.float64, "whole numbers"),
        ("documents", torch.bool, "whole numbers"),
    ],
)
def test_numbers_of_the_wrong_kind(name: str, dtype: torch.dtype, expected: str) -> None:
    c = case()
    states = c.states()
    object.__setattr__(states, name, getattr(states, name).to(dtype))
    with pytest.raises(ValueError, match=f"{name} is {dtype}, expected {expected}"):
        c.head(states, c.embedding)


def test_hidden_states_of_another_kind() -> None:
    c = case()
    for dtype, message in ((torch.float32, r"this head is torch\.float64\. Cast one"), (torch.long, "floating point")):
        states = c.states()
        object.__setattr__(states, "layers", states.layers.detach().to(dtype))
        with pytest.raises(ValueError, match=f"layers are {dtype}.*{message}"):
            c.head(states, c.embedding)


def test_nothing_to_predict() -> None:
    c = case("softmax+c+mi:1x2")
    states = c.states()
    for name, value in vars(states).items():
        object.__setattr__(states, name, value[:, :0])
    with pytest.raises(ValueError, match=r"layers have shape \(2, 0, 1, 4\): there is no position to predict at"):
        c.head(states, c.embedding)


def test_labels_that_are_no_whole_numbers() -> None:
    c = case()
    with pytest.raises(ValueError, match=r"labels are torch\.bool, expected whole numbers"):
        c.head(c.states(), c.embedding, labels=torch.zeros(2, 5, dtype=torch.bool), output="loss")


def test_a_refused_call_leaves_the_past_alone() -> None:
    c, past = case("softmax+e", True), Past()
    with pytest.raises(ValueError, match="give a source"):
        c.head(c.states(), c.embedding, past=past)
    assert len(past) == 0
    c = case("softmax+wbwr:3")
    with pytest.raises(ValueError, match="wbwr needs second_pass"):
        c.head(c.states(), c.embedding, past=past)
    assert len(past) == 0


def test_the_past_of_another_method_is_refused() -> None:
    past = Past()
    first, second = case("softmax+cp"), case("softmax+c+mi")
    first.head(first.states(), first.embedding, past=past)
    with pytest.raises(ValueError, match=r"this past remembers .*'LD'.*; a head of softmax\+c\+mi needs .*'layers'"):
        second.head(second.states(), second.embedding, past=past)


def test_what_follows_a_packed_row_goes_on_with_its_last_document() -> None:
    c, past, told = case(), Past(), Past()
    states = c.states()
    states.documents[:] = torch.tensor([0, 0, 1, 1, 1])
    head, later = (slice(0, 4), slice(4, 5))

    def at(positions: slice, **changes: object) -> States:
        return replace(States(**{name: value[:, positions] for name, value in vars(states).items()}), **changes)

    for remember in (past, told):
        c.head(at(head), c.embedding, past=remember)
    got = c.head(at(later, documents=None), c.embedding, past=past).distribution.log_probs()
    assert torch.equal(got, c.head(at(later), c.embedding, past=told).distribution.log_probs())


def test_a_second_pass_of_another_shape() -> None:
    c = case("softmax+wbwr:3")
    with pytest.raises(
        ValueError, match=r"second_pass gave layers of shape \(2, 1, 3, 1, 4\), expected \(2, 5, 3, 1, 4\)"
    ):
        c.head(c.states(), c.embedding, second_pass=lambda words, f_R, at: c.second_pass(words, f_R, at)[:, :1])


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 0), ("vocabulary", -1), ("source_size", 0)])
def test_sizes_are_positive(name: str, value: int) -> None:
    sizes = {"hidden_size": 4, "vocabulary": 9} | {name: value}
    with pytest.raises(ValueError, match=f"{name} is {value}: expected a positive whole number"):
        HeadConfig(method=Method.parse("softmax"), **sizes)


def test_wbwr_without_its_second_pass() -> None:
    c = case("softmax+wbwr:3")
    with pytest.raises(ValueError, match="wbwr needs second_pass"):
        c.head(c.states(), c.embedding)
