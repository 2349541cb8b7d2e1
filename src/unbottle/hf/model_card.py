"""Model cards: what a saved model or head is, where it comes from, its licence, its training, how to load it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from unbottle.head import Head
from unbottle.hf.configuration import BASE_NAME
from unbottle.hf.model_with_head import ModelWithHead
from unbottle.hub_access import quick_hub

TRAINED = {"all": "all weights", "head": "the output layer; the model below it is frozen", "lora": "LoRA and the head"}


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """`data` is what the training was given, a data set of the Hub or a path. A path does not go into a card: what it
    holds is named by its `fingerprint`. `valid_losses` are those before and after the training."""

    data: str | None
    fingerprint: str | None
    train: str  # all, head or lora
    steps: int
    tokens: int
    settings: dict[str, object] = field(default_factory=dict)
    valid_losses: tuple[float, float] | None = None

    @property
    def perplexities(self) -> tuple[float, float] | None:
        if self.valid_losses is None:
            return None
        before, after = (math.exp(min(loss, 700.0)) for loss in self.valid_losses)
        return before, after


FILE = "README.md"
EMPTY = "This is the model card of a 🤗 transformers model that has been pushed on the Hub."  # what a push writes
LICENCE = ("license", "license_name", "license_link")
PLACE = "path/to/this/model"
TEMPLATE = """---
{{ card_data }}
---

# {{ config.method.title }}

