"""DistributedTrainer: the Trainer of Hugging Face, where several processes end where one would end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset, SequentialSampler
from transformers import set_seed

from unbottle.train.plain_checkpoints import OPTIMIZER, SCHEDULE, PlainCheckpoints
from unbottle.train.plain_state import read_state, write_state
from unbottle.train.processes import processes, rank
from unbottle.train.settings import RunSettings
from unbottle.train.shared_batches import SharedBatches, SharedRows
from unbottle.train.whole import split_state, whole_state
from unbottle.train.zero import set_zero_state, zero_state


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


class DistributedTrainer(PlainCheckpoints):
    """Processes share each batch, and write the same files as one: weights and AdamW's state by name, in whole.

    So a run can go on with another number of processes, or with another engine: DDP, FSDP2, ZeRO 2, or none.
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

    def _prepare_for_training(self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None) -> Any:
        """As always, but DeepSpeed would look for a checkpoint of its own kind, which runs code when it is read."""
        ours = resume_from_checkpoint if self.is_deepspeed_enabled else None
        theirs = None if self.is_deepspeed_enabled else resume_from_checkpoint
        with embeddings_in_root(self.model) if self.is_fsdp_enabled else nullcontext():
            prepared = super()._prepare_for_training(max_steps, train_dataloader, theirs)
        if ours is not None:
            self._load_from_checkpoint(ours)
            self._load_optimizer_and_scheduler(ours)
        return prepared

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
        if not self.wraps_the_model:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        state = zero_state(self.optimizer) if self.is_deepspeed_enabled else whole_state(self.optimizer)
        if self.args.should_save:
            write_state(Path(output_dir), OPTIMIZER, state)
            write_state(Path(output_dir), SCHEDULE, self.lr_scheduler.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not self.wraps_the_model or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        state = read_state(Path(checkpoint), OPTIMIZER)
        optimizer: Any = self.optimizer
        if self.is_deepspeed_enabled:
            set_zero_state(optimizer, state)
        else:
            optimizer.load_state_dict(split_state(optimizer, state))
        self.lr_scheduler.load_state_dict(read_state(Path(checkpoint), SCHEDULE))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Where another number of processes wrote the checkpoint, dropout goes on with numbers of its own."""
        if checkpoint is None or (Path(checkpoint) / f"{self._random_name}.json").is_file():
            super()._load_rng_state(checkpoint)
            return
        warnings.warn(
            f"{checkpoint} was written by another number of processes: the order of the data stays, dropout will not "
            "be what it would have been.",
            stacklevel=2,
        )
        set_seed(self.settings.seed + self.state.global_step + rank())
