"""Serve a model with vLLM, send many requests, cancel some, and compare every answer with generate().

    python scripts/soak.py runs/cpr/model --requests 2000

Prompts and answers have random lengths; each prompt is sent several times, in other company. The model may be one with
a head or a plain one. Exits with 1 if an answer is not what generate() says, if a request fails that was not cancelled,
if the server's log has an error, or if a process of the server leaks: its memory in the last quarter of the answers is
above that in the quarter before, by more than --leak bytes for each answer between.

Memory that grows with any model is kept small, so that a leak shows. On CPUs oneDNN keeps a compiled product for each
number of rows that it has multiplied with each shape of matrix, 1024 in all and about 300 kB each: the server starts
with a cache of one (vLLM keeps 32 for each layer). Blocks of 64 kB and more go back to the system when they are freed.
Options that are not listed are handed to the server.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import torch

MARKS = 40  # how often memory is read
LEAK = 8 * 1024  # bytes for each answer; without a leak 1 to 3 kB are seen in runs of 1,000 requests
PATIENCE = 600  # seconds until the server answers
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}

Memory = dict[str, int]  # bytes that the processes of the server hold, by the name of the process


def memory(root: int) -> Memory:
    """Resident bytes of a process and of those that it started."""
    found: Counter[str] = Counter()
    waiting = [root]
    while waiting:
        process = waiting.pop()
        try:
            name = Path(f"/proc/{process}/comm").read_text().strip()
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            waiting += map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
        except OSError:
            continue
        found["server" if process == root else name] += pages * os.sysconf("SC_PAGE_SIZE")
    return dict(found)


def growth(marks: Sequence[int], answers: int) -> float:
    """Bytes for each answer by which the last quarter of the marks is above the quarter before.

    The first half is not counted: caches fill up there.
    """
    quarter = len(marks) // 4
    if not quarter:
        return 0.0
    last, before = marks[-quarter:], marks[-2 * quarter : -quarter]
    return (fmean(last) - fmean(before)) / (quarter * answers / len(marks))


class Server:
    """vLLM's server of a model on a free port of this machine, stopped at the end of the block."""

    def __init__(self, model: Path, longest: int, options: Sequence[str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address, self.log = f"http://127.0.0.1:{port}", log
        line = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
        line += ["--host", "127.0.0.1", "--max-model-len", str(longest), "--dtype", "float32"]
        self.line = [*line, "--skip-tokenizer-init", "--enforce-eager", *options]

    def __enter__(self) -> Server:
        with self.log.open("w") as said:
            self.process = subprocess.Popen(
                self.line, stdout=said, stderr=subprocess.STDOUT, env=ENVIRONMENT | os.environ
            )
        started = time.monotonic()
        while True:
            try:
                httpx.get(f"{self.address}/health", timeout=5).raise_for_status()
                return self
            except httpx.HTTPError:
                if self.process.poll() is not None or time.monotonic() - started > PATIENCE:
                    self.process.terminate()
                    raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-3000:]}") from None
                time.sleep(1)

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)


