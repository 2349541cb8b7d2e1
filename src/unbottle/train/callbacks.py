"""Callbacks and context managers around training: quiet logging, progress, TensorBoard, preemption by SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import torch
from transformers import TrainerCallback, TrainerState, TrainingArguments
from transformers import TrainerControl as Control
from transformers.utils import logging

from unbottle.hf.pretrained import without_bars
from unbottle.progress import Progress
from unbottle.train.checkpoints import newest
from unbottle.train.distributed import all_reduce_sum

if TYPE_CHECKING:
    from unbottle.train.trainer import HeadTrainer

# FSDP2 warns of views that might be changed in place. T5's blocks return one, the bias of positions, and models with a
# head return their logits as one on the dense path; nothing changes either, and no gradient comes from those logits.
HARMLESS = r"FSDP2-wrapped module \(FSDP(T5Block|Unbottled\w+)\) returned a view"
PREEMPTED = 75  # exit code: EX_TEMPFAIL of sysexits.h, "try again later"


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Hide the progress bars of transformers. The log level that the Trainer sets is restored at the end."""
    with without_bars(logging), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=HARMLESS)
        yield


class ProgressCallback(TrainerCallback):
    """Reports progress, and restores what the Trainer does not restore from a checkpoint."""

    def __init__(self, trainer: HeadTrainer, report: Progress | None, checkpoint: str | None) -> None:
        self.trainer, self.report, self.checkpoint = trainer, report, checkpoint

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: object) -> None:
        if self.checkpoint is not None:
            self.trainer.restore_midway(self.checkpoint)
        self.trainer.started = time.monotonic()
        self.first_step, self.first_token = state.global_step, state.num_input_tokens_seen

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: object) -> None:
        if self.report is not None:
            elapsed = max(time.monotonic() - self.trainer.started, 1e-9)
            speed = (state.num_input_tokens_seen - self.first_token) / elapsed
            text = f"step {state.global_step} of {state.max_steps}, loss {self.trainer.loss:.3f}, {speed:,.0f} tokens/s"
            self.report(state.global_step - self.first_step, state.max_steps - self.first_step, text)


class OnTrainBegin(TrainerCallback):
    """Evaluates a model before its first step that cannot be used until training has begun."""

    def __init__(self, evaluate: Callable[[], None]) -> None:
        self.evaluate = evaluate

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: object) -> None:
        with torch.random.fork_rng(devices=[]):  # what is drawn here must not change what training draws
            self.evaluate()


def tensorboard_callback(folder: Path, first_step: int) -> TrainerCallback:
    """Log to folder/logs. What an earlier session logged after `first_step` is hidden."""
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    purge_step = first_step + 1 if first_step else None
    return TensorBoardCallback(SummaryWriter(str(folder / "logs"), purge_step=purge_step))


class Preempted(SystemExit):  # not an Exception: no `except Exception` stops it on its way
    """SIGTERM ended a training, whose progress is on disk. A script that does not catch it exits with code 75."""

    def __init__(self, message: str) -> None:
        super().__init__(PREEMPTED)
        self.message = message


class Preemption(TrainerCallback):
    """Handles SIGTERM while a training runs.

    During Trainer.train, the training saves a checkpoint and ends after the current step: there is no state in the
    middle of a step to resume from bit for bit. (enable_jit_checkpoint of the Trainer saves there too, so it is not
    used.) At any other time the training ends at once: a file that is being written then is complete or does not count.
    All processes end after the same step, whichever of them got the signal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requested = False
        self._training = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Install the handler in the main thread; in other threads SIGTERM keeps its effect."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._receive)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def after_step(self) -> Iterator[None]:
        """Around Trainer.train: inside, SIGTERM takes effect at the end of a step."""
        self._training = True
        try:
            yield
        finally:
            self._training = False
        if self.requested:
            raise self._preempted()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: object) -> None:
        self.requested = bool(all_reduce_sum(torch.tensor(float(self.requested), device=args.device)))
        if self.requested:
            control.should_save = control.should_training_stop = True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if not self._training:
            raise self._preempted()

    def _preempted(self) -> Preempted:
        checkpoint = newest(self.folder / "checkpoints")
        saved = "no step was completed" if checkpoint is None else f"{checkpoint} is saved"
        return Preempted(f"stopped by SIGTERM: {saved}. Rerun the same command to resume.")
