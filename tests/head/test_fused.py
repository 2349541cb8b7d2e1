"""The fast path: the same losses, gradients and log-probabilities as the oracle, whatever the parts it works in."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from cases import Case, every_method, random_shape
from contract import TOLERANCE, expected, gradients
from hypothesis import given
from hypothesis import strategies as st
from strategies import methods, shapes

from unbottle.head import Objective, Prediction
from unbottle.head.fused_loss import _even, _parts
from unbottle.method import Method
from unbottle.ops import Workspace
from unbottle.ops.device import ACCELERATED

METHODS = [(name, kind) for name, kind in every_method() if Method.parse(name).wbwr is None]
ONE_PART, SMALL_PARTS, ONE_POSITION = 2**24, 40, 1


@pytest.fixture(
    params=[
        pytest.param((ONE_PART, False), marks=pytest.mark.full),
        (SMALL_PARTS, False),
        pytest.param((ONE_POSITION, False), marks=pytest.mark.full),
        (SMALL_PARTS // ACCELERATED, True),
    ],
    ids=["one part", "small parts", "one position", "accelerator"],
)
def parts(request, monkeypatch) -> None:
    """How much is worked on at once, and on which path."""
    buffer, forced = request.param
    monkeypatch.setattr("unbottle.head.fused_loss.BUFFER", buffer)
    monkeypatch.setattr("unbottle.ops.device.FORCED", forced)


def labels_of(case: Case) -> torch.Tensor:
    labels = torch.tensor(case.shape.ids).roll(-1, 1)
    if labels.numel():
        labels[0, 0] = -100
    return labels


def inputs(case: Case):
    return case.head.inputs(case.states(), case.embedding, source=case.source)


def predicted(case: Case, labels: torch.Tensor | None = None, num_items: float = 1) -> Prediction:
    """The head as a model calls it in training."""
    labels = labels_of(case) if labels is None else labels
    return case.head(
        case.states(), case.embedding, source=case.source, labels=labels, num_items=num_items, output="loss"
    )


def losses_by_hand(case: Case, objective: Objective) -> torch.Tensor:
    """From the oracle's log-probabilities; only z_loss asks the dense path, for its log Z."""
    labels, log_probs = labels_of(case), expected(case)
    s = objective.label_smoothing
    chosen = log_probs.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    losses = -(1 - s) * chosen - s * log_probs.mean(-1)
    if objective.z_loss:
        (distribution,) = case.whole()
        losses = losses + objective.z_loss * torch.stack([z.logsumexp() ** 2 for z in distribution.logits]).mean(0)
    return losses.where(labels != -100, 0)


def agree(case: Case, objective: Objective = Objective()) -> None:  # noqa: B008
    case.head.objective, case.head.path = objective, "fused"
    want = losses_by_hand(case, objective)
    want_gradients = gradients(case, want.sum() / 7, None)
    loss, losses, *_ = predicted(case, num_items=7)
    torch.testing.assert_close(losses, want, atol=TOLERANCE, rtol=TOLERANCE)
    torch.testing.assert_close(loss, want.sum() / 7, atol=TOLERANCE, rtol=TOLERANCE)
    got = gradients(case, loss, None)
    for name, gradient in want_gradients.items():
        torch.testing.assert_close(
            got[name], gradient, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("quirks", [False, True])
@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_losses_and_gradients_equal_the_oracle(method: str, encoder_decoder: bool, quirks: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5, batch=3), seed=6, quirks=quirks))


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("objective", [Objective(label_smoothing=0.2), Objective(z_loss=0.1, label_smoothing=0.1)])
@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_other_objectives(method: str, encoder_decoder: bool, objective: Objective) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, quirks=True), objective)


