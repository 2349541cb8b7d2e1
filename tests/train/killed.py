"""Trainings that are killed, each in a process of its own: python killed.py < JOBS (run by test_resume)."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny_training as tiny
from killing import kill_at

import unbottle.train.checkpoints
import unbottle.train.hidden_state_cache
import unbottle.train.modes
import unbottle.train.trainer
from unbottle.train import Preempted, train_lm
from unbottle.train.trainer import HeadTrainer

PLACES = {
    "step": (HeadTrainer, "training_step"),
    "write": (unbottle.train.trainer, "write_state"),  # in the middle of a checkpoint: only the weights are there
    "seal": (unbottle.train.checkpoints, "replace_folder"),  # all files are there, the name is not
    "rotate": (Path, "unlink"),
    "states": (unbottle.train.hidden_state_cache, "replace_file"),  # while hidden states are written
    "model": (unbottle.train.modes, "save_folder"),  # after the last step
}


def run(job: dict, answer: Path) -> None:
    warnings.simplefilter("error")
    if job["where"] is not None:
        kill_at(*PLACES[job["where"]], job["count"], signal.Signals[job.get("signal", "SIGKILL")])
    result = train_lm(
        tiny.model(job["method"]), tiny.windows(), tiny.windows(100, 1), tiny.settings(job["folder"], **job["options"])
    )
    answer.write_text(json.dumps(result.to_dict()))


def main() -> None:
    """Imports once, then a fork for each job: the exit code of each."""
    torch.set_num_threads(1)
    gc.freeze()  # a collection in a fork would copy every page that it looks at
    codes = []
    for job in json.load(sys.stdin):
        if not (child := os.fork()):
            try:
                run(job, Path(job["folder"]) / "answer.json")
            except Preempted as stop:
                with open(Path(job["folder"]) / "preempted.txt", "a", encoding="utf-8") as file:
                    file.write(f"{stop.message}\n")
                os._exit(stop.code)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
