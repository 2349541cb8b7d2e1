"""DistributedTrainer: the Trainer of Hugging Face, where several processes end where one would end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset, SequentialSampler
from transformers import Trainer, set_seed

from unbottle.train.processes import processes, rank
from unbottle.train.settings import RunSettings
from unbottle.train.shared_batches import SharedBatches, SharedRows
from unbottle.train.whole import split_state, whole_state

OPTIMIZER, SCHEDULER = "optimizer.pt", "scheduler.pt"


def refuse_engine(fsdp_version: int | None, zero_stage: int | None) -> None:
    """Engines that take weights away unless the module they belong to is called. The head reads W without."""
    if fsdp_version == 1:
        raise ValueError("FSDP 1 flattens the weights that the head reads. Set fsdp_version: 2.")
    if zero_stage == 3:
        raise ValueError(
            "DeepSpeed ZeRO 3 takes the output embeddings away before the head has read them. Use ZeRO 2, or FSDP2, "
            "which splits weights too: examples/launch."
        )


@contextmanager
def embeddings_in_root(model: Any) -> Iterator[None]:
    """accelerate would give embeddings that are tied a unit of their own, and knows two modules of them; T5 has four.

    In the root they are gathered for the whole forward pass, which the head needs in any case.
    """
    names = [name for name in ("get_input_embeddings", "get_output_embeddings") if hasattr(model, name)]
    for name in names:
        object.__setattr__(model, name, lambda: None)
    try:
        yield
    finally:
        for name in names:
            object.__delattr__(model, name)


class DistributedTrainer(Trainer):
    """Processes share each batch, and write the same files as one: weights and AdamW's state by name, in whole.

    So a run can go on with another number of processes, or with another engine: DDP, FSDP2, or none.
    """

    settings: RunSettings

    # -- engines

    def create_accelerator_and_postprocess(self) -> None:
        """As always, but FSDP2 works on CPUs too. Asked for it there, accelerate would take DDP and say nothing."""
        super().create_accelerator_and_postprocess()
        asked = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true" and processes() > 1
        if asked and not self.is_fsdp_enabled:
            from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

            self.accelerator.state.distributed_type = DistributedType.FSDP
            self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
            self.is_fsdp_enabled = True
        refuse_engine(
            self.accelerator.state.fsdp_plugin.fsdp_version if self.is_fsdp_enabled else None,
            self.accelerator.state.deepspeed_plugin.zero_stage if self.is_deepspeed_enabled else None,
        )

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        with embeddings_in_root(self.model) if self.is_fsdp_enabled else nullcontext():
            return super()._prepare_for_training(*args, **kwargs)

    @property
    def wraps_the_model(self) -> bool:
        """Whether the model can only be used once training has begun: before, it may be too large for a device."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    # -- data

    def get_train_dataloader(self) -> Any:
        """A stream is read by the first process, which deals out windows; of other data each process reads its part."""
        data: Any = self.train_dataset
        if processes() == 1 or isinstance(data, IterableDataset):
            return super().get_train_dataloader()
        return self._shared(data, self._order(data))

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        data: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if processes() == 1 or isinstance(data, IterableDataset):
            return super().get_eval_dataloader(eval_dataset)
        return self._shared(data, SequentialSampler(data))

    def _order(self, data: Any) -> Any:
        """That of one process, which follows from the seed and the epoch."""
        from accelerate.data_loader import SeedableRandomSampler

        seed = self.settings.seed
        return SeedableRandomSampler(data, data_seed=seed) if self.settings.shuffle else SequentialSampler(data)

    def _shared(self, data: Any, order: Any) -> Any:
        from accelerate.data_loader import DataLoaderShard

        return DataLoaderShard(
            SharedRows(data),
            device=self.accelerator.device,
            batch_sampler=SharedBatches(order, self.settings.batch, rank(), processes()),
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )

    def _track_num_input_tokens(self, inputs: Any) -> None:
        """As always; what a process without a part of the batch reads does not count."""
        nothing = processes() > 1 and bool((inputs["labels"] == -100).all())
        super()._track_num_input_tokens({"input_ids": inputs["input_ids"][:0]} if nothing else inputs)

    # -- checkpoints

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.is_fsdp_enabled:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        state = whole_state(self.optimizer)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER)  # type: ignore[union-attr]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not self.is_fsdp_enabled or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        state = torch.load(Path(checkpoint) / OPTIMIZER, map_location="cpu", weights_only=True)
        optimizer: Any = self.optimizer
        optimizer.load_state_dict(split_state(optimizer, state))
        scheduler = torch.load(Path(checkpoint) / SCHEDULER, weights_only=True)
        self.lr_scheduler.load_state_dict(scheduler)  # type: ignore[union-attr]

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Where another number of processes wrote the checkpoint, dropout goes on with numbers of its own."""
        name = "rng_state.pth" if processes() == 1 else f"rng_state_{rank()}.pth"
        if checkpoint is None or (Path(checkpoint) / name).is_file():
            super()._load_rng_state(checkpoint)
            return
        warnings.warn(
            f"{checkpoint} was written by another number of processes: the order of the data stays, dropout will not "
            "be what it would have been.",
            stacklevel=2,
        )
        set_seed(self.settings.seed + self.state.global_step + rank())
