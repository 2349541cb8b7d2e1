"""HeadTrainer: the Hugging Face Trainer with exact resumption, checkpoints without pickle, and the same results for any
number of processes."""

from __future__ import annotations

import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, SequentialSampler
from transformers import PreTrainedModel, Trainer, set_seed
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import EvalLoopOutput

from unbottle.files import explain_full_disk, read_json, write_json
from unbottle.train.arguments import HeadTrainingArguments
from unbottle.train.checkpoints import PREFIX, random_state, read_state, rotate, seal, set_random_state, write_state
from unbottle.train.distributed import (
    DistributedBatches,
    RowsWithBlank,
    all_reduce_sum,
    barrier,
    copy_sharded,
    gather_optimizer_state,
    gather_tensors,
    gather_zero_state,
    is_first,
    load_zero_state,
    on_first_process,
    rank,
    shard_optimizer_state,
    world_size,
)
from unbottle.train.divergence import DivergenceMonitor

WEIGHTS, MIDWAY = "weights.safetensors", "midway.json"
OPTIMIZER, SCHEDULE, SCALER, RANDOM = "optimizer", "schedule", "scaler", "random"
TRAINER_STATE = "trainer_state.json"
CHECKPOINTS, WRITING = "checkpoints", ".writing"  # folders of a run; the second for what is not complete yet
HEAD = ".head."
PADDING = {"input_ids": 0, "labels": -100}  # under the mask, any token will do

Batch = dict[str, Tensor]


def collate(rows: Sequence[Batch]) -> Batch:
    """A batch of rows. It is padded, and has an attention mask, only if the lengths of the rows differ."""
    batch = {
        name: pad_sequence([row[name] for row in rows], batch_first=True, padding_value=PADDING.get(name, 0))
        for name in rows[0]
    }
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    if (lengths != lengths.max()).any():
        batch["attention_mask"] = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    return batch


def check_engine(fsdp_version: int | None, zero_stage: int | None) -> None:
    """Refuse engines that shard the weights that the head reads outside of the module they belong to."""
    if fsdp_version == 1:
        raise ValueError("FSDP 1 flattens the weights that the head reads. Set fsdp_version: 2.")
    if zero_stage == 3:
        raise ValueError(
            "DeepSpeed ZeRO 3 takes the output embeddings away before the head has read them. Use ZeRO 2, or FSDP2, "
            "which splits weights too: examples/launch."
        )


