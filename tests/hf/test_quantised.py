"""bitsandbytes: a head on a quantised model stays in floating point, and trains with LoRA."""

from __future__ import annotations

import pytest
import torch
from models import tiny, words
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig

from unbottle.hf import UnsupportedArchitectureError, attach

pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install 'unbottle[quantised]'")
pytest.importorskip("accelerate", reason="needs accelerate: pip install 'unbottle[train]'")
pytestmark = pytest.mark.filterwarnings("ignore:.*quantization.*:UserWarning")

BITS = {
    "8-bit": {"load_in_8bit": True},
    "4-bit": {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.float32},
}
CASES = [("llama", "softmax+cpr:5,20+mi"), ("t5", "s+cepr:20+mi")]


def quantised(name: str, folder, **settings):
    tiny(name).save_pretrained(folder)
    auto = AutoModelForSeq2SeqLM if name == "t5" else AutoModelForCausalLM
    config = BitsAndBytesConfig(**settings)
    model = auto.from_pretrained(folder, quantization_config=config, dtype=torch.float32, device_map="cpu")
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):  # kernels whose blocks are larger than these matrices
            module.support_avx512bf16_for_cpu = False
    return model


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("name", "method"), CASES)
def test_attach_to_a_quantised_model(name, method, bits, tmp_path):
    model = quantised(name, tmp_path, **BITS[bits])
    assert any(type(module).__name__.startswith("Linear") and "bitsandbytes" in type(module).__module__
               for module in model.modules())  # fmt: skip
    ids = words()
    inputs = {"input_ids": ids, "decoder_input_ids": ids} if name == "t5" else {"input_ids": ids}
    want = model(**inputs).logits
    attach(model, method)
    torch.testing.assert_close(model(**inputs).logits, want, atol=1e-3, rtol=1e-3)
    assert {parameter.dtype for parameter in model.head.parameters()} == {torch.float32}
    assert not any("bitsandbytes" in type(module).__module__ for module in model.head.modules())
    model(input_ids=ids, labels=ids).loss.backward()
    assert all(parameter.grad is not None for parameter in model.head.parameters())
    options = {"max_new_tokens": 4, "do_sample": False}
    assert torch.equal(model.generate(ids, **options), model.generate(ids, **options, use_cache=False))


def test_lora_on_a_quantised_model(tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'unbottle[train]'")
    model = attach(quantised("llama", tmp_path, **BITS["4-bit"]), "softmax+cpr:5,20+mi")
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, task_type="CAUSAL_LM", modules_to_save=["head"]))
    model(input_ids=words(), labels=words()).loss.backward()
    trained = [key for key, parameter in model.named_parameters() if parameter.grad is not None]
    head = {key for key, _ in model.named_parameters() if ".head.modules_to_save." in key}
    assert len(head) == len([*model.get_base_model().head.modules_to_save["default"].parameters()])
    assert {key for key in trained if ".head." in key} == head
    assert [key for key in trained if "lora_" in key]


def test_quantised_output_embeddings_are_refused(tmp_path):
    model = quantised("llama-untied", tmp_path, load_in_8bit=True, llm_int8_skip_modules=["nothing"])
    with pytest.raises(UnsupportedArchitectureError, match=r"are torch\.int8.*Leave lm_head out of the quantisation"):
        attach(model, "softmax+c")