@given(shape=shapes(), method=methods(), seed=st.integers(0, 99), data=st.data())
def test_any_method_and_shape(shape, method, seed, data) -> None:
    if Method.parse(method[0]).wbwr is None:
        convention = data.draw(st.sampled_from(["paper", "release"]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("unbottle.head.fused_loss.BUFFER", data.draw(st.sampled_from([ONE_PART, SMALL_PARTS])))
            patch.setattr("unbottle.ops.device.FORCED", data.draw(st.booleans()))
            agree(Case(*method, shape, seed=seed, convention=convention))


@given(shape=shapes(), method=st.sampled_from([m for m in METHODS if "r:" in m[0]]), seed=st.integers(0, 99))
def test_ties_go_to_the_lower_id(shape, method, seed) -> None:
    for forced in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("unbottle.ops.device.FORCED", forced)
            agree(Case(*method, shape, seed=seed, exact=True))


@pytest.mark.parametrize("quirks", [False, True])
@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_predictions_equal_the_oracle(method: str, encoder_decoder: bool, quirks: bool) -> None:
    case = Case(method, encoder_decoder, random_shape(5), seed=6, quirks=quirks)
    (dense,) = case.whole()
    with torch.no_grad():
        logits = case.head(case.states(), case.embedding, source=case.source, output="logits").logits
    torch.testing.assert_close(logits, dense.scores())
    log_probs = logits.log_softmax(-1) if dense.is_softmax else logits  # mixtures return log-probabilities
    torch.testing.assert_close(log_probs, expected(case), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("objective", [Objective(), Objective(z_loss=0.1, label_smoothing=0.1)])
@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_evaluation_with_labels_keeps_the_logits(method: str, encoder_decoder: bool, objective: Objective) -> None:
    """The loss is read from the logits that are returned; both equal those of the dense path."""
    case = Case(method, encoder_decoder, random_shape(5), seed=6, quirks=True)
    case.head.objective = objective
    labels = torch.randint(0, case.embedding.vocabulary, case.states().ids.shape)
    labels[0, 0] = -100
    with torch.no_grad():
        fused = case.head(case.states(), case.embedding, source=case.source, labels=labels, output="logits")
        case.head.path = "dense"
        dense = case.head(case.states(), case.embedding, source=case.source, labels=labels, output="logits")
    torch.testing.assert_close(fused.logits, dense.logits)
    torch.testing.assert_close(fused.losses, dense.losses)
    torch.testing.assert_close(fused.loss, dense.loss)


@pytest.mark.parametrize("frozen", ["weight", "layers", "head", "weight and head"])
@pytest.mark.parametrize("method", ["softmax+cpr:3,6+mi", "pg+mi", "mos"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_gets_the_same(method: str, frozen: str) -> None:
    case = Case(method, False, random_shape(5), seed=6)
    want = gradients(case, losses_by_hand(case, Objective()).sum(), None)
    still = {name: leaf for name, leaf in case.leaves.items() if name not in frozen}
    if "head" in frozen:
        still = {name: leaf for name, leaf in still.items() if name in ("weight", "layers")}
    for name, leaf in case.leaves.items():
        leaf.requires_grad_(name in still)
    loss = predicted(case).loss
    found = torch.autograd.grad(loss, list(still.values()), allow_unused=True)
    for (name, leaf), gradient in zip(still.items(), found, strict=True):
        got = torch.zeros_like(leaf) if gradient is None else gradient
        torch.testing.assert_close(got, want[name], atol=TOLERANCE, rtol=TOLERANCE)


def test_nothing_to_train_is_a_loss_without_a_gradient() -> None:
    case = Case("softmax+c", False, random_shape(5))
    with torch.no_grad():
        loss = predicted(case).loss
    assert not loss.requires_grad
    torch.testing.assert_close(loss, losses_by_hand(case, Objective()).sum())


def test_the_gradient_is_scaled_by_what_comes_from_above() -> None:
    case = Case("softmax+cpr:3,6+mi", False, random_shape(5))
    once = gradients(case, predicted(case).loss, None)
    scaled = gradients(case, predicted(case).loss * 3, None)
    for name, gradient in once.items():
        torch.testing.assert_close(scaled[name], gradient * 3)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("method", "encoder_decoder"), [each for each in METHODS if set(Method.parse(each[0]).letters) & set("cer")]
)
def test_projections_that_are_learnt_as_differences(method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5, batch=3), seed=6, form="residual"))


@pytest.mark.parametrize(("method", "direct"), [("softmax+cpr:3,6+mi", set()), ("mos", {"q"}), ("ps+mi", {"h"})])
def test_gradients_of_what_only_projections_read_are_never_made(method: str, direct: set[str]) -> None:
    case = Case(method, False, random_shape(5))
    x = inputs(case)
    x = x.replaced({name: tensor.detach().requires_grad_() for name, tensor in x.tensors().items()})
    x = replace(x, projected={name: f.detach() for name, f in case.head._projected(x).projected.items()})
    loss, _ = case.head._loss(x, labels_of(case), 1)
    loss.backward()
    assert {name for name in ("q", "h") if x.tensors()[name].grad is not None} == direct


def test_a_second_backward_pass_is_refused() -> None:
    case = Case("softmax+c", False, random_shape(5))
    loss = predicted(case).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"twice, set head\.path = 'dense'"):
        loss.backward()


def test_what_needs_the_dense_path_gets_it_or_is_refused() -> None:
    case = Case("softmax+c", False, random_shape(5))
    want = predicted(case).loss
    case.head.strict = True
    assert not case.head._fuses(inputs(case))
    torch.testing.assert_close(predicted(case).loss, want)
    case.head.path = "fused"
    with pytest.raises(ValueError, match=r"head\.path is 'fused', and strict needs the dense path"):
        predicted(case)


def test_labels_are_checked() -> None:
    case = Case("softmax+c", False, random_shape(5))
    labels = labels_of(case)
    with pytest.raises(ValueError, match=r"labels have shape \(2, 4\), the positions \(2, 5\)"):
        predicted(case, labels[:, 1:])
    labels[1, 2] = 13
    with pytest.raises(ValueError, match="label 13: allowed are 0 to 12"):
        predicted(case, labels)


@pytest.mark.parametrize(("name", "value"), [("label_smoothing", 1.0), ("label_smoothing", -0.1), ("z_loss", -1.0)])
def test_wrong_objectives_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} {value}: expected"):
        Objective(**{name: value})


