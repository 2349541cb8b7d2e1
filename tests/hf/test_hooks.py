"""The head and its parts are called as modules, so what others hang on modules runs: offload, FSDP, plain hooks."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from fsdp1 import FSDP1_CASES, attached, one_of_two, trained
from models import words
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

METHODS = ["softmax+cpr:5,20+mi", "mos+mi", "pg", "ps+mi", "copynet", "softmax+cp+wbwr:5+mi"]


@pytest.mark.parametrize("method", METHODS)
def test_every_part_with_weights_is_called(method: str) -> None:
    model = attached(method).train()
    called = set()
    for name, module in model.head.named_modules():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    model(words(), labels=words())
    with_weights = {name for name, module in model.head.named_modules() if [*module.parameters(recurse=False)]}
    assert called >= {"", *with_weights}


@pytest.mark.filterwarnings("ignore:You are calling .generate")  # transformers 5.12, of any offloaded model
@pytest.mark.parametrize("offloaded", [{"head"}, {"lm_head"}, {"model", "head", "lm_head"}])
@pytest.mark.parametrize("method", METHODS)
def test_an_offloaded_model_predicts_the_same(method: str, offloaded: set[str], tmp_path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate: pip install 'unbottle[train]'")
    model, ids = attached(method), words()
    want, written = model(ids).logits, model.generate(ids, max_new_tokens=3, do_sample=False)
    places = {part: "disk" if part in offloaded else "cpu" for part in ("model", "head", "lm_head")}
    model = accelerate.dispatch_model(model, places, main_device="cpu", offload_dir=tmp_path, force_hooks=True)
    assert {part.partition(".")[0] for part, weight in model.named_parameters() if weight.is_meta} == offloaded
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, want)
        assert torch.equal(model.generate(ids, max_new_tokens=3, do_sample=False), written)
    assert {part.partition(".")[0] for part, weight in model.named_parameters() if weight.is_meta} == offloaded


def test_output_embeddings_without_values_are_refused() -> None:
    model = attached("softmax+c")
    model.lm_head.to("meta")
    with pytest.raises(ValueError, match="word embeddings are on the meta device, without values"):
        model(words())


@pytest.fixture
def mesh(tmp_path):
    """One process that shards with itself: weights are DTensors wherever no hook gathers them."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def fsdp1_losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fsdp1")
    torch.multiprocessing.spawn(one_of_two, (str(folder),), nprocs=2)
    return dict(zip(FSDP1_CASES, torch.load(folder / "0.pt"), strict=True))


@pytest.mark.full  # two new processes
@pytest.mark.parametrize("case", FSDP1_CASES, ids=str)
def test_fsdp1_trains_as_one_process_does(case, fsdp1_losses) -> None:
    want, got = fsdp1_losses[case]
    assert want[0] != want[-1]
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("method", ["softmax+cpr:5,20+mi", "mos+mi"])
def test_fsdp2_may_wrap_the_head_on_its_own(method: str, mesh) -> None:
    model, ids = attached(method).train(), words()
    want = trained(copy.deepcopy(model), ids)
    fully_shard(model.head, mesh=mesh)
    fully_shard(model, mesh=mesh)
    torch.testing.assert_close(trained(model, ids), want)
