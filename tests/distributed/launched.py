"""Trainings as one process or two, as a launcher starts them: python launched.py < JOBS (run by the tests here).

Everything is imported once; each process is a fork with the environment that a launcher would give it.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny_summaries
import tiny_training
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from killing import kill_at

import unbottle.train.checkpoints
import unbottle.train.trainer
from unbottle.data import StreamedWindows
from unbottle.train import Preempted, hidden_state_cache, train_lm, train_summarize
from unbottle.train.distributed import barrier, end_group
from unbottle.train.trainer import HeadTrainer

if importlib.util.find_spec("deepspeed"):
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__ = {}  # it would compile something first, which only inference needs

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
PLACES = {
    "step": (HeadTrainer, "training_step"),
    "write": (unbottle.train.trainer, "write_state"),  # in the middle of a checkpoint
    "seal": (unbottle.train.checkpoints, "replace_folder"),
}


def environment(engine: str, processes: int, rank: int, port: int) -> dict[str, str]:
    """What `accelerate launch --config_file examples/launch/ENGINE.yaml` and torchrun tell a process."""
    if processes == 1:
        return {}
    line = ["--config_file", str(LAUNCH / f"{engine}.yaml"), "-m", "unbottle"]
    given, *_ = _validate_launch_command(launch_command_parser().parse_args(line))
    given.deepspeed_fields_from_accelerate_config = ""
    made = prepare_deepspeed_cmd_env(given)[1] if engine == "zero2" else prepare_multi_gpu_env(given)
    told = {name: value for name, value in made.items() if name not in os.environ}
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    told |= {name: str(value) for name, value in places.items()}
    return told | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}


def stand_at(step: int, folder: Path) -> None:
    """Says who stands there, and goes on when it is told to."""
    original, left = HeadTrainer.training_step, [step]

    def standing(*args, **kwargs):
        left[0] -= 1
        if not left[0]:
            (folder / ".standing").write_text(str(os.getpid()))
            os.replace(folder / ".standing", folder / "standing")
            while not (folder / "go").exists():
                time.sleep(0.01)
        return original(*args, **kwargs)

    HeadTrainer.training_step = standing


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
        model = tiny_training.model(job["method"], dropout=job.get("dropout", 0.0), seed=job.get("seed", 0))
        text = tiny_training.windows(490, job.get("text", 0))  # 41 windows: the last batch has one row
        data = text, tiny_training.windows(101, 1)
        settings, train = tiny_training.settings(job["folder"], **options), train_lm
        if job.get("stream"):
            data = StreamedWindows(texts, spell, tiny_training.LENGTH), data[1]
    model.to(getattr(torch, job.get("dtype", "float32")))
    if job["method"] is not None:
        model.head.path = job.get("path", "auto")
    hidden_state_cache.SHARD = job.get("shard", hidden_state_cache.SHARD)
    return train(model, *data, settings)


def threads() -> list[str]:
    """The names of all threads of this process, those that Python does not know included."""
    return sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))


def run(job: dict, rank: int) -> None:
    warnings.simplefilter("ignore" if job.get("engine") == "zero2" else "error")  # DeepSpeed's own are not ours
    warnings.filterwarnings("ignore", message=".*written by another number of processes.*")
    if (kill := job.get("kill")) and kill["rank"] == rank:
        kill_at(*PLACES[kill["where"]], kill["count"], signal.Signals[kill.get("signal", "SIGKILL")])
    if rank == 0 and "stand" in job:
        stand_at(job["stand"], Path(job["folder"]))
    result = work(job if rank == 0 else job | job.get("second", {}))
    barrier()
    end_group()
    if job.get("processes", 1) > 1:
        (Path(job["folder"]) / f"threads-{rank}.json").write_text(json.dumps(threads()))
    if rank == 0:
        (Path(job["folder"]) / "answer.json").write_text(json.dumps(result.to_dict()))


def start(job: dict) -> list[int]:
    """The processes of a job, by their numbers."""
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
            except Preempted as stop:
                os._exit(stop.code)
            except BaseException as error:
                said = Path(job["folder"]) / f"said-{rank}.txt"
                said.parent.mkdir(parents=True, exist_ok=True)
                said.write_text(f"{type(error).__name__}: {error}")
                if not job.get("kill") and not job.get("refused"):
                    traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    return children


def codes_of(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def all_codes(jobs: list[dict]) -> Iterator[list[int]]:
    """One job after the other; while one that stands does so, the next."""
    standing: tuple[dict, list[int]] | None = None
    for job in jobs:
        children = start(job)
        if "stand" in job:
            while not any((Path(job["folder"]) / name).exists() for name in ("standing", "said-0.txt")):
                time.sleep(0.01)
            standing = job, children
            continue
        codes = codes_of(children)
        if standing is not None:
            first, children = standing
            (Path(first["folder"]) / "go").touch()
            standing = None
            yield codes_of(children)
        yield codes


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.freeze()  # a collection in a fork would copy every page that it looks at
    print(json.dumps([*all_codes(json.load(sys.stdin))]))
