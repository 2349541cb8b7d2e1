"""Whoever replaces the forward of a model, or trains it without its head, is told."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from models import shaken, tiny, words
from transformers.modeling_outputs import CausalLMOutputWithPast

from unbottle.hf import attach, detach
from unbottle.hf.integrations.callbacks import HeadGradientCallback, refuse_untrained
from unbottle.hf.integrations.guards import BypassedHeadError

CPR = "softmax+cpr:5,20+mi"


def attached(name: str = "llama", method: str = CPR):
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


def bypassing(self, input_ids=None, labels=None, **kwargs):
    """What Liger and others do: the backbone, then lm_head.weight."""
    hidden = self.base_model(input_ids=input_ids).last_hidden_state
    logits = hidden @ self.lm_head.weight.T
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    return CausalLMOutputWithPast(loss=loss, logits=logits)


def test_a_forward_that_leaves_out_the_head_is_refused():
    model = attached()
    with pytest.raises(BypassedHeadError, match=r"does not call the model's own forward.*functools\.wraps"):
        model.forward = types.MethodType(bypassing, model)
    assert "forward" not in model.__dict__


def test_liger_is_refused_by_name():
    model = attached()
    liger = types.FunctionType(bypassing.__code__, {"__name__": "liger_kernel.transformers.model.llama"}, "lce_forward")
    with pytest.raises(BypassedHeadError, match=r"Liger's lce_forward.*fused_linear_cross_entropy\": False"):
        model.forward = types.MethodType(liger, model)


def test_wrappers_that_call_the_forward_are_welcome():
    model = attached()
    ids = words()
    want = model(ids).logits
    seen = []
    forward = model.forward

    def in_closure(*args, **kwargs):
        seen.append("closure")
        return forward(*args, **kwargs)

    @functools.wraps(in_closure)
    def named(module, *args, **kwargs):
        seen.append("wraps")
        return in_closure(*args, **kwargs)

    model.forward = in_closure
    assert torch.equal(model(ids).logits, want)
    model.forward = functools.partial(named, model)
    assert torch.equal(model(ids).logits, want)
    assert seen == ["closure", "wraps", "closure"]
    assert model.head_is_active()


def test_compiling_the_forward_is_welcome():
    model = attached()
    model.forward = torch.compile(model.forward, backend="eager")  # test_compile.py calls one
    assert "forward" in model.__dict__


def test_detach_refuses_a_wrapped_forward():
    model = attached()
    model.forward = functools.partial(model.forward)
    with pytest.raises(ValueError, match="forward of this model is wrapped"):
        detach(model)
    del model.forward
    assert type(detach(model)) is type(tiny("llama"))


@pytest.mark.parametrize(("name", "method"), [("llama", CPR), ("gpt2", "ps"), ("t5", "s+cepr:5+mi"), ("bart", "mos")])
def test_the_self_test_says_whether_the_head_is_trained(name, method):
    model = attached(name, method).train()
    model.head.requires_grad_(False)
    assert model.head_is_active()
    assert model.training, "the self-test must leave the mode alone"
    assert not any(p.requires_grad or p.grad is not None for p in model.head.parameters())
    model.__dict__["forward"] = types.MethodType(bypassing, model)  # as a library would that goes round __setattr__
    if name in ("llama", "gpt2"):
        assert not model.head_is_active()


def test_a_head_without_gradients_is_refused():
    model, ids = attached(), words()
    model.__dict__["forward"] = types.MethodType(bypassing, model)
    model(input_ids=ids, labels=ids).loss.backward()
    count = len([*model.head.parameters()])
    with pytest.raises(BypassedHeadError, match=f"{count} of {count} head parameters got no gradient"):
        refuse_untrained(model)
    del model.__dict__["forward"]
    model(input_ids=ids, labels=ids).loss.backward()
    refuse_untrained(model)


def test_a_frozen_head_is_refused():
    model = attached()
    model.head.requires_grad_(False)
    with pytest.raises(BypassedHeadError, match=r"frozen.*modules_to_save"):
        refuse_untrained(model)
    with pytest.raises(BypassedHeadError, match="LlamaForCausalLM has no head to train"):
        refuse_untrained(tiny("llama"))


def test_the_callback_stops_the_trainer(tmp_path):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'unbottle[train]'")
    from trainers import trainer

    trainer(attached(), tmp_path, callbacks=[HeadGradientCallback()]).train()
    model = attached()
    model.__dict__["forward"] = types.MethodType(bypassing, model)
    with pytest.raises(BypassedHeadError, match="got no gradient"):
        trainer(model, tmp_path, callbacks=[HeadGradientCallback()]).train()


def test_one_callback_serves_several_trainings(tmp_path):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'unbottle[train]'")
    from trainers import trainer

    callback, model = HeadGradientCallback(), attached()
    trainer(model, tmp_path, callbacks=[callback]).train()
    model.__dict__["forward"] = types.MethodType(bypassing, model)
    with pytest.raises(BypassedHeadError, match="got no gradient"):
        trainer(model, tmp_path, callbacks=[callback]).train()


@pytest.fixture
def accelerate():
    found = pytest.importorskip("accelerate", reason="needs accelerate: pip install 'unbottle[train]'")
    found.state.AcceleratorState._reset_state(True)  # a process has one precision, and a Trainer may have set it
    yield found
    found.state.AcceleratorState._reset_state(True)


def test_accelerate_prepares_and_dispatches_a_model_with_a_head(accelerate):
    ids = words()
    want = attached()(ids).logits

    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    prepared = accelerator.prepare(attached())
    assert "forward" in prepared.__dict__
    assert (prepared(ids).logits - want).abs().mean() < 0.1  # of bf16
    assert prepared.head_is_active()
    accelerator.unwrap_model(prepared, keep_fp32_wrapper=False)
    torch.testing.assert_close(prepared(ids).logits, want)

    hooked = attached()
    accelerate.hooks.add_hook_to_module(hooked, accelerate.hooks.ModelHook())
    torch.testing.assert_close(hooked(ids).logits, want)
    assert hooked.head_is_active()


def test_attach_refuses_a_prepared_model(accelerate):
    prepared = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare(tiny("llama"))
    with pytest.raises(ValueError, match=r"was replaced on the instance.*Attach before"):
        attach(prepared, CPR)
