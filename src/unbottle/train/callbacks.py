"""quiet: the bars and logs of transformers stay out of the way.

What happens beside the steps: progress, logs.

Preemption: SIGTERM, as schedulers and preemptible machines send it, ends a training after a checkpoint.
"""

from __future__ import annotations

import importlib.util
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.utils import logging

from unbottle.hf.pretrained import without_bars
from unbottle.progress import Progress
from unbottle.train.arguments import RunSettings
from unbottle.train.checkpoints import newest
from unbottle.train.distributed import is_first, total

# FSDP2 warns of views that might be changed in place. T5's blocks return one, the bias of positions, and models with a
# head return their logits as one on the dense path; nothing changes either, and no gradient comes from those logits.
HARMLESS = r"FSDP2-wrapped module \(FSDP(T5Block|Unbottled\w+)\) returned a view"


@contextmanager
def quiet() -> Iterator[None]:
    """No bars but ours. The Trainer sets the level of all logs of transformers; here only for its own time."""
    with without_bars(logging), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=HARMLESS)
        yield


def silent(done: float, total: float, text: str) -> None:
    """Nobody watches."""


class ProgressCallback(TrainerCallback):
    """Tells how far training is, and picks up where a checkpoint left off."""

    def __init__(self, trainer: Any, report: Progress | None, checkpoint: str | None) -> None:
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


PREEMPTED = 75  # exit code: EX_TEMPFAIL of sysexits.h, "try again later"


class Preempted(SystemExit):  # no error: no `except Exception` stops it on its way
    """SIGTERM ended a training, and what it had done is on disk. A script that does not catch it exits with code 75."""

    def __init__(self, message: str) -> None:
        super().__init__(PREEMPTED)
        self.message = message


class Preemption(TrainerCallback):
    """Listens for SIGTERM while a training runs.

    While the Trainer trains, the training saves a checkpoint and ends after the current step: there is no state in the
    middle of a step to resume from bit for bit. (The Trainer's own enable_jit_checkpoint saves there too, so it is not
    used.) At any other time the training ends at once: a file that is being written then is whole or does not count.
    Of several processes, all end after the same step, whichever of them got the signal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = False
        self._training = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Only the main thread may listen for signals; in another one SIGTERM does what it did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._receive)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def at_the_next_step(self) -> Iterator[None]:
        """Around Trainer.train: inside, SIGTERM waits for the end of a step."""
        self._training = True
        try:
            yield
        finally:
            self._training = False
        if self.asked:
            raise self._preempted()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.asked = bool(total(torch.tensor(float(self.asked), device=args.device)))
        if self.asked:
            control.should_save = control.should_training_stop = True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if not self._training:
            raise self._preempted()

    def _preempted(self) -> Preempted:
        kept = newest(self.folder / "checkpoints")
        saved = "no step was completed" if kept is None else f"{kept} is saved"
        return Preempted(f"stopped by SIGTERM: {saved}. Rerun the same command to resume.")