async def send(client: httpx.AsyncClient, model: str, prompt: list[int], tokens: int, patience: float | None) -> Any:
    """The tokens of an answer; None if it was cancelled after `patience` seconds."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "return_token_ids": True}
    body |= {"ignore_eos": True, "detokenize": False}
    try:
        answer = await asyncio.wait_for(client.post("/v1/completions", json=body), patience)
    except TimeoutError:
        return None
    answer.raise_for_status()
    return answer.json()["choices"][0]["token_ids"]


Request = tuple[tuple[int, ...], int]  # the words of a prompt, and how many to generate


async def soak(arguments: argparse.Namespace, server: Server) -> int:
    random.seed(arguments.seed)
    before = len(server.log.read_text())  # what the server said while it started
    answers: dict[Request, set[tuple[int, ...]]] = {}
    counts = {"answers": 0, "cancelled": 0, "failed": 0}
    marks: list[Memory] = [memory(server.process.pid)]
    async with httpx.AsyncClient(base_url=server.address, timeout=600) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
        requests = [
            (tuple(random.choices(range(3, arguments.vocabulary), k=length)), random.randint(1, arguments.tokens))
            for length in random.choices(range(1, arguments.longest + 1), k=arguments.requests // 4)
        ]
        gate = asyncio.Semaphore(arguments.at_once)

        async def one(request: Request) -> None:
            patience = random.uniform(0.01, 0.3) if random.random() < arguments.cancelled else None
            async with gate:
                try:
                    answer = await send(client, model, [*request[0]], request[1], patience)
                except httpx.HTTPError as error:
                    print(f"failed: {error}", file=sys.stderr)
                    counts["failed"] += 1
                    return
            if answer is None:
                counts["cancelled"] += 1
                return
            counts["answers"] += 1
            answers.setdefault(request, set()).add(tuple(answer))
            if counts["answers"] % max(1, arguments.requests // MARKS) == 0:
                marks.append(memory(server.process.pid))

        await asyncio.gather(*(one(random.choice(requests)) for _ in range(arguments.requests)))
    wrong = [request for request, given in answers.items() if given != {generated(arguments.model, request)}]
    held = {name: [mark.get(name, 0) for mark in marks[1:]] for name in marks[-1]}
    grown = {name: round(growth(series, counts["answers"])) for name, series in held.items()}
    leaks = {name: each for name, each in grown.items() if each > arguments.leak}
    errors = re.findall(r".*(?:\bERROR\b|Traceback).*", server.log.read_text()[before:])
    steps = {
        name: [marks[0].get(name, 0), *series[:: MARKS // 8], series[-1]] for name, series in held.items() if series
    }
    report = {"prompts": len(answers), "wrong": len(wrong), "errors": errors[:5], "leaks": leaks}
    report |= {
        "bytes_per_answer": grown,
        "megabytes": {name: [b // 10**6 for b in each] for name, each in steps.items()},
    }
    print(json.dumps(counts | report))
    return 1 if wrong or counts["failed"] or leaks or errors else 0


@functools.cache
def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    import unbottle.hub  # noqa: F401  the Auto classes know models with a head from now on
    from unbottle.hf.pretrained import SAFE

    return AutoModelForCausalLM.from_pretrained(folder, **SAFE).float().eval()


def generated(folder: Path, request: Request) -> tuple[int, ...]:
    """What generate() of the same model says."""
    ids = torch.tensor([request[0]])
    ends = {"eos_token_id": None, "pad_token_id": 0}
    options = {"do_sample": False, "max_new_tokens": request[1], "attention_mask": torch.ones_like(ids)}
    return tuple(loaded(folder).generate(ids, **options, **ends)[0, ids.shape[1] :].tolist())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, help="Folder of the model, with a head or plain. It is served in float32.")
    parser.add_argument("--log", type=Path, help="Where to keep the log of the server.")
    parser.add_argument("--requests", type=int, default=2000, help="Number of requests.")
    parser.add_argument("--at-once", type=int, default=32, help="Requests in flight.")
    parser.add_argument("--tokens", type=int, default=24, help="Most tokens to generate for a request.")
    parser.add_argument("--longest", type=int, default=120, help="Tokens of the longest prompt.")
    parser.add_argument("--vocabulary", type=int, default=199, help="Token ids of prompts are below this number.")
    parser.add_argument("--cancelled", type=float, default=0.1, help="Share of requests that are cancelled.")
    parser.add_argument("--leak", type=int, default=LEAK, help="Bytes for each answer that are a leak.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        log = arguments.log or Path(folder) / "server.log"
        with Server(arguments.model, arguments.longest + arguments.tokens, options, log) as server:
            return asyncio.run(soak(arguments, server))


if __name__ == "__main__":
    sys.exit(main())
