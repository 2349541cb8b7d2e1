"""What happens beside the steps: progress, logs."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from unbottle.train.processes import is_first
from unbottle.train.settings import RunSettings

Report = Callable[[float, float, str], None]  # work done, work in all, what was done last


def silent(done: float, total: float, text: str) -> None:
    """Nobody watches."""


class Progress(TrainerCallback):
    """Tells how far training is, and picks up where a checkpoint left off."""

    def __init__(self, trainer: Any, report: Report | None, checkpoint: str | None) -> None:
        self.trainer, self.report, self.checkpoint = trainer, report, checkpoint

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.checkpoint is not None:
            self.trainer.restore_midway(self.checkpoint)
        self.trainer.started = time.monotonic()
        self.first_step, self.first_token = state.global_step, state.num_input_tokens_seen

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.report is not None:
            elapsed = max(time.monotonic() - self.trainer.started, 1e-9)
            speed = (state.num_input_tokens_seen - self.first_token) / elapsed
            text = f"step {state.global_step} of {state.max_steps}, loss {self.trainer.loss:.3f}, {speed:,.0f} tokens/s"
            self.report(state.global_step - self.first_step, state.max_steps - self.first_step, text)


class Before(TrainerCallback):
    """Validation before the first step, of a model that can not be used until training has begun."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with torch.random.fork_rng(devices=[]):  # what is drawn here must not change what training draws
            self.look()


def logs(settings: RunSettings, first_step: int) -> list[TrainerCallback]:
    """TensorBoard in output/logs, where it is wanted. What an earlier session wrote after `first_step` is hidden."""
    installed = importlib.util.find_spec("tensorboard") is not None
    if settings.report_to is None and not installed:
        return []
    if settings.report_to is not None and "tensorboard" not in settings.report_to:
        return []
    if not is_first():
        return []
    if not installed:
        raise ValueError("report_to tensorboard: it is not installed. pip install tensorboard")
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    folder = str(Path(settings.output) / "logs")
    return [TensorBoardCallback(SummaryWriter(folder, purge_step=first_step + 1 if first_step else None))]
