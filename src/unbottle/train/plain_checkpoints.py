"""PlainCheckpoints: a Trainer whose checkpoints hold no pickle."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Trainer

from unbottle.train.plain_state import read_state, write_state

OPTIMIZER, SCHEDULE, SCALER, RANDOM = "optimizer", "schedule", "scaler", "random"


class PlainCheckpoints(Trainer):
    """Takes the place of everything that the Trainer would write with torch.save and read with torch.load."""

    lr_scheduler: Any
    optimizer: Any

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.args.should_save:
            write_state(Path(output_dir), OPTIMIZER, self.optimizer.state_dict())
            write_state(Path(output_dir), SCHEDULE, self.lr_scheduler.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.optimizer.load_state_dict(read_state(Path(checkpoint), OPTIMIZER))
            self.lr_scheduler.load_state_dict(read_state(Path(checkpoint), SCHEDULE))

    def _save_scaler(self, output_dir: str) -> None:
        if self.args.should_save and self._scaler is not None:
            write_state(Path(output_dir), SCALER, self._scaler.state_dict())

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self._scaler is not None:
            self._scaler.load_state_dict(read_state(Path(checkpoint), SCALER))

    @property
    def _scaler(self) -> Any:
        """Of float16 on a GPU."""
        return getattr(self.accelerator, "scaler", None)

    def _save_rng_state(self, output_dir: str) -> None:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        write_state(Path(output_dir), self._random_name, random_state())

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            set_random_state(read_state(Path(checkpoint), self._random_name))

    @property
    def _random_name(self) -> str:
        """Each process draws its own numbers."""
        return RANDOM if self.args.world_size <= 1 else f"{RANDOM}-{self.args.process_index}"


def random_state() -> dict[str, Any]:
    """Where all generators stand."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "cpu": torch.get_rng_state(), "cuda": cuda}


def set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
