"""ExactTrainer: the Trainer of Hugging Face, with checkpoints that are whole and a validation loss per token."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import Seq2SeqTrainer, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from unbottle.train.checkpoints import PREFIX, rotate, seal
from unbottle.train.distributed import DistributedTrainer
from unbottle.train.files import read_json, whole_disk, write_json
from unbottle.train.processes import backend, first_does, is_first, on_cpu, processes, total, wait
from unbottle.train.settings import RunSettings
from unbottle.train.watch import Watch
from unbottle.train.whole import put, whole_tensors

WEIGHTS, MIDWAY = "weights.safetensors", "midway.json"
WRITING = ".writing"  # folder of what is not whole yet
HEAD = ".head."


class ExactTrainer(DistributedTrainer):
    """Writes a checkpoint under another name first, and only what training changes: the rest comes with the model.

    Abstract: LanguageTrainer and SummaryTrainer know which labels are predicted.
    """

    model: Any

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        """The labels that the loss is about, of B T."""
        raise NotImplementedError

    def __init__(self, *args: Any, settings: RunSettings, **kwargs: Any) -> None:
        self.settings = settings
        super().__init__(*args, **kwargs)
        self.checkpoints = Path(settings.output) / "checkpoints"
        self.loss = math.nan  # of the last step
        vocabulary = getattr(self.model.config.get_text_config(), "vocab_size", 0)
        self.watch = Watch(Path(settings.output), vocabulary, settings.lr)
        self.seconds_before, self.started = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Of training, all sessions of this run together."""
        return self.seconds_before + time.monotonic() - self.started

    # -- steps

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """As always; the head in groups of its own where its learning rate differs."""
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if fresh and self.settings.head_lr != 1.0:
            head = {id(p) for name, p in self.model.named_parameters() if HEAD in f".{name}"}
            for group in [*optimizer.param_groups]:
                theirs = [p for p in group["params"] if id(p) in head]
                group["params"] = [p for p in group["params"] if id(p) not in head]
                lr = group["lr"] * self.settings.head_lr
                optimizer.add_param_group({**group, "params": theirs, "lr": lr})
        return optimizer

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Tensor:
        """As always, but a loss that is no number, or explodes, ends the run before it gets into a checkpoint."""
        self.watch.batch(self.state.global_step + 1, inputs)
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.loss = (total(loss) / processes()).item() * self.current_gradient_accumulation_steps
        self.watch.loss(self.loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """As always, before the optimizer takes its step. Float16 scales its loss, and knows how to skip a step."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if self._scaler is None:
            self.watch.gradient(norm)
        return norm

    def evaluation_loop(self, dataloader: Any, description: str, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """The mean loss of all tokens that were predicted, however they fall into batches."""
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        rows = 0
        quick = {"skip_logits": True} if hasattr(self.model, "head") else {}
        with torch.no_grad():
            for batch in dataloader:
                inputs = self._prepare_inputs(batch)
                count = (self.predicted(inputs["labels"]) != -100).sum()
                some = count.clamp(min=1)  # a process may have nothing to do with the last rows
                counted = {"num_items_in_batch": some} if self.model_accepts_loss_kwargs else {}
                with self.accelerator.autocast():
                    loss = self.model(**inputs, **quick, **counted)["loss"]
                sums += torch.stack([loss.double().where(count > 0, 0.0) * count, count.double()])
                rows += len(inputs["labels"])
        loss_sum, tokens = total(sums).tolist()
        return EvalLoopOutput(None, None, {"eval_loss": loss_sum / max(tokens, 1.0)}, rows)  # type: ignore[arg-type]

    def valid_loss(self) -> float:
        """Now, without a line in any log."""
        found = self.evaluation_loop(self.get_eval_dataloader(), "validation").metrics
        assert found is not None
        return found["eval_loss"]

    # -- checkpoints

    def changing(self) -> dict[str, Tensor]:
        """What training changes, by name: parameters that get a gradient, and buffers that are saved."""
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        buffers = {name: value for name, value in self.model.state_dict().items() if name not in parameters}
        trained = {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}
        return trained | {name: value for name, value in buffers.items() if isinstance(value, Tensor)}

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """All processes write their part; when it is there, the first one gives it its name."""
        temporary = Path(str(self.args.output_dir)) / f"{PREFIX}{self.state.global_step}"
        first_does(lambda: shutil.rmtree(temporary, ignore_errors=True))
        midway = {
            "loss": (total(self._tr_loss) / processes()).item(),  # of the steps since the last line of the log
            "logged": self._globalstep_last_logged,
            "seconds": self.seconds,
        }
        with whole_disk(self.checkpoints):
            try:
                super()._save_checkpoint(model, trial)
                wait()
                first_does(lambda: self._seal(temporary, midway))
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise

    def _seal(self, temporary: Path, midway: dict[str, Any]) -> None:
        write_json(temporary / MIDWAY, midway)
        seal(temporary, self.checkpoints)
        rotate(self.checkpoints, self.settings.keep)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The weights of a checkpoint."""
        assert output_dir is not None
        tensors = whole_tensors(self.changing())
        if is_first():
            trained = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
            self.watch.weights({name: value for name, value in tensors.items() if name in trained})
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            save_file({name: value.contiguous().clone() for name, value in tensors.items()}, Path(output_dir) / WEIGHTS)

    @torch.no_grad()
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Into the memory where the weights lie: where they lie, their products round alike."""
        stored, here = load_file(Path(resume_from_checkpoint) / WEIGHTS), self.changing()
        if missing := sorted(set(stored) ^ set(here)):
            raise ValueError(f"{resume_from_checkpoint} belongs to another model: {missing[0]} is only in one of them.")
        for name, value in stored.items():
            put(here[name], value)

    def restore_midway(self, checkpoint: str) -> None:
        """What the Trainer forgets: the loss since the last line of the log, and the time."""
        midway = read_json(Path(checkpoint) / MIDWAY)
        self._tr_loss = torch.tensor(midway["loss"], device=self.args.device)
        self._globalstep_last_logged = midway["logged"]
        self.seconds_before, self.started = midway["seconds"], time.monotonic()


class LanguageTrainer(ExactTrainer):
    """Of causal models, which shift labels themselves."""

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        return labels[:, 1:]


class SummaryTrainer(ExactTrainer, Seq2SeqTrainer):
    """Of encoder-decoder models: every label is predicted, the first one too."""

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """T5, BART and their kin take num_items_in_batch and pass it over: theirs is the mean of the labels here."""
        found = super().compute_loss(model, inputs, True, num_items_in_batch)
        loss, outputs = found
        if num_items_in_batch is not None and not hasattr(self.model, "head"):
            count = (inputs["labels"] != -100).sum()
            loss = (loss * (count / num_items_in_batch)).where(count > 0, 0.0)
        return (loss, outputs) if return_outputs else loss

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        return labels


def arguments(settings: RunSettings, kind: type[TrainingArguments], *, evaluates: bool) -> TrainingArguments:
    """Our settings in the Trainer's words. What it writes itself goes to a folder for things that are not whole yet."""
    never = 10**9
    each = settings.batch // processes()
    return kind(
        output_dir=str(Path(settings.output) / WRITING),
        per_device_train_batch_size=each,
        per_device_eval_batch_size=each,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.lr,
        adam_epsilon=settings.eps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        lr_scheduler_type="constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
        warmup_steps=settings.warmup_steps,
        num_train_epochs=settings.epochs,
        max_steps=-1 if settings.max_steps is None else settings.max_steps,
        seed=settings.seed,
        data_seed=settings.seed,
        train_sampling_strategy="random" if settings.shuffle else "sequential",
        bf16=settings.precision == "bfloat16",
        fp16=settings.precision == "float16",
        use_cpu=on_cpu(settings.device),
        ddp_backend=backend(),
        logging_strategy="steps",
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if evaluates else "no",
        eval_steps=settings.eval_every or never,
        save_strategy="steps",
        save_steps=settings.save_every or never,
        include_num_input_tokens_seen="all",
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=[name for name in settings.report_to or () if name != "tensorboard"] or "none",
        run_name=Path(settings.output).name,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=torch.cuda.is_available(),
    )
