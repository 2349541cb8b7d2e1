"""The model card: what a saved model is, where it comes from, how to load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from unbottle.hf.config_face import BASE_NAME

FILE = "README.md"
EMPTY = "This is the model card of a 🤗 transformers model that has been pushed on the Hub."  # what a push writes
TEXT = """# {title}

{base} with another output layer: **{title}**, a method of
[Chang et al., Findings of ACL 2023](https://aclanthology.org/2023.findings-acl.805/).

| | |
|---|---|
| method | `{method}` |
| convention | {convention} |
| form | {form} |
| model | {model_class} |
| parameters added | {added:,} |
| parameters in all | {total:,} |

## Load

It needs the library: `pip install unbottle`.

```python
import unbottle

model = unbottle.load("{path}")
```

`{auto}.from_pretrained("{path}")` works too, once unbottle is imported.
Without it, transformers asks for `trust_remote_code=True`; the code it then runs is one line that imports unbottle.
"""


def write_card(model: Any, directory: str | Path) -> None:
    """Write the card of a model with a head, unless the directory has a card that somebody wrote."""
    path = Path(directory) / FILE
    if not path.exists() or EMPTY in path.read_text(encoding="utf-8", errors="replace"):
        model_card(model).save(path)


def model_card(model: Any) -> ModelCard:
    method, name = model.head.config.method, getattr(model.config, BASE_NAME)
    seq2seq, known = model.head.config.encoder_decoder, _on_hub(name)
    data = ModelCardData(
        base_model=name if known else None,
        library_name="unbottle",
        pipeline_tag=None if seq2seq else "text-generation",
        tags=["unbottle", "softmax-bottleneck", model.config.model_type],
    )
    text = TEXT.format(
        title=method.title,
        method=method,
        convention=model.head.config.convention,
        form=model.head.config.form,
        base=f"[{name}](https://huggingface.co/{name})" if known else "A model that is not on the Hub",
        model_class=model.base_class.__name__,
        added=sum(parameter.numel() for parameter in model.head.parameters()),
        total=model.num_parameters(),
        path="path/to/this/model",
        auto="AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM",
    )
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")


def _on_hub(name: str) -> bool:
    """Whether this can be the name of a model on the Hub. Directories of somebody's machine do not go into a card."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not Path(name).exists()
