"""What is trained: all parameters, the head on a frozen backbone, or LoRA adapters and the head.

A mode says what the Trainer gets, and how the trained model is saved to the folder of a run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.pytorch_utils import Conv1D

from unbottle.files import explain_full_disk, replace_folder
from unbottle.head import Head
from unbottle.hf.head_inputs import shifted, states
from unbottle.hf.model_card import FILE, TrainingRecord, model_card
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress, silent
from unbottle.train.arguments import HeadTrainingArguments
from unbottle.train.distributed import Row, gather_state_dict, is_sharded, on_first_process
from unbottle.train.hidden_state_cache import Windows, cache_hidden_states, is_cacheable

MODEL, ADAPTER = "model", "adapter"  # folders of a run


class FullTraining:
    """Trains every parameter that is not frozen, and saves folder/model."""

    def __init__(
        self,
        model: PreTrainedModel,
        train: Dataset[Row],
        valid: Dataset[Row] | None,
        args: HeadTrainingArguments,
        report: Progress | None,
    ) -> None:
        self.base, self.train, self.valid = model, train, valid
        self.model: nn.Module = model
        self.prepare(args, report or silent)

    def prepare(self, args: HeadTrainingArguments, report: Progress) -> None:
        """Set what the Trainer gets: `model`, `train` and `valid`."""

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerBase | None, training: TrainingRecord) -> None:
        save_folder(folder / MODEL, self.base, tokenizer, training)


class LoraTraining(FullTraining):
    """Trains adapters of PEFT and the full head. Saves folder/adapter, and folder/model with the adapters merged."""

    def prepare(self, args: HeadTrainingArguments, report: Progress) -> None:
        model = self.base
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError as error:
            raise ValueError("train_mode 'lora' needs PEFT: pip install 'unbottle[train]'") from error
        has_head = isinstance(model, HeadMixin)
        config = LoraConfig(
            task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
            r=args.lora_r,
            lora_alpha=cast("int", args.lora_alpha),  # PEFT takes any number
            target_modules="all-linear",
            modules_to_save=["head"] if has_head else None,
            fan_in_fan_out=any(isinstance(part, Conv1D) for part in model.modules()),  # GPT-2 stores its matrices so
        )
        self.peft_model = get_peft_model(model, config)
        self.model = self.peft_model

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerBase | None, training: TrainingRecord) -> None:
        save_folder(folder / ADAPTER, self.peft_model)
        save_folder(folder / MODEL, self.peft_model.merge_and_unload(), tokenizer, training)


class HeadTraining(FullTraining):
    """Trains the head on the hidden states of a frozen backbone, which reads every window once, in evaluation mode.

    The backbone runs at every step instead if the data are a stream, or if its states are not `is_cacheable`.
    """

    def prepare(self, args: HeadTrainingArguments, report: Progress) -> None:
        model = self.base
        assert isinstance(model, HeadMixin)
        self.trainable = {name: p.requires_grad for name, p in model.named_parameters()}
        model.requires_grad_(False)
        model.head.requires_grad_(True)
        self.model = FrozenBackbone(model)
        if isinstance(self.train, Windows) and is_cacheable(model):
            self.train = cache_hidden_states(model, self.train, args, report)
            if isinstance(self.valid, Windows):
                self.valid = cache_hidden_states(model, self.valid, args, report)

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerBase | None, training: TrainingRecord) -> None:
        for name, parameter in self.base.named_parameters():
            parameter.requires_grad_(self.trainable[name])
        super().save(folder, tokenizer, training)


MODES = {"all": FullTraining, "head": HeadTraining, "lora": LoraTraining}


def save_folder(
    final: Path,
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase | None = None,
    training: TrainingRecord | None = None,
) -> None:
    """Call save_pretrained, and rename the folder when all files are there. The model card of a model with a head has
    the numbers of its training."""
    state_dict = gather_state_dict(model) if is_sharded(model) else None

    def write() -> None:
        temporary = final.with_name(f".{final.name}.writing")
        shutil.rmtree(temporary, ignore_errors=True)
        with explain_full_disk(final.parent):
            cast("PreTrainedModel", model).save_pretrained(temporary, state_dict=state_dict)
            if training is not None and isinstance(model, HeadMixin):
                model_card(model, training=training).save(temporary / FILE)
            if tokenizer is not None:
                tokenizer.save_pretrained(temporary)
            replace_folder(temporary, final)

    on_first_process(write)


class FrozenBackbone(nn.Module):
    """A model in evaluation mode with a head that is trained. It takes `layers`, hidden states, in place of reading."""

    def __init__(self, model: HeadMixin) -> None:
        super().__init__()
        self.model: HeadMixin = model
        self.loss_type = model.loss_type  # by it the Trainer decides which labels are predicted, and counts them
        self.config = model.config
        self._no_split_modules = model._no_split_modules  # for FSDP2

    @property
    def head(self) -> Head:
        return self.model.head

    def train(self, mode: bool = True) -> FrozenBackbone:
        self.training = mode
        self.model.eval()
        self.model.head.train(mode)
        return self

    def gradient_checkpointing_enable(self, **options: object) -> None:
        """Do nothing: no gradient flows through the backbone."""

    def forward(
        self,
        labels: Tensor,
        layers: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        skip_logits: bool = True,  # or not: there is nothing but the loss
        **inputs: Tensor,
    ) -> dict[str, Tensor | None]:
        if layers is None:
            options = {"num_items_in_batch": num_items_in_batch, "skip_logits": True}
            return {"loss": self.model(labels=labels, **options, **inputs).loss}
        layers = layers.to(self.model.dtype)
        here = states(layers, inputs["input_ids"], inputs.get("attention_mask"), None, past=None)
        prediction = self.model._predict(here, labels=shifted(labels), num_items=num_items_in_batch, skip_logits=True)
        return {"loss": prediction.loss}
