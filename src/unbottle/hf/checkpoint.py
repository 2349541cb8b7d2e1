"""Checkpoint: how a model with a head is saved and loaded. Its weights are checked: names, sizes, finite values."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import get_local_safetensors_metadata
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils import CONFIG_NAME

from unbottle.head import Head
from unbottle.hf.configuration import NO_CODE, put_on
from unbottle.hf.model_card import write_card
from unbottle.hf.parity import calibrate

if TYPE_CHECKING:
    from typing import Any as Model  # what the mixin is mixed into: a model class
else:
    Model = object

HEAD_WEIGHTS = "head."  # how the names of a head's weights begin
MISMATCHED, MISSING, UNEXPECTED = "mismatched", "missing", "unexpected"
WRONG = {MISMATCHED: "of another shape", MISSING: "missing", UNEXPECTED: "unexpected"}
PLAIN_DTYPES = ("F64", "F32", "F16", "BF16")  # in which a weight has the shape of its parameter


class Checkpoint(Model):
    """A directory that names its head, has a card, and holds weights as safetensors only."""

    head: Head

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], is_main_process: bool = True, *args: object, **kwargs: object
    ) -> None:
        """As any model's. The config is brought up to date first: models may share one, and heads may change."""
        put_on(self.config, self.head.config)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process and not getattr(self, "_hf_peft_config_loaded", False):  # PEFT saves its adapter only
            write_card(self, save_directory)

    def _upload_modified_files(
        self, working_dir: str | os.PathLike[str], repo_id: str, *args: object, **kwargs: object
    ) -> object:
        """The last step of every push, which has just put an empty card into the directory if the Hub had none."""
        write_card(self, working_dir, repo_id=repo_id)
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: object, **kwargs: Any
    ) -> Any:
        """As any model's, but it never unpickles unless told to by `use_safetensors=False`.

        A head that was saved is there as a whole, or it is refused. Where the checkpoint is one of a plain model and
        the config was given, the head is fresh and fitted to the model, as attach does.
        """
        path, config = pretrained_model_name_or_path, kwargs.get("config")
        info_wanted = kwargs.pop("output_loading_info", False)
        subfolder, described = kwargs.get("subfolder") or "", config
        is_placed = kwargs.get("device_map") in DEVICE_MAPS
        if config is None and path is not None and (is_placed or (Path(path) / subfolder / CONFIG_NAME).is_file()):
            hub = {name: kwargs[name] for name in HUB_OPTIONS if name in kwargs}
            described = cls.config_class.from_pretrained(path, subfolder=subfolder, **hub, **NO_CODE)
        if isinstance(described, PretrainedConfig):
            if path is not None and not kwargs.get("ignore_mismatched_sizes", False):
                refuse_other_sizes(path, subfolder, cls, described)
            if is_placed:
                kwargs["device_map"] = device_map_with_head(cls.base_class, described, kwargs)
        is_own = config is None or str(getattr(config, "name_or_path", config)) == str(path)
        kwargs.setdefault("use_safetensors", True)
        model, info = super().from_pretrained(path, *args, output_loading_info=True, **kwargs)
        wrong = loading_problems(info, (MISSING, UNEXPECTED), HEAD_WEIGHTS)
        if wrong[MISSING]:
            calibrate(model)
        if not is_own and {*wrong[MISSING]} >= {*model.head.state_dict(prefix=HEAD_WEIGHTS)}:
            wrong[MISSING] = []
        refuse_wrong_weights(path, wrong)
        refuse_broken_values(path, model.head.state_dict(prefix=HEAD_WEIGHTS))
        return (model, info) if info_wanted else model

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: object, **kwargs: object) -> nn.Module:
        """As any model's, and the head's config knows. Fewer words than a reranker's k are refused first."""
        if new_num_tokens is not None:
            replace(self.head.config, vocabulary=new_num_tokens)
        embeddings: nn.Module = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.head.config = replace(self.head.config, vocabulary=self.get_output_embeddings().weight.shape[0])
        put_on(self.config, self.head.config)
        return embeddings


HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "token")
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")  # that from_pretrained computes


