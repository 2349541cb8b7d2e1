"""Checkpoint: what saving and loading do for a model with a head, beyond what transformers does for any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PretrainedConfig
from transformers.utils import CONFIG_NAME

from unbottle.head import Head
from unbottle.hf.card import write_card
from unbottle.hf.config_face import put_on
from unbottle.hf.parity import calibrate
from unbottle.hf.safe import NO_CODE
from unbottle.hf.weights import (
    HEAD_WEIGHTS,
    MISSING,
    UNEXPECTED,
    loading_problems,
    refuse_broken_values,
    refuse_other_sizes,
    refuse_wrong_weights,
)

if TYPE_CHECKING:
    from typing import Any as Model  # what the mixin is mixed into: a model class
else:
    Model = object


class Checkpoint(Model):
    """A directory that names its head, has a card, and holds weights as safetensors only."""

    head: Head

    def save_pretrained(self, save_directory: Any, is_main_process: bool = True, *args: Any, **kwargs: Any) -> None:
        """As any model's. The config is brought up to date first: models may share one, and heads may change."""
        put_on(self.config, self.head.config)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process and not getattr(self, "_hf_peft_config_loaded", False):  # PEFT saves its adapter only
            write_card(self, save_directory)

    def _upload_modified_files(self, working_dir: Any, repo_id: str, *args: Any, **kwargs: Any) -> Any:
        """The last step of every push, which has just put an empty card into the directory if the Hub had none."""
        write_card(self, working_dir, repo_id=repo_id)
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As any model's, but it never unpickles unless told to by `use_safetensors=False`.

        A head that was saved is there as a whole, or it is refused. Where the checkpoint is one of a plain model and
        the config was given, the head is fresh and fitted to the model, as attach does.
        """
        path, config = pretrained_model_name_or_path, kwargs.get("config")
        info_wanted = kwargs.pop("output_loading_info", False)
        subfolder = kwargs.get("subfolder") or ""
        described = config
        if config is None and (Path(path) / subfolder / CONFIG_NAME).is_file():
            described = cls.config_class.from_pretrained(path, subfolder=subfolder, **NO_CODE)
        if isinstance(described, PretrainedConfig) and not kwargs.get("ignore_mismatched_sizes", False):
            refuse_other_sizes(path, subfolder, cls, described)
        is_own = config is None or str(getattr(config, "name_or_path", config)) == str(path)
        model, info = cls.load_with_info(path, *args, **kwargs)
        head = {f"{HEAD_WEIGHTS}{name}" for name in model.head.state_dict()}
        wrong = loading_problems(info, (MISSING, UNEXPECTED), HEAD_WEIGHTS)
        if not is_own and {*wrong[MISSING]} >= head:
            wrong[MISSING] = []
        refuse_wrong_weights(path, wrong)
        refuse_broken_values(path, model.head.state_dict(prefix=HEAD_WEIGHTS))
        return (model, info) if info_wanted else model

    @classmethod
    def load_with_info(cls, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """The model of a checkpoint, whatever is missing there, and what transformers says about its loading."""
        kwargs.setdefault("use_safetensors", True)
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if any(name.startswith(HEAD_WEIGHTS) for name in info["missing_keys"]):
            calibrate(model)
        return model, info

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> Any:
        """As any model's, and the head's config knows. Fewer words than a reranker's k are refused first."""
        if new_num_tokens is not None:
            replace(self.head.config, vocabulary=new_num_tokens)
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.head.config = replace(self.head.config, vocabulary=self.get_output_embeddings().weight.shape[0])
        put_on(self.config, self.head.config)
        return embeddings
