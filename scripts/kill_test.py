"""Kill trainings again and again (SIGKILL, as a power cut or an out-of-memory killer would), and see what is lost.

    python scripts/kill_test.py                         # unbottle train lm: twenty kills, some while it writes
    python scripts/kill_test.py --train head --kills 5
    python scripts/kill_test.py --reproduce --kills 5   # unbottle reproduce table1 --preset tiny

The same command is started, killed at a random moment and started again until it ends; then once more from nothing,
until there were enough kills. Half of the kills wait for a moment at which a file or folder is being written. Every
run that ended must leave what an unbroken one leaves, bit for bit, and no checkpoint may ever be lost on the way.
`--fork` starts the command in a fork of this process, which saves the time of the imports.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG = {"model_type": "gpt2", "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64}
METHOD = "softmax+cpr:5,20+mi"
ROWS = ("softmax", "softmax+c+mi", "ps+mi")  # of table 1
UNFINISHED = (".writing/checkpoint-*/*", ".*.writing*", "*.part", "*.writing")
PATIENCE = 0.001  # seconds between two looks


@dataclass(frozen=True, kw_only=True)
class Kill:
    run: int
    seconds: float
    writing: str | None  # what was being written
    checkpoint: int  # the last one that is whole; 0: none yet


@dataclass
class Experiment:
    """A command that can be killed, and what counts of what it leaves. `kept` is the work that must not be lost."""

    arguments: list[str]  # {} stands for the folder
    started: str  # a file that is there when the work begins
    total: int  # of what is kept, at the end
    fork: bool
    kills: list[Kill] = field(default_factory=list)

    def start(self, folder: Path) -> Process:
        arguments = [part.format(folder) for part in self.arguments]
        return Fork(arguments, folder) if self.fork else Child(arguments, folder)

    def results(self, folder: Path) -> dict[str, Any]:
        raise NotImplementedError

    def kept(self, folder: Path) -> int:
        raise NotImplementedError

    def reached(self, folder: Path) -> int:
        """How far it is, at a glance: as `kept`, but unchecked."""
        raise NotImplementedError


class Training(Experiment):
    def results(self, folder: Path) -> dict[str, Any]:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        names = ("steps", "losses", "valid_losses", "tokens")
        return {"weights": tensors(folder)} | {name: result[name] for name in names}

    def kept(self, folder: Path) -> int:
        from unbottle.train.checkpoints import latest, step_of

        checkpoint = latest(folder / "checkpoints")  # refuses what is not whole
        return 0 if checkpoint is None else step_of(checkpoint)

    def reached(self, folder: Path) -> int:
        return max((int(path.name.split("-")[-1]) for path in folder.glob("checkpoints/checkpoint-*")), default=0)


class Reproduction(Experiment):
    def results(self, folder: Path) -> dict[str, Any]:
        data = json.loads((folder / "results" / "table1" / "results.json").read_text(encoding="utf-8"))
        return {"rows": data["rows"], "weights": tensors(folder)}

    def kept(self, folder: Path) -> int:
        file = folder / "results" / "table1" / "results.json"
        return len(json.loads(file.read_text(encoding="utf-8"))["rows"]) if file.exists() else 0

    def reached(self, folder: Path) -> int:
        return self.kept(folder)


def tensors(folder: Path) -> dict[str, bytes]:
    """All weights of all models, by their path."""
    files = folder.rglob("model/model.safetensors")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(files)}


class Process:
    """A command under way. What it says goes to a file."""

    pid: int

    def ended(self) -> int | None:
        raise NotImplementedError


class Child(Process):
    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        with open(said(folder), "w", encoding="utf-8") as file:
            command = [sys.executable, "-m", "unbottle", *arguments]
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
        self.pid = self.process.pid

    def ended(self) -> int | None:
        return self.process.poll()


class Fork(Process):
    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            with open(said(folder), "w", encoding="utf-8") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            from unbottle.cli.main import main as program

            code = 1
            with contextlib.suppress(BaseException):
                code = program([*arguments])
            os._exit(code)

    def ended(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code


def said(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def being_written(folder: Path, since: float) -> str | None:
    """A file or folder that is not whole yet, if there is one; those of runs that were killed before do not count."""
    with contextlib.suppress(OSError):  # it may be gone the moment after
        for pattern in UNFINISHED:
            for path in folder.rglob(pattern):
                # .writing is where checkpoints are made, and there all the time
                if path.name != ".writing" and path.stat().st_mtime >= since:
                    return path.relative_to(folder).as_posix()
    return None


def wait(process: Process, until: float) -> bool:
    """Whether it is still there then."""
    while process.ended() is None and time.monotonic() < until:
        time.sleep(PATIENCE)
    return process.ended() is None


def unbroken(experiment: Experiment, folder: Path) -> tuple[float, float]:
    """Seconds until the work began, and until the end."""
    start = time.monotonic()
    process, began = experiment.start(folder), 0.0
    while process.ended() is None:
        time.sleep(PATIENCE)
        if not began and any(folder.rglob(experiment.started)):
            began = time.monotonic() - start
    refuse_failure(process, folder)
    return began, time.monotonic() - start


def refuse_failure(process: Process, folder: Path) -> None:
    if process.ended() != 0:
        raise SystemExit(f"the command failed:\n{said(folder).read_text(encoding='utf-8')}")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When to kill: it has come so far, then so many seconds later, then while something is written."""

    reached: int
    seconds: float
    writing: bool


