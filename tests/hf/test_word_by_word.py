"""wbwR on real model classes: the second pass, training, decoding, refusals."""

import pytest
import torch
from models import shaken, tiny, words
from modes import MODES
from transformers import DynamicCache

import unbottle
from unbottle.head.partitions import word_by_word as module
from unbottle.hf.second_pass import SecondPass
from unbottle.ops import Words

METHODS = ["softmax+wbwr:6+mi", "softmax+cpr:3,6+wbwr:6+mi"]
NAMES = ["gpt2", "llama", "opt", "gpt_neox"]


@pytest.mark.parametrize("name", NAMES)
def test_second_pass_is_the_model_on_each_candidate(name: str) -> None:
    """One by one, without a cache: the context, f_R, the candidate, as a plain sequence of embeddings."""
    model = unbottle.attach(tiny(name), METHODS[0])
    ids, f_R = words(2, 5), torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    cache = DynamicCache()
    with torch.no_grad():
        model(ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0), past_key_values=cache)
        past = next(layer for layer in cache.layers if hasattr(layer, "past")).past
        candidates = torch.tensor([4, 9, 11, 2]).expand(2, 5, 4)
        got = SecondPass(model, cache, past)(Words(candidates, candidates > 0), f_R, torch.arange(5))
        assert cache.get_seq_length() == 5  # the first pass is as it was
        embed = model.get_input_embeddings()
        for b in range(2):
            for t in range(5):
                if not mask[b, t]:
                    continue
                context = embed(ids[b, : t + 1][mask[b, : t + 1].bool()])
                for c, word in enumerate([4, 9, 11, 2]):
                    sequence = torch.cat([context, f_R[b, t][None], embed(torch.tensor([word]))])[None]
                    outputs = model.base_model(inputs_embeds=sequence, output_hidden_states=True, use_cache=False)
                    want = [outputs.last_hidden_state, outputs.hidden_states[-2], outputs.hidden_states[-3]]
                    want = torch.stack([states[0, -1] for states in want])
                    torch.testing.assert_close(got[b, t, c], want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_change_nothing(method: str, monkeypatch) -> None:
    """Neither loss, nor logits, nor a gradient: of the head, and of the model that is read twice."""
    found = []
    for at_once in (10_000, 20, 1):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
        plain = tiny("gpt2").double()
        torch.manual_seed(0)  # of L_h
        model = shaken(unbottle.attach(plain, method)).eval()
        model.head.train()  # both stages, and no dropout
        ids = words()
        loss = model(ids, labels=ids).loss
        loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        with torch.no_grad():
            found.append((loss.detach(), model.eval()(ids).logits, gradients))
    for loss, logits, gradients in found[1:]:
        torch.testing.assert_close(loss, found[0][0])
        torch.testing.assert_close(logits, found[0][1])
        torch.testing.assert_close(gradients, found[0][2])


def test_training_takes_the_memory_of_one_block(monkeypatch) -> None:
    """What a training step keeps for its backward pass does not grow with the candidates' second pass."""
    kept = []
    for at_once in (10_000, 14):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
        model = shaken(unbottle.attach(tiny("gpt2"), METHODS[0])).train()
        ids, numbers = words(2, 24), []

        def pack(tensor: torch.Tensor, numbers: list[int] = numbers) -> torch.Tensor:
            numbers.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(ids, labels=ids)
        kept.append(sum(numbers))
    assert kept[1] < 0.4 * kept[0]


@pytest.mark.parametrize("method", METHODS)
def test_double_precision(method: str) -> None:
    """The mask of the second pass is of the dtype of the model: the lowest float64 is no float32."""
    ids = words()
    torch.manual_seed(0)  # of L_h
    want = shaken(unbottle.attach(tiny("gpt2"), method))(ids, labels=ids)
    torch.manual_seed(0)
    got = shaken(unbottle.attach(tiny("gpt2").double(), method))(ids, labels=ids)
    assert got.loss.dtype == got.logits.dtype == torch.float64
    torch.testing.assert_close(got.logits, want.logits.double(), atol=1e-4, rtol=1e-4)


SLOW_MODES = [(METHODS[1], "gpt2", mode) for mode in ("beams", "padding", "sampling")]


@pytest.mark.parametrize(
    ("method", "name", "mode"), [(m, name, "greedy") for m in METHODS for name in NAMES] + SLOW_MODES
)
def test_decoding(method: str, name: str, mode: str) -> None:
    MODES[mode](shaken(unbottle.attach(tiny(name), method)))


def test_both_stages_train() -> None:
    model = shaken(unbottle.attach(tiny("gpt2"), METHODS[1])).train()
    ids = words()
    outputs = model(ids, labels=ids)
    outputs.loss.backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.head.parameters())
    with torch.no_grad():
        model.eval()
        second = model(ids, labels=ids)
        log_probs = second.logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
    torch.testing.assert_close(second.loss, -log_probs)  # evaluation: what the logits say; only training adds stage 1
    assert outputs.loss > second.loss + 1


def test_what_wbwr_can_not_do() -> None:
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="candidates cannot share a place"):
        unbottle.attach(tiny("bart"), METHODS[0])
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="a sliding window forgets part of the context"):
        unbottle.attach(tiny("mistral"), METHODS[0])
    model = unbottle.attach(tiny("llama"), METHODS[0]).train()
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="the first pass left no cache"):
        model(words(), labels=words())
