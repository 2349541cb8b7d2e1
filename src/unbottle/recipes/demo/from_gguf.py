"""from_gguf: a model in one GGUF file becomes a folder as save_pretrained writes it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path
from typing import Any

QUANTISER = "quantization_config"


def from_gguf(file: Path, folder: Path) -> None:
    """Weights in float32, config and tokenizer. What was rounded to few bits stays rounded."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from unbottle.hf.safe import NO_CODE
    from unbottle.train.quiet import quiet

    refuse_without_gguf()
    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # a bar that can not be turned off otherwise
        place: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
        read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32, **NO_CODE)
        # save_pretrained refuses a model that remembers its quantiser: the weights move to one that does not
        config = {name: value for name, value in read.config.to_dict().items() if name != QUANTISER}
        with torch.device("meta"):  # no time for random weights that nobody wants
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
        model.load_state_dict(read.state_dict(), assign=True)
        model.tie_weights()
        model.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(**place, **NO_CODE)
        tokenizer.init_kwargs["local_files_only"] = False  # HF_HUB_OFFLINE would make it another folder otherwise
        tokenizer.save_pretrained(folder)


def refuse_without_gguf() -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ValueError("the package gguf is needed to read the model: pip install 'unbottle[demo]'")
