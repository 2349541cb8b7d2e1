"""Preemption: SIGTERM, as schedulers and preemptible machines send it, ends a training after a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback

from unbottle.train.checkpoints import newest
from unbottle.train.processes import total

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
        return Preempted(f"stopped by SIGTERM: {saved}. Run the same command again to resume.")
