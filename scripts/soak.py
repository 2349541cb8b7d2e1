"""Send many requests to a running vLLM server, cancel some, and compare every answer with generate().

    vllm serve runs/cpr/model --port 8000 --dtype float32 > server.log 2>&1 & echo $!
    python scripts/soak.py --port 8000 --pid PID --log server.log --model runs/cpr/model --requests 2000

Prompts and answers have random lengths; each prompt is sent several times, in other company. Exits with 1 if an answer
is not what generate() says, if a request fails that was not cancelled, if the memory of the server keeps growing, or if
its log has an error.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import torch

GROWTH = 1.10  # of the server's memory from a quarter of the requests to the end


def memory(pid: int | None) -> int:
    """Bytes that a process and its children hold, 0 if unknown."""
    if pid is None:
        return 0
    total = 0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        try:
            fields = Path(f"/proc/{process}/statm").read_text().split()
            waiting += map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
        except OSError:
            continue
        total += int(fields[1]) * 4096
    return total


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


async def soak(arguments: argparse.Namespace) -> int:
    random.seed(arguments.seed)
    before = 0 if arguments.log is None else len(arguments.log.read_text())  # what the server said while it started
    answers: dict[Request, set[tuple[int, ...]]] = {}
    counts = {"answers": 0, "cancelled": 0, "failed": 0}
    marks: list[int] = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{arguments.port}", timeout=600) as client:
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
            if counts["answers"] % 100 == 0:
                marks.append(memory(arguments.pid))

        await asyncio.gather(*(one(random.choice(requests)) for _ in range(arguments.requests)))
    wrong = [request for request, given in answers.items() if given != {generated(arguments.model, request)}]
    early = marks[len(marks) // 4] if marks else 0
    grown = bool(early) and marks[-1] > GROWTH * early
    log = "" if arguments.log is None else arguments.log.read_text()[before:]
    errors = re.findall(r".*(?:\bERROR\b|Traceback).*", log)
    report = {"prompts": len(answers), "wrong": len(wrong), "memory": marks, "memory_grew": grown, "errors": errors[:5]}
    print(json.dumps(counts | report))
    return 1 if wrong or counts["failed"] or grown or errors else 0


@functools.cache
def loaded(folder: Path) -> Any:
    import unbottle

    return unbottle.load(folder).float().eval()


def generated(folder: Path, request: Request) -> tuple[int, ...]:
    """What generate() of the same model says."""
    ids = torch.tensor([request[0]])
    ends = {"eos_token_id": None, "pad_token_id": 0}
    options = {"do_sample": False, "max_new_tokens": request[1], "attention_mask": torch.ones_like(ids)}
    return tuple(loaded(folder).generate(ids, **options, **ends)[0, ids.shape[1] :].tolist())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8000, help="Port of the server on this machine.")
    parser.add_argument("--pid", type=int, help="Process of the server, to watch its memory.")
    parser.add_argument("--log", type=Path, help="Log of the server: no error from the first request on.")
    parser.add_argument("--model", type=Path, required=True, help="Folder of the model that is served, in float32.")
    parser.add_argument("--requests", type=int, default=2000, help="Number of requests.")
    parser.add_argument("--at-once", type=int, default=32, help="Requests in flight.")
    parser.add_argument("--tokens", type=int, default=24, help="Most tokens to generate for a request.")
    parser.add_argument("--longest", type=int, default=120, help="Tokens of the longest prompt.")
    parser.add_argument("--vocabulary", type=int, default=199, help="Token ids of prompts are below this number.")
    parser.add_argument("--cancelled", type=float, default=0.1, help="Share of requests that are cancelled.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    return asyncio.run(soak(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