{% if alone %}An output layer for {{ base_link or "a local base model" }}{% else %}{{ base_link or "A local base model" }} with another output layer{% endif %}: **{{ config.method.title }}**, a method of
[Chang et al., Findings of ACL 2023](https://aclanthology.org/2023.findings-acl.805/).

| | |
|---|---|
| method | `{{ config.method }}` |
| convention | {{ config.convention }} |
| form | {{ config.form }} |
| model | {{ model.base_class.__name__ }} |
| parameters added | {{ "{:,}".format(added) }} |
| parameters in all | {{ "{:,}".format(model.num_parameters()) }} |
| licence of the base model | {{ licence }} |
{% if training %}
## Training

| | |
|---|---|
{% for name, value in training.items() %}| {{ name }} | {{ value.replace("|", "\\\\|") }} |
{% endfor %}{% endif %}
## Load

{% if alone %}This is the output layer alone. It needs the library, `pip install unbottle`, and the base model it was trained on; any
other is refused.

```python
import unbottle
from transformers import {{ auto }}

model = {{ auto }}.from_pretrained("{{ base_model or 'path/to/the/base/model' }}")
unbottle.load_head(model, "{{ place }}")
```
{% else %}It needs the library: `pip install unbottle`.

```python
import unbottle

model = unbottle.load("{{ place }}")
```

`{{ auto }}.from_pretrained("{{ place }}")` works too, once unbottle is imported. Without it, transformers
does not know the model type `unbottle`, and stops; the tokenizer loads as any other.
{% endif %}"""  # noqa: E501  line breaks would show


def write_card(model: ModelWithHead, directory: str | PathLike[str], *, repo_id: str | None = None) -> None:
    """Write the card of a model with a head, unless the directory has a card that somebody wrote.

    `repo_id` is where a push uploads it; only then is the Hub asked for the licence of the base model.
    """
    path = Path(directory) / FILE
    if not path.exists() or EMPTY in path.read_text(encoding="utf-8", errors="replace"):
        model_card(model, repo_id=repo_id).save(path)


def model_card(
    model: ModelWithHead, *, training: TrainingRecord | None = None, repo_id: str | None = None
) -> ModelCard:
    """Of a whole model, with the numbers of its training if they are known."""
    return _card(model, model.head, training, place=repo_id or PLACE, online=repo_id is not None)


def write_head_card(model: ModelWithHead, head: Head, directory: Path) -> None:
    """Write the card of a head that is saved without its model, unless the directory has a card."""
    if not (directory / FILE).exists():
        _card(model, head, None, place="path/to/this/head", alone=True).save(directory / FILE)


def base_name(model: ModelWithHead) -> str:
    return str(getattr(model.config, BASE_NAME))


def on_hub(name: str) -> bool:
    """Whether this can be a name on the Hub. Directories of somebody's machine do not go into a card."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not Path(name).exists()


def licence_of(name: str, *, online: bool) -> dict[str, str]:
    """The licence that the card of a base model names: of its folder, of the cache or, `online`, of the Hub."""
    try:
        if (Path(name) / FILE).is_file():
            card = ModelCard.load(Path(name) / FILE)
        elif not on_hub(name):
            return {}
        elif isinstance(cached := try_to_load_from_cache(name, FILE), str):
            card = ModelCard.load(Path(cached))
        elif online:
            with quick_hub(name):
                card = ModelCard.load(name)
        else:
            return {}
    except Exception:  # a card that somebody else wrote, or a Hub that does not answer: neither may stop a save
        return {}
    # only text: a few lines of YAML aliases stand for a list that no memory holds as text
    return {key: value for key in LICENCE if isinstance(value := getattr(card.data, key, None), str) and value}


def _card(
    model: ModelWithHead,
    head: Head,
    training: TrainingRecord | None,
    *,
    place: str,
    alone: bool = False,
    online: bool = False,
) -> ModelCard:
    """`place` is where it is loaded from, `alone` says whether it is a head without its model."""
    name, config, seq2seq = base_name(model), head.config, head.config.encoder_decoder
    known, licence = on_hub(name), licence_of(name, online=online)
    dataset = None if training is None else _dataset(training)
    data = ModelCardData(
        base_model=name if known else None,
        base_model_relation=("adapter" if alone else "finetune") if known else None,
        **licence,  # type: ignore[arg-type]  # names of the licence, all of them texts
        datasets=dataset,
        library_name="unbottle",
        pipeline_tag=None if seq2seq else "text-generation",
        tags=["unbottle", "softmax-bottleneck", model.config.model_type],
        model_name=f"{name if known else model.base_class.__name__} with {config.method.title}",
        eval_results=_results(training, dataset, seq2seq),
    )
    card: ModelCard = ModelCard.from_template(
        data,
        template_str=TEMPLATE,
        alone=alone,
        base_link=f"[{name}](https://huggingface.co/{name})" if known else None,
        model=model,
        config=config,
        added=sum(parameter.numel() for parameter in head.parameters()),
        licence=licence.get("license_name", licence.get("license", "not known here: see the base model")),
        training=None if training is None else _training_rows(training),
        auto="AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM",
        place=place,
    )
    return card


def _training_rows(training: TrainingRecord) -> dict[str, str]:
    rows = {
        "data": _described_data(training),
        "trained": TRAINED[training.train],
        "steps": f"{training.steps:,}",
        "tokens": f"{training.tokens:,}",
        **{name: f"{value}" for name, value in training.settings.items()},
    }
    if training.valid_losses is not None and training.perplexities is not None:
        for name, (before, after) in (("loss", training.valid_losses), ("perplexity", training.perplexities)):
            rows[f"validation {name}, before -> after"] = f"{before:.4f} -> {after:.4f}"
    return rows


def _described_data(training: TrainingRecord) -> str:
    if name := _dataset(training):
        return f"[{training.data}](https://huggingface.co/datasets/{name})"
    return "local data" if training.fingerprint is None else f"local data, fingerprint {training.fingerprint}"


def _dataset(training: TrainingRecord) -> str | None:
    """Its name on the Hub, without the configuration (owner/name:config)."""
    name = "" if training.data is None else training.data.partition(":")[0]
    return name if name and on_hub(name) else None


def _results(training: TrainingRecord | None, dataset: str | None, seq2seq: bool) -> list[EvalResult] | None:
    """The validation loss after training; its exponential where every label is a token of one text."""
    if training is None or training.valid_losses is None or training.perplexities is None:
        return None
    metrics = {"loss": training.valid_losses[1]} | ({} if seq2seq else {"perplexity": training.perplexities[1]})
    return [
        EvalResult(
            task_type="summarization" if seq2seq else "text-generation",
            dataset_type=dataset or "local",
            dataset_name=dataset or "local data",
            dataset_split="validation",
            metric_type=metric,
            metric_value=value,
        )
        for metric, value in metrics.items()
    ]
