"""Decoding state: what happens to the rows of a batch happens to what the head remembers of them."""

import pytest
import torch
from cases import Case, every_method, random_shape

from unbottle.head import Past

HALF = 3


def continued(case: Case, change, rows: torch.Tensor, keep: int = HALF) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the last positions: after a changed past, and from scratch on the changed batch."""
    past = Past()
    full, second = case.states(), case.second_pass
    case.head(case.states(slice(0, HALF)), case.embedding, source=case.source, past=past, second_pass=second)
    change(past)
    chosen = {name: None if value is None else value[rows] for name, value in vars(full).items()}
    source = case.source
    if source is not None:
        source = type(source)(**{name: value[rows] for name, value in vars(source).items()})
    later = type(full)(**{name: value[:, keep:] for name, value in chosen.items()})
    got = case.head(later, case.embedding, source=source, past=past, second_pass=second).distribution
    want = case.head(type(full)(**chosen), case.embedding, source=source, second_pass=second).distribution
    return got.log_probs(), want.log_probs()[:, keep:]


@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
@pytest.mark.parametrize(
    ("change", "rows", "keep"),
    [
        (lambda past: past.reorder(torch.tensor([1, 1, 0])), [1, 1, 0], HALF),
        (lambda past: past.select(torch.tensor([1])), [1], HALF),
        (lambda past: past.repeat(2), [0, 0, 1, 1], HALF),
        (lambda past: past.crop(1), [0, 1], 1),
        (lambda past: past.crop(0), [0, 1], 0),
    ],
    ids=["reorder", "select", "repeat", "crop", "crop all"],
)
def test_state_follows_the_batch(method, encoder_decoder, change, rows, keep) -> None:
    case = Case(method, encoder_decoder, random_shape(11), seed=12)
    got, want = continued(case, change, torch.tensor(rows), keep)
    torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


def test_a_past_that_was_not_reordered_is_wrong() -> None:
    """The tests above can fail: without the reorder the continuation differs."""
    case = Case("softmax+cpr:3,6+mi", False, random_shape(11), seed=12)
    got, want = continued(case, lambda past: None, torch.tensor([1, 0]))
    assert not torch.allclose(got, want)


@torch.no_grad()
def test_a_past_is_not_copied_for_every_new_position() -> None:
    """Its memory doubles when it is full; in between, positions are written where there is room."""
    past, places = Past(), set()
    for position in range(40):
        past.push(ids=torch.full((2, 1), position))
        places.add(past.tensors["ids"].data_ptr())
    assert past.tensors["ids"].tolist() == [[*range(40)]] * 2
    assert len(places) <= 6
    past.crop(3)
    past.push(ids=torch.full((2, 1), 99))
    assert past.tensors["ids"].tolist() == [[0, 1, 2, 99]] * 2


def test_a_past_of_inference_mode_goes_on_outside_of_it() -> None:
    """Only in inference mode may its memory be written to in place."""
    past = Past()
    for position in range(4):
        with torch.inference_mode() if position < 3 else torch.no_grad():
            past.push(ids=torch.full((2, 1), position))
    assert past.tensors["ids"].tolist() == [[*range(4)]] * 2


@torch.no_grad()
def test_the_encoder_input_is_projected_once() -> None:
    case, past, calls = Case("softmax+cepr:2,7+mi:2x3", True, random_shape(11)), Past(), []
    case.head.L["LE"].register_forward_hook(lambda *_: calls.append(1))
    for t in range(3):
        case.head(case.states(slice(t, t + 1)), case.embedding, source=case.source, past=past)
    assert len(calls) == 1
    past.crop(0)
    case.head(case.states(slice(0, 1)), case.embedding, source=case.source, past=past)
    assert len(calls) == 2


@pytest.mark.parametrize("length", [-1, 4])
def test_crop_refuses_what_is_not_there(length: int) -> None:
    case = Case("softmax+c", False, random_shape(11))
    past = Past()
    case.head(case.states(slice(0, HALF)), case.embedding, past=past)
    with pytest.raises(ValueError, match=f"crop to {length} positions: this past has 3; give 0 to 3"):
        past.crop(length)


def test_a_past_of_another_batch_is_refused() -> None:
    case = Case("softmax+c", False, random_shape(11))
    past = Past()
    case.head(case.states(), case.embedding, past=past)
    past.select(torch.tensor([0]))
    with pytest.raises(ValueError, match="a batch of 2 rows goes on from a past of 1 rows"):
        case.head(case.states(), case.embedding, past=past)
