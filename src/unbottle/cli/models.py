"""Load the model and the tokenizer that a command names: from a folder, from the Hub, or from a config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbottle.cli.options import is_demo_model

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    Loaded = tuple[Any, PreTrainedTokenizerBase]  # a PreTrainedModel, perhaps with a head


def any_model(path: str, *, encoder_decoder: bool | None = None) -> Loaded:
    """A model of this kind (None: either), with its head if it has one, and the tokenizer saved beside it."""
    from unbottle.hf.pretrained import load_model

    return load_model(fetched(path), encoder_decoder=encoder_decoder)


def causal_models(paths: Sequence[str]) -> Iterator[tuple[str, Any, PreTrainedTokenizerBase]]:
    """Short name, model on the best device and tokenizer of each path. All are checked before the first is loaded."""
    from unbottle.eval.inference import best_device

    for path in paths:
        config_of_model(path, encoder_decoder=False)
    for path, name in zip(paths, short_names(paths), strict=True):
        model, tokenizer = any_model(path, encoder_decoder=False)
        yield name, model.to(best_device()), tokenizer


def config_of_model(path: str, *, encoder_decoder: bool | None = None) -> PretrainedConfig:
    """The config of a model of this kind (None: either); nothing else is loaded."""
    from unbottle.hf.pretrained import load_config

    return load_config(fetched(path), encoder_decoder=encoder_decoder)


def fetched(path: str) -> str:
    """The folder of the demo's model, which is downloaded if need be; any other path as it is, for from_pretrained."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # commands have a progress bar of their own
    if not is_demo_model(path):
        return path
    from unbottle.experiments.demo_model import SMOLLM2, fetch_model, model_folder, user_cache
    from unbottle.progress import progress

    if model_folder(SMOLLM2, user_cache()).exists():
        return str(fetch_model(SMOLLM2, user_cache(), lambda done, total, text: None))
    with progress() as report:
        return str(fetch_model(SMOLLM2, user_cache(), report))


def short_names(paths: Sequence[str]) -> list[str]:
    """Names that tell the models apart: of runs/a/model and runs/b/model, a and b.

    The last part of each path, `model` (the folder in a run) left out; or, if those are the same, more parts of it.
    """
    parts = [[part for part in Path(path).parts if part != "model"] or [path] for path in paths]
    longest = max(map(len, parts), default=0)
    for length in range(1, longest + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def starting_model(
    options: Mapping[str, Any], seed: int, *, folder: Path, train: str = "all", encoder_decoder: bool = False
) -> Loaded:
    """The model that a training starts from, with the head that is asked for, and its tokenizer.

    A run that is resumed in its `folder` keeps the form of its head, whatever the default has become since.
    """
    from transformers import set_seed

    from unbottle.head.projection import current_name, form_for
    from unbottle.hf.attach import attach
    from unbottle.hf.modeling import HeadMixin
    from unbottle.method import Method
    from unbottle.train.run import form_of

    name, form, path, tokenizer_path = (options.get(key) for key in ("method", "form", "model", "tokenizer"))
    method = None if name is None else Method.parse(name)
    set_seed(seed)
    if path:
        if tokenizer_path:
            raise ValueError("--tokenizer is for --config: a model has its own.")
        model, tokenizer = any_model(path, encoder_decoder=encoder_decoder)
    else:
        model, tokenizer = random_model(str(options["config"]), tokenizer_path, encoder_decoder=encoder_decoder)
    if not isinstance(model, HeadMixin):
        set_seed(seed)
        form = form or form_of(folder) or form_for(train)
        return model if method is None else attach(model, method, form=form), tokenizer
    if method is not None and method != model.head.config.method:
        raise ValueError(
            f"{path} has the head {str(model.head.config.method)!r} already, not {str(method)!r}. Leave out "
            "--method to continue with it, or start from the plain model."
        )
    if form is not None and current_name(form) != model.head.config.form:
        raise ValueError(
            f"{path} has a head in the form {model.head.config.form!r} already, not {form!r}. Leave out --form to "
            "continue with it, or start from the plain model."
        )
    return model, tokenizer


def random_model(config: str, tokenizer_path: str | None, *, encoder_decoder: bool = False) -> Loaded:
    """A model with random weights, from a config. Without a vocab_size it gets the tokenizer's."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.pretrained import NO_CODE, load_tokenizer
    from unbottle.hub_access import quick_hub

    if tokenizer_path is None:
        raise ValueError("--config needs --tokenizer: a folder or a hub model that has one.")
    tokenizer_path = fetched(tokenizer_path)
    with quick_hub(tokenizer_path):
        tokenizer = load_tokenizer(tokenizer_path, "--tokenizer")
    where = "--config" if config.lstrip().startswith("{") else config
    try:
        text = config if where == "--config" else Path(config).read_text(encoding="utf-8")
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not valid JSON ({error}).") from error
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        kind = "t5" if encoder_decoder else "gpt2"
        raise ValueError(f'{where}: expected an object with a model_type, as in {{"model_type": "{kind}", ...}}.')
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if encoder_decoder:
        padding = tokenizer.pad_token_id
        ends |= {"pad_token_id": padding, "decoder_start_token_id": padding}  # as T5; BART's config names its own
    values = {"vocab_size": len(tokenizer), **ends, **values}
    if not isinstance(values["vocab_size"], int) or values["vocab_size"] < len(tokenizer):
        raise ValueError(f"{where}: vocab_size {values['vocab_size']}, and the tokenizer has {len(tokenizer)} tokens.")
    with one_sentence(where):
        model_config = AutoConfig.for_model(**values)
    if model_config.is_encoder_decoder != encoder_decoder:
        wanted, actual = ("an encoder-decoder", "none") if encoder_decoder else ("a causal model", "an encoder-decoder")
        raise ValueError(f"{where}: {wanted} is needed, and {values['model_type']} is {actual}.")
    auto: Any = AutoModelForSeq2SeqLM if encoder_decoder else AutoModelForCausalLM
    with one_sentence(where):
        return auto.from_config(model_config, **NO_CODE), tokenizer


@contextmanager
def one_sentence(where: str) -> Iterator[None]:
    """Say in one sentence why transformers cannot build a model from a config."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{where}: no model can be made of it ({type(error).__name__}: {reason}).") from error
