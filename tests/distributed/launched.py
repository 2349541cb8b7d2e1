"""Trainings as one process or two, as a launcher starts them: python launched.py < JOBS (run by the tests here).

Everything is imported once; each process is a fork with the environment that a launcher would give it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny_summaries
import tiny_training
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from killing import kill_at

import unbottle.train.checkpoints
import unbottle.train.plain_checkpoints
from unbottle.data import StreamedWindows
from unbottle.train import states, train_lm, train_summarize
from unbottle.train.processes import leave
from unbottle.train.trainer import ExactTrainer

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
PLACES = {
    "step": (ExactTrainer, "training_step"),
    "write": (unbottle.train.plain_checkpoints, "write_state"),  # in the middle of a checkpoint
    "seal": (unbottle.train.checkpoints, "put_folder"),
}


def environment(engine: str, processes: int, rank: int, port: int) -> dict[str, str]:
    """What `accelerate launch --config_file examples/launch/ENGINE.yaml` and torchrun tell a process."""
    if processes == 1:
        return {}
    line = ["--config_file", str(LAUNCH / f"{engine}.yaml"), "-m", "unbottle"]
    given, *_ = _validate_launch_command(launch_command_parser().parse_args(line))
    told = {name: value for name, value in prepare_multi_gpu_env(given).items() if name not in os.environ}
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    told |= {name: str(value) for name, value in places.items()}
    return told | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}


def texts():
    """Rows to stream."""
    return [{"text": " ".join(map(str, tiny_training.tokens(50, seed)))} for seed in range(9)]


def spell(batch, **options):
    return {"input_ids": [[int(word) for word in text.split()] for text in batch]}


def work(job: dict):
    """The training that a job describes."""
    options = {"lr": 1e-3, "log_every": 1, "batch": 4, **job.get("options", {})}
    if job["kind"] == "summaries":
        model = tiny_summaries.model("t5", job["method"], dropout=0.0)
        data = tiny_summaries.pairs(41), tiny_summaries.pairs(7, 1)
        settings, train = tiny_summaries.settings(job["folder"], **options), train_summarize
    else:
        model = tiny_training.model(job["method"], dropout=job.get("dropout", 0.0))
        data = tiny_training.windows(490), tiny_training.windows(101, 1)  # 41 windows: the last batch has one row
        settings, train = tiny_training.settings(job["folder"], **options), train_lm
        if job.get("stream"):
            data = StreamedWindows(texts, spell, tiny_training.LENGTH), data[1]
    if job["method"] is not None:
        model.head.path = job.get("path", "auto")
    states.SHARD = job.get("shard", states.SHARD)
    return train(model, *data, settings)


def run(job: dict, rank: int) -> None:
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*written by another number of processes.*")
    if (kill := job.get("kill")) and kill["rank"] == rank:
        kill_at(*PLACES[kill["where"]], kill["count"])
    result = work(job)
    leave()
    if rank == 0:
        (Path(job["folder"]) / "answer.json").write_text(json.dumps(result.to_dict()))


def together(job: dict) -> list[int]:
    """Exit codes of the processes of a job."""
    processes = job.get("processes", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(processes):
        told = environment(job.get("engine", "ddp"), processes, rank, port)
        if not (child := os.fork()):
            os.environ |= told
            try:
                run(job, rank)
            except BaseException as error:
                said = Path(job["folder"]) / f"said-{rank}.txt"
                said.parent.mkdir(parents=True, exist_ok=True)
                said.write_text(f"{type(error).__name__}: {error}")
                if not job.get("kill"):
                    traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps([together(job) for job in json.load(sys.stdin)]))