def killed(experiment: Experiment, folder: Path, run: int, moment: Moment) -> Kill | None:
    """Start it, and kill it at the moment; None if it ended before."""
    start, since = time.monotonic(), time.time()
    process = experiment.start(folder)
    there = True
    while there and experiment.reached(folder) < moment.reached:
        there = wait(process, time.monotonic() + PATIENCE)
    there = wait(process, time.monotonic() + moment.seconds)
    while there and moment.writing and not being_written(folder, since):
        there = wait(process, time.monotonic() + PATIENCE)
    if there:
        os.kill(process.pid, signal.SIGKILL)
        while process.ended() is None:
            time.sleep(PATIENCE)
    if process.ended() != -signal.SIGKILL:
        refuse_failure(process, folder)
        return None
    seconds = time.monotonic() - start
    return Kill(run=run, seconds=seconds, writing=being_written(folder, since), checkpoint=experiment.kept(folder))


def rounds(experiment: Experiment, folder: Path, kills: int, draw: random.Random) -> Iterator[Path]:
    """Folders of runs that were killed and ended nevertheless, until there were enough kills."""
    began, whole = unbroken(experiment, folder / "unbroken")
    print(f"unbroken: the work begins after {began:.1f} s and ends after {whole:.1f} s")
    run = 0
    while len(experiment.kills) < kills:
        run += 1
        here, kept, ended = folder / f"run-{run}", 0, False
        while not ended:
            enough = len(experiment.kills) >= kills
            total = experiment.total
            goal = total + 1 if enough else draw.randrange(min(kept, total - 1), total)
            # What is kept is there while it still starts; what is not, when it works, and that takes less time.
            patience = max(began, (whole - began) / 5) if goal <= kept else (whole - began) / 5
            moment = Moment(reached=goal, seconds=draw.uniform(0, patience), writing=draw.random() < 0.5)
            kill = killed(experiment, here, run, moment)
            ended = kill is None
            if kill is not None:
                experiment.kills.append(kill)
                what = f"while it wrote {kill.writing}" if kill.writing else "between two files"
                print(
                    f"kill {len(experiment.kills):2}, run {run}, {kill.seconds:5.2f} s, {what}; kept: {kill.checkpoint}"
                )
                if kill.checkpoint < kept:
                    raise SystemExit(f"LOST: {kept} was there before, and {kill.checkpoint} is now.")
                kept = kill.checkpoint
        yield here


def text(path: Path, draw: random.Random) -> None:
    """Made-up sentences with names that return."""
    names, verbs = ["Anna", "Boris", "Clara", "Daniel"], ["saw", "met", "called", "heard"]
    lines = [
        f"In the morning {draw.choice(names)} {draw.choice(verbs)} {draw.choice(names)} again ." for _ in range(1500)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def experiment_of(options: argparse.Namespace, folder: Path) -> Experiment:
    from unbottle.experiments.corpora import train_tokenizer

    text(folder / "text.txt", random.Random(0))
    data = ["--data", str(folder / "text.txt")]
    if options.reproduce:
        rows = [word for method in ROWS for word in ("--method", method)]
        folders = ["--work", "{}/work", "--output", "{}/results"]
        arguments = ["reproduce", "table1", "--preset", "tiny", *data, *rows, *folders]
        return Reproduction(arguments, "lab.json", len(ROWS), options.fork)
    train_tokenizer([(folder / "text.txt").read_text(encoding="utf-8")], 300).save_pretrained(folder / "tokenizer")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    arguments = [
        "train", "lm", "--config", str(folder / "config.json"), "--tokenizer", str(folder / "tokenizer"), *data,
        "--method", METHOD, "--train", options.train, "--length", "24", "--lr", "0.003", "--output", "{}",
        "--max-steps", str(options.steps), "--set", f"save_every={options.save_every}", "--set", "device=cpu",
        "--set", "eval_every=25", "--set", "accumulate=2", "--set", "log_every=5",
    ]  # fmt: skip
    return Training(arguments, "run.json", options.steps, options.fork)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--train", default="all", choices=("all", "head", "lora"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=7)
    parser.add_argument("--reproduce", action="store_true", help="unbottle reproduce instead of unbottle train lm")
    parser.add_argument("--fork", action="store_true", help="start in a fork of this process")
    options = parser.parse_args()
    if options.fork:
        import torch
        import transformers.trainer  # noqa: F401

        import unbottle.train  # noqa: F401

        torch.set_num_threads(1)
    what = "reproduce table1 --preset tiny" if options.reproduce else f"train lm --train {options.train}"
    print(f"unbottle {what}, killed {options.kills} times")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        experiment = experiment_of(options, folder)
        different, ended = [], 0
        wanted: dict[str, Any] | None = None
        for here in rounds(experiment, folder, options.kills, random.Random(options.seed)):
            ended += 1
            wanted = experiment.results(folder / "unbroken") if wanted is None else wanted
            results = experiment.results(here)
            different += [f"{here.name}: {name}" for name in wanted if results[name] != wanted[name]]
    writing = sum(kill.writing is not None for kill in experiment.kills)
    print(f"{len(experiment.kills)} kills, {writing} of them while something was written; {ended} runs ended")
    print("different from the unbroken run: " + (", ".join(different) or "nothing, bit for bit"))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