def fresh_folder(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


@contextmanager
def embeddings_in_root(model: nn.Module) -> Iterator[None]:
    """Keep tied embeddings in the root unit of FSDP2, where they are gathered for the whole forward pass.

    accelerate would give them a unit of their own, and knows two modules of them; T5 has four.
    """
    names = [name for name in ("get_input_embeddings", "get_output_embeddings") if hasattr(model, name)]
    for name in names:
        object.__setattr__(model, name, lambda: None)
    try:
        yield
    finally:
        for name in names:
            object.__delattr__(model, name)


class HeadTrainer(Trainer):
    """Trains causal and encoder-decoder models, with a head or without.

    A checkpoint holds what training changes; the rest comes with the model. It is written without pickle, under a
    temporary name first. One process, DDP, FSDP2 and ZeRO 2 write the same files: full weights and optimizer states by
    name. So a run can be resumed with another number of processes, or with another engine.
    """

    args: HeadTrainingArguments
    model: PreTrainedModel
    optimizer: torch.optim.Optimizer
    lr_scheduler: torch.optim.lr_scheduler.LambdaLR

    def __init__(
        self,
        model: nn.Module,
        args: HeadTrainingArguments,
        train_dataset: Dataset[Batch],
        eval_dataset: Dataset[Batch] | None,
    ) -> None:
        super().__init__(model, args, collate, train_dataset, eval_dataset)
        self.folder = Path(str(args.output_dir))
        self.loss = math.nan  # of the last step
        text_config = self.model.config.get_text_config()
        self.monitor = DivergenceMonitor(self.folder, getattr(text_config, "vocab_size", 0), args.learning_rate)
        self.earlier_seconds, self.started = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Time spent training, over all sessions of the run."""
        return self.earlier_seconds + time.monotonic() - self.started

    @property
    def shards_model(self) -> bool:
        """Whether the model can only be used once training has begun: before, it may be too large for a device."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    # -- engines

    def create_accelerator_and_postprocess(self) -> None:
        """Use FSDP2 on CPUs too, where accelerate would silently choose DDP."""
        super().create_accelerator_and_postprocess()
        wanted = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true" and world_size() > 1
        if wanted and not self.is_fsdp_enabled:
            from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

            self.accelerator.state.distributed_type = DistributedType.FSDP
            self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
            self.is_fsdp_enabled = True
        check_engine(
            self.accelerator.state.fsdp_plugin.fsdp_version if self.is_fsdp_enabled else None,
            self.accelerator.state.deepspeed_plugin.zero_stage if self.is_deepspeed_enabled else None,
        )

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: DataLoader[Batch], resume_from_checkpoint: str | None
    ) -> tuple[nn.Module, DataLoader[Batch]]:
        """Load our checkpoint with DeepSpeed too, which would look for one of its own kind: a pickle."""
        checkpoint = resume_from_checkpoint
        with embeddings_in_root(self.model) if self.is_fsdp_enabled else nullcontext():
            prepared: tuple[nn.Module, DataLoader[Batch]] = super()._prepare_for_training(
                max_steps, train_dataloader, None if self.is_deepspeed_enabled else checkpoint
            )
        if self.is_deepspeed_enabled and checkpoint is not None:
            self._load_from_checkpoint(checkpoint)
            self._load_optimizer_and_scheduler(checkpoint)
        return prepared

    # -- data

    def get_train_dataloader(self) -> DataLoader[Batch]:
        """Several processes read the batches of one, each its part. A stream is read by the first process."""
        rows: Any = self.train_dataset
        if world_size() == 1 or isinstance(rows, IterableDataset):
            return super().get_train_dataloader()
        from accelerate.data_loader import SeedableRandomSampler

        strategy = self.args.train_sampling_strategy
        if strategy not in ("random", "sequential"):
            raise ValueError(f"train_sampling_strategy {strategy!r}: several processes take random or sequential.")
        random_order = SeedableRandomSampler(rows, data_seed=self.args.data_seed)
        return self._shared(rows, random_order if strategy == "random" else SequentialSampler(rows))

    def get_eval_dataloader(self, eval_dataset: str | Dataset[Batch] | None = None) -> DataLoader[Batch]:
        rows: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if world_size() == 1 or isinstance(rows, IterableDataset):
            return super().get_eval_dataloader(eval_dataset)
        return self._shared(rows, SequentialSampler(rows))

    def _shared(self, rows: Dataset[Batch], order: Sampler[int]) -> DataLoader[Batch]:
        from accelerate.data_loader import DataLoaderShard

        loader: DataLoader[Batch] = DataLoaderShard(
            RowsWithBlank(rows),
            device=self.accelerator.device,
            batch_sampler=DistributedBatches(order, self.args.batch_size, rank(), world_size()),
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return loader

    def _track_num_input_tokens(self, inputs: Batch) -> None:
        """Do not count the blank row of a process that has no part of the last batch."""
        blank = world_size() > 1 and bool((inputs["labels"] == -100).all())
        super()._track_num_input_tokens({"input_ids": inputs["input_ids"][:0]} if blank else inputs)

    # -- steps

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Put the head into parameter groups of its own if its learning rate differs."""
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if fresh and self.args.head_lr_multiplier != 1.0:
            head = {id(p) for name, p in self.model.named_parameters() if HEAD in f".{name}"}
            for group in [*optimizer.param_groups]:
                of_head = [p for p in group["params"] if id(p) in head]
                group["params"] = [p for p in group["params"] if id(p) not in head]
                lr = group["lr"] * self.args.head_lr_multiplier
                optimizer.add_param_group({**group, "params": of_head, "lr": lr})
        return optimizer

    def training_step(self, model: nn.Module, inputs: Batch, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Stop at a loss that is NaN or explodes, before it gets into a checkpoint."""
        self.monitor.check_batch(self.state.global_step + 1, inputs)
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.loss = (all_reduce_sum(loss) / world_size()).item() * self.current_gradient_accumulation_steps
        self.monitor.check_loss(self.loss)
        return loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, Mapping[str, Tensor]]:
        """Plain encoder-decoder models ignore num_items_in_batch and return the mean of the labels of their batch."""
        labels = inputs["labels"]
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        is_plain = self.model.config.is_encoder_decoder and not hasattr(self.model, "head")
        if num_items_in_batch is not None and is_plain:
            count = (labels != -100).sum()
            loss = (loss * (count / num_items_in_batch)).where(count > 0, 0.0)
        return (loss, outputs) if return_outputs else loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Tensor | float | None = None) -> Tensor | float | None:
        """Stop at a gradient that is not finite, before the optimizer takes its step. Float16 scales its loss, and
        skips such steps by itself."""
        norm: Tensor | float | None = super()._get_grad_norm(model, grad_norm=grad_norm)
        if self._scaler is None:
            self.monitor.check_gradient(norm)
        return norm

    def evaluation_loop(
        self, dataloader: DataLoader[Batch], description: str, *args: object, **kwargs: object
    ) -> EvalLoopOutput:
        """The mean loss over all predicted tokens, independent of how they fall into batches."""
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        rows = 0
        options: dict[str, object] = {"skip_logits": True} if hasattr(self.model, "head") else {}
        first_label = 0 if self.model.config.is_encoder_decoder else 1  # causal models shift labels themselves
        with torch.no_grad():
            for batch in dataloader:
                inputs = self._prepare_inputs(batch)
                count = (inputs["labels"][:, first_label:] != -100).sum()
                if self.model_accepts_loss_kwargs:  # a process may have no part of the last batch
                    options["num_items_in_batch"] = count.clamp(min=1)
                with self.accelerator.autocast():
                    loss = self.model(**inputs, **options)["loss"]
                sums += torch.stack([loss.double().where(count > 0, 0.0) * count, count.double()])
                rows += len(inputs["labels"])
        loss_sum, tokens = all_reduce_sum(sums).tolist()
        return EvalLoopOutput(None, None, {"eval_loss": loss_sum / max(tokens, 1.0)}, rows)  # type: ignore[arg-type]

    def validation_loss(self) -> float:
        """The loss of the evaluation data now. Nothing is logged."""
        metrics = self.evaluation_loop(self.get_eval_dataloader(), "validation").metrics
        assert metrics is not None
        return metrics["eval_loss"]

    # -- checkpoints

    @property
    def _scaler(self) -> torch.amp.GradScaler | None:
        """Present with float16 on a GPU."""
        return getattr(self.accelerator, "scaler", None)

    @property
    def _random_name(self) -> str:
        """Each process draws its own numbers."""
        return RANDOM if world_size() == 1 else f"{RANDOM}-{rank()}"

    def changing(self) -> dict[str, Tensor]:
        """What training changes, by name: parameters that get a gradient, and buffers that are saved."""
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        buffers = {name: value for name, value in self.model.state_dict().items() if name not in parameters}
        trained = {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}
        return trained | {name: value for name, value in buffers.items() if isinstance(value, Tensor)}

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        """All processes write their part to a temporary folder; the first then completes and renames it."""
        temporary = self.folder / WRITING / f"{PREFIX}{self.state.global_step}"
        on_first_process(lambda: fresh_folder(temporary))
        self.store_flos()
        with explain_full_disk(self.folder / CHECKPOINTS):
            try:
                self._write_checkpoint(temporary)
                barrier()
                on_first_process(lambda: seal(temporary, self.folder / CHECKPOINTS))
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
        self._find_best_checkpoint()
        on_first_process(
            lambda: rotate(self.folder / CHECKPOINTS, self.args.save_total_limit, self.state.best_model_checkpoint)
        )

    def _write_checkpoint(self, folder: Path) -> None:
        weights = gather_tensors(self.changing())
        trained = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        gather = gather_zero_state if self.is_deepspeed_enabled else gather_optimizer_state
        loss = (all_reduce_sum(self._tr_loss) / world_size()).item()  # since the last line of the log
        if is_first():
            self.monitor.check_weights({name: value for name, value in weights.items() if name in trained})
            save_file({name: value.contiguous().clone() for name, value in weights.items()}, folder / WEIGHTS)
        optimizer_state = gather(self.optimizer)
        if is_first():
            write_state(folder, OPTIMIZER, optimizer_state)
            write_state(folder, SCHEDULE, self.lr_scheduler.state_dict())
            if self._scaler is not None:
                write_state(folder, SCALER, self._scaler.state_dict())
        write_state(folder, self._random_name, random_state())
        if is_first():
            for part in [*self.callback_handler.callbacks, self.control]:
                if isinstance(part, ExportableState):
                    cast("dict[str, object]", self.state.stateful_callbacks)[type(part).__name__] = part.state()
            self.state.save_to_json(str(folder / TRAINER_STATE))
            write_json(folder / MIDWAY, {"loss": loss, "logged": self._globalstep_last_logged, "seconds": self.seconds})

    @torch.no_grad()
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Copy weights into the memory where they lie: their products round alike only there."""
        stored, current = load_file(Path(resume_from_checkpoint) / WEIGHTS), self.changing()
        if different := sorted(set(stored) ^ set(current)):
            raise ValueError(
                f"{resume_from_checkpoint} belongs to another model: {different[0]} is only in one of them."
            )
        for name, value in stored.items():
            copy_sharded(value, current[name])

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        state = read_state(Path(checkpoint), OPTIMIZER)
        if self.is_deepspeed_enabled:
            load_zero_state(self.optimizer, state)
        else:
            self.optimizer.load_state_dict(shard_optimizer_state(self.optimizer, state))
        self.lr_scheduler.load_state_dict(read_state(Path(checkpoint), SCHEDULE))

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self._scaler is not None:
            self._scaler.load_state_dict(read_state(Path(checkpoint), SCALER))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        if (Path(checkpoint) / f"{self._random_name}.json").is_file():
            set_random_state(read_state(Path(checkpoint), self._random_name))
            return
        warnings.warn(
            f"{checkpoint} was written by another number of processes: the order of the data stays, dropout will not "
            "be what it would have been.",
            stacklevel=2,
        )
        set_seed(self.args.seed + self.state.global_step + rank())

    def _find_best_checkpoint(self) -> None:
        best = self.folder / CHECKPOINTS / f"{PREFIX}{self.state.best_global_step}"
        self.state.best_model_checkpoint = str(best) if best.is_dir() else None

    def _load_best_model(self) -> None:
        if self.state.best_model_checkpoint is not None:
            self._load_from_checkpoint(self.state.best_model_checkpoint)

    def restore_midway(self, checkpoint: str) -> None:
        """Restore what the Trainer does not: the loss since the last line of the log, the best checkpoint, the time."""
        midway = read_json(Path(checkpoint) / MIDWAY)
        self._tr_loss = torch.tensor(midway["loss"], device=self.args.device)
        self._globalstep_last_logged = midway["logged"]
        self.earlier_seconds, self.started = midway["seconds"], time.monotonic()
        self._find_best_checkpoint()
