"""Send many short requests to a running vLLM server, cancel some, and compare every answer with the first one.

    vllm serve runs/cpr/model --port 8000 --max-model-len 512
    python scripts/soak.py --port 8000 --requests 2000

Each prompt is sent several times, among others and in other company, and greedy answers must not depend on that. Exits
with 1 if one does, if a request fails that was not cancelled, or if the server's memory keeps growing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import httpx

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
    try:
        answer = await asyncio.wait_for(client.post("/v1/completions", json=body), patience)
    except TimeoutError:
        return None
    answer.raise_for_status()
    return answer.json()["choices"][0]["token_ids"]


async def soak(arguments: argparse.Namespace) -> int:
    random.seed(arguments.seed)
    first: dict[tuple[int, ...], list[int]] = {}
    counts = {"answers": 0, "cancelled": 0, "different": 0, "failed": 0}
    marks: list[int] = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{arguments.port}", timeout=600) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
        texts = [
            [random.randrange(3, arguments.vocabulary) for _ in range(random.randint(1, arguments.longest))]
            for _ in range(arguments.requests // 4)
        ]
        gate = asyncio.Semaphore(arguments.at_once)

        async def one(text: list[int]) -> None:
            patience = random.uniform(0.01, 0.3) if random.random() < arguments.cancelled else None
            async with gate:
                try:
                    answer = await send(client, model, text, arguments.tokens, patience)
                except httpx.HTTPError as error:
                    print(f"failed: {error}", file=sys.stderr)
                    counts["failed"] += 1
                    return
            if answer is None:
                counts["cancelled"] += 1
                return
            counts["answers"] += 1
            counts["different"] += first.setdefault(tuple(text), answer) != answer
            if counts["answers"] % 100 == 0:
                marks.append(memory(arguments.pid))

        await asyncio.gather(*(one(random.choice(texts)) for _ in range(arguments.requests)))
    early = marks[len(marks) // 4] if marks else 0
    grown = bool(early) and marks[-1] > GROWTH * early
    print(json.dumps(counts | {"prompts": len(first), "memory": marks, "memory_grew": grown}))
    return 1 if counts["different"] or counts["failed"] or grown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8000, help="Port of the server on this machine.")
    parser.add_argument("--pid", type=int, help="Process of the server, to watch its memory.")
    parser.add_argument("--requests", type=int, default=2000, help="Number of requests.")
    parser.add_argument("--at-once", type=int, default=32, help="Requests in flight.")
    parser.add_argument("--tokens", type=int, default=16, help="Tokens to generate for each request.")
    parser.add_argument("--longest", type=int, default=120, help="Tokens of the longest prompt.")
    parser.add_argument("--vocabulary", type=int, default=199, help="Token ids of prompts are below this number.")
    parser.add_argument("--cancelled", type=float, default=0.1, help="Share of requests that are cancelled.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    return asyncio.run(soak(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