def test_the_workspace_lends_the_same_memory_again_and_is_never_copied() -> None:
    workspace, cpu = Workspace(), torch.device("cpu")
    with workspace.lender(cpu) as lend:
        first, second = lend(4, 5, torch.float32), lend(4, 5, torch.float32)
        assert first.data_ptr() != second.data_ptr()
    lent = {first.data_ptr(), second.data_ptr()}
    with workspace.lender(cpu) as lend:
        assert lend(3, 4, torch.float32).data_ptr() in lent
        assert lend(2, 3, torch.float64).dtype == torch.float64
    assert copy.deepcopy(workspace)._free == pickle.loads(pickle.dumps(workspace))._free == {}


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 7, 10, 11, 1000])
@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (5, 4), (3, 10), (0, 3), (2, 0)])
def test_parts_cover_everything_once(shape: tuple[int, int], limit: int) -> None:
    seen, sizes = torch.zeros(shape), []
    for batch, rows in _parts(torch.Size(shape), limit):
        seen[batch, rows] += 1
        sizes.append(seen[batch, rows].numel())
    assert (seen == 1).all()
    if seen.numel():
        assert max(sizes) <= max(limit, 1)


@pytest.mark.parametrize(
    ("size", "limit", "even"), [(10, 6, 5), (4, 3, 2), (10, 4, 4), (5, 9, 5), (0, 3, 1), (7, 1, 1)]
)
def test_parts_are_even(size: int, limit: int, even: int) -> None:
    assert _even(size, limit) == even


def test_memory_is_lent_again_unless_it_is_far_too_large() -> None:
    workspace, cpu = Workspace(), torch.device("cpu")

    def lent(rows: int) -> int:
        with workspace.lender(cpu) as lend:
            return lend(rows, 10, torch.float32).data_ptr()

    large = lent(100)
    assert lent(60) == large
    with workspace.lender(cpu) as lend:
        assert lend(20, 10, torch.float32).untyped_storage().nbytes() == 20 * 10 * 4  # what was too large is gone
