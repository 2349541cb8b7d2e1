"""Checkpoint: what saving and loading do for a model with a head, beyond what transformers does for any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unbottle.head import Head
from unbottle.hf.card import write_card
from unbottle.hf.config_face import put_on
from unbottle.hf.parity import calibrate

if TYPE_CHECKING:
    from typing import Any as Model  # what the mixin is mixed into: a model class
else:
    Model = object


COPY_BIAS = "head.gate.b"  # CopyNet's, whose start depends on the model


class Checkpoint(Model):
    """A directory that names its head, has a card, and holds weights as safetensors only."""

    head: Head

    def save_pretrained(self, save_directory: Any, is_main_process: bool = True, *args: Any, **kwargs: Any) -> None:
        """As any model's. The config is brought up to date first: models may share one, and heads may change."""
        put_on(self.config, self.head.config)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process and not getattr(self, "_hf_peft_config_loaded", False):  # PEFT saves its adapter only
            write_card(self, save_directory)

    def _upload_modified_files(self, working_dir: Any, *args: Any, **kwargs: Any) -> Any:
        """The last step of every push, which has just put an empty card into the directory if the Hub had none."""
        write_card(self, working_dir)
        return super()._upload_modified_files(working_dir, *args, **kwargs)

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As any model's, but it never unpickles unless told to by `use_safetensors=False`.

        Where the checkpoint has no head, the fresh one is fitted to the model, as attach does.
        """
        kwargs.setdefault("use_safetensors", True)
        info_wanted = kwargs.pop("output_loading_info", False)
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if COPY_BIAS in info["missing_keys"]:
            calibrate(model)
        return (model, info) if info_wanted else model

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> Any:
        """As any model's, and the head's config knows. Fewer words than a reranker's k are refused first."""
        if new_num_tokens is not None:
            replace(self.head.config, vocabulary=new_num_tokens)
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.head.config = replace(self.head.config, vocabulary=self.get_output_embeddings().weight.shape[0])
        put_on(self.config, self.head.config)
        return embeddings
