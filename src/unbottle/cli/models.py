"""A model and its tokenizer, out of the folder a user names.

The model that a training starts from, with the head that is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unbottle.cli.options import DEMO_MODEL, HUB_NAME, is_demo_model


def causal_model(path: str) -> tuple[Any, Any]:
    """The model, with its head if it has one, and the tokenizer saved beside it."""
    return _model(path, encoder_decoder=False)


def seq2seq_model(path: str) -> tuple[Any, Any]:
    """The same for an encoder-decoder model."""
    return _model(path, encoder_decoder=True)


def any_model(path: str) -> tuple[Any, Any]:
    """The same for a model of either kind."""
    return _model(path, encoder_decoder=None)


def config_of_model(path: str) -> Any:
    """Its config, out of a folder or from the Hub; refuses what is neither."""
    from transformers import AutoConfig
    from transformers.utils import logging

    import unbottle.hf.loading  # noqa: F401  from here on AutoConfig knows our models
    from unbottle.hf.pretrained import NO_CODE
    from unbottle.hub_access import quick_hub, reachable

    logging.disable_progress_bar()  # commands have a bar of their own
    path = fetched(path)
    if not (Path(path) / "config.json").is_file() and (Path(path).exists() or not HUB_NAME.fullmatch(path)):
        raise ValueError(f"model {path!r} has no config.json. Give a folder that save_pretrained wrote.")
    try:
        with quick_hub(path):
            return AutoConfig.from_pretrained(path, **NO_CODE)
    except OSError as error:
        if Path(path).is_dir():
            raise ValueError(
                f"model {path!r} has a config.json that is not valid JSON. Save the model again."
            ) from error
        why = "did not come from the Hub" if reachable() else "the Hub cannot be reached"
        raise ValueError(
            f"model {path!r} is no folder here, and {why}. Give a folder that save_pretrained wrote, or {DEMO_MODEL}."
        ) from error


def fetched(path: str) -> str:
    """The folder of the demo's model, which is downloaded if need be; any other path as it is."""
    if not is_demo_model(path):
        return path
    from unbottle.experiments.demo_model import place, pretrained, user_cache
    from unbottle.experiments.demo_plan import SMOLLM2
    from unbottle.progress import progress

    if place(SMOLLM2, user_cache()).exists():
        return str(pretrained(SMOLLM2, user_cache(), lambda done, total, text: None))
    with progress() as report:
        return str(pretrained(SMOLLM2, user_cache(), report))


def refuse_other_kind(path: str, *, encoder_decoder: bool) -> Any:
    """By its config, which is the answer: nothing else is loaded yet."""
    return _config(path, encoder_decoder=encoder_decoder)


@contextmanager
def language_model(path: str, config: Any) -> Iterator[None]:
    """What has no output layer over words is refused by its own name, not by a list of all that have one."""
    try:
        yield
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise ValueError(
            f"model {path!r} is no language model ({config.model_type}). Give a causal model or an encoder-decoder."
        ) from error


def _config(path: str, *, encoder_decoder: bool | None) -> Any:
    """The config of a model of this kind; None: of either."""
    config = config_of_model(path)
    if config.is_encoder_decoder and encoder_decoder is False:
        raise ValueError(f"model {path!r} is an encoder-decoder ({config.model_type}). This takes a causal model.")
    if encoder_decoder and not config.is_encoder_decoder:
        raise ValueError(
            f"model {path!r} is no encoder-decoder ({config.model_type}). This takes one, such as T5 or BART."
        )
    return config