def device_map_with_head(
    base: type[PreTrainedModel], config: PretrainedConfig, options: Mapping[str, Any]
) -> dict[str, Any] | str:
    """The device map that from_pretrained shall use where its `options` ask for a computed one.

    transformers takes the name `head` for a part of `lm_head`, and cannot place a tied model that has both. Such a
    model gets the map of the plain model, with the head, whose size is not counted, beside the output embeddings.
    """
    from transformers.integrations.accelerate import _get_device_map

    device_map: str = options["device_map"]
    dtype = options.get("dtype", options.get("torch_dtype"))
    dtype = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype  # "auto": the config's own
    with torch.device("meta"):
        plain: Any = base._from_config(copy.deepcopy(config), **({} if dtype is None else {"dtype": dtype}))
    plain.tie_weights()
    output = plain.get_output_embeddings()
    if output.weight is not plain.get_input_embeddings().weight:
        return device_map
    if options.get("quantization_config") or getattr(config, "quantization_config", None):
        raise ValueError(
            f"device_map={device_map!r}: not for a quantised model with a head whose embeddings are tied. Name the "
            'device, as in device_map={"": 0}.'
        )
    places: dict[str, Any] = _get_device_map(plain, device_map, options.get("max_memory"), None)
    if "" not in places:
        name = next(name for name, module in plain.named_modules() if module is output)
        places["head"] = next(place for part, place in places.items() if f"{name}.".startswith(f"{part}."))
    return places


def refuse_wrong_weights(path: str | os.PathLike[str], wrong: Mapping[str, Iterable[str]]) -> None:
    """Refuse weights that config.json does not describe; `wrong` has their names by kind, the worst kind first."""
    for kind, names in wrong.items():
        if listed := sorted(names):
            more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
            raise ValueError(
                f"{path}: the weights do not belong to config.json: {listed[0]}{more} {WRONG[kind]}. One of the files "
                "was edited or lost; save the model again."
            )


def loading_problems(info: Mapping[str, Any], kinds: Iterable[str], prefix: str = "") -> dict[str, list[str]]:
    """Names of wrong weights by kind, of what from_pretrained returns as its loading info."""
    names = {kind: [name if isinstance(name, str) else name[0] for name in info[f"{kind}_keys"]] for kind in kinds}
    return {kind: [name for name in listed if name.startswith(prefix)] for kind, listed in names.items()}


def refuse_other_sizes(
    path: str | os.PathLike[str],
    subfolder: str,
    kind: Callable[[PretrainedConfig], nn.Module],
    config: PretrainedConfig,
) -> None:
    """Compare a folder's config with the headers of its weights, before memory is allocated for either.

    `kind` is the class of the model. Says nothing about a checkpoint without a head, or without safetensors here.
    """
    stored = _stored_shapes(Path(path) / subfolder)
    if not any(name.startswith(HEAD_WEIGHTS) for name in stored):
        return
    try:
        with torch.device("meta"):
            model = kind(copy.deepcopy(config))
    except (RuntimeError, TypeError, OverflowError, ZeroDivisionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path}: no model can have the sizes that config.json says ({reason}).") from error
    expected = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    other = [name for name, shape in stored.items() if name in expected and not _fits(name, shape, expected[name])]
    missing = [name for name in expected if name.startswith(HEAD_WEIGHTS) and name not in stored]
    refuse_wrong_weights(path, {MISMATCHED: other, MISSING: missing})


def refuse_broken_values(path: str | os.PathLike[str], weights: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity: every prediction would silently be NaN."""
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.is_meta and not bool(weight.isfinite().all()):
            raise ValueError(
                f"{path}: {name} has values that are NaN or infinite. The training that made them diverged, or the "
                "file was edited: take an earlier checkpoint."
            )


def _fits(name: str, stored: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether a weight can become this parameter. transformers stores some of a model's in another layout."""
    return stored == expected if name.startswith(HEAD_WEIGHTS) else math.prod(stored) == math.prod(expected)


def _stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name, from the headers of a folder's safetensors; nothing else is read."""
    try:
        files = get_local_safetensors_metadata(folder).files_metadata.values()
        return {
            name: tuple(weight.shape)
            for file in files
            for name, weight in file.tensors.items()
            if weight.dtype in PLAIN_DTYPES or name.startswith(HEAD_WEIGHTS)  # a head is never quantised
        }
    except Exception:  # of many kinds: from_pretrained will say what is wrong with it
        return {}