def _model(path: str, *, encoder_decoder: bool | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.configuration import ConfigFace
    from unbottle.hf.loading import load
    from unbottle.hf.pretrained import SAFE
    from unbottle.hub_access import quick_hub

    path = fetched(path)
    config = _config(path, encoder_decoder=encoder_decoder)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quick_hub(path), language_model(path, config):
        model: Any = load(path) if isinstance(config, ConfigFace) else auto.from_pretrained(path, **SAFE)
        tokenizer = tokenizer_of(path)
    words = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > words:
        raise ValueError(
            f"model {path!r} knows {words} tokens and its tokenizer has {len(tokenizer)}. Save the tokenizer that the "
            "model was trained with beside it."
        )
    return model, tokenizer


def tokenizer_of(path: str, what: str = "model") -> Any:
    """The tokenizer saved in a folder, and `what` that folder is to people. Without its files, transformers may raise,
    or make one that knows no word."""
    from transformers import AutoTokenizer

    from unbottle.hf.pretrained import NO_CODE

    failure: Exception | None = None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **NO_CODE)
        if tokenizer("a word")["input_ids"]:
            return tokenizer
    except Exception as error:  # of a damaged file the library in Rust raises no class of its own
        failure = error
    where = "beside it" if what == "model" else "in it"
    raise ValueError(
        f"{what} {path!r} has no tokenizer {where}. Save one there with tokenizer.save_pretrained({path!r})."
    ) from failure


def short_names(paths: Sequence[str]) -> list[str]:
    """The last part of each path, or the whole paths if those are not all different."""
    names = [Path(path).name for path in paths]
    return names if len(set(names)) == len(names) and all(names) else list(paths)


def starting_model(run: dict[str, Any], seed: int, *, folder: Path, encoder_decoder: bool = False) -> tuple[Any, Any]:
    """Out of a folder, the hub or a config; and its tokenizer. New weights are drawn with the seed.

    A run that goes on in its `folder` keeps the form of its head, whatever the default has become since.
    """
    from transformers import set_seed

    from unbottle.head.projection import DEFAULT_FORM, current_name
    from unbottle.hf.attach import attach
    from unbottle.hf.modeling import HeadMixin
    from unbottle.method import Method
    from unbottle.train.run import form_of

    method = None if run.get("method") is None else Method.parse(run["method"])
    set_seed(seed)
    if run.get("model"):
        if run.get("tokenizer"):
            raise ValueError("--tokenizer is for --config: a model has its own.")
        model, tokenizer = (seq2seq_model if encoder_decoder else causal_model)(run["model"])
    else:
        model, tokenizer = from_nothing(run["config"], run.get("tokenizer"), encoder_decoder=encoder_decoder)
    if not isinstance(model, HeadMixin):
        set_seed(seed)
        form = run.get("form") or form_of(folder) or DEFAULT_FORM
        return model if method is None else attach(model, method, form=form), tokenizer
    if method is not None and method != model.head.config.method:
        raise ValueError(
            f"{run['model']} has the head {str(model.head.config.method)!r} already, not {str(method)!r}. Leave out "
            "--method to go on with it, or start from the plain model."
        )
    if run.get("form") is not None and current_name(run["form"]) != model.head.config.form:
        raise ValueError(
            f"{run['model']} has a head in the form {model.head.config.form!r} already, not {run['form']!r}. Leave out "
            "--form to go on with it, or start from the plain model."
        )
    return model, tokenizer


def from_nothing(config: str, tokenizer_path: str | None, *, encoder_decoder: bool = False) -> tuple[Any, Any]:
    """Random weights, as a config says. Without a size of its vocabulary it gets the tokenizer's."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.pretrained import NO_CODE
    from unbottle.hub_access import quick_hub

    if tokenizer_path is None:
        raise ValueError("--config needs --tokenizer: a folder or a hub model that has one.")
    tokenizer_path = fetched(tokenizer_path)
    with quick_hub(tokenizer_path):
        tokenizer = tokenizer_of(tokenizer_path, "--tokenizer")
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
        made = AutoConfig.for_model(**values)
    if made.is_encoder_decoder != encoder_decoder:
        wanted, found = ("an encoder-decoder", "none") if encoder_decoder else ("a causal model", "an encoder-decoder")
        raise ValueError(f"{where}: {wanted} is needed, and {values['model_type']} is {found}.")
    auto: Any = AutoModelForSeq2SeqLM if encoder_decoder else AutoModelForCausalLM
    with one_sentence(where):
        return auto.from_config(made, **NO_CODE), tokenizer


@contextmanager
def one_sentence(where: str) -> Iterator[None]:
    """Whatever transformers says about numbers and names that make no model."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{where}: no model can be made of it ({type(error).__name__}: {reason}).") from error
