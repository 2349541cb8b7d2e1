"""Tokens per second of a model under vLLM, with a head and without one, on the same requests."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from unbottle.bench.cases import PLAIN, SHAPES, check_known
from unbottle.bench.run import machine
from unbottle.bench.timing import median_times
from unbottle.files import Json, write_json, write_text
from unbottle.hf import attach
from unbottle.tables import Table

ENGINES = ("vllm",)
# In this process, so that CPU time is counted; threads are left to the scheduler
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What is asked of the engine. Models have random weights."""

    shape: str = "smollm2-135m"
    methods: tuple[str, ...] = ("softmax+cpr:20,100+mi",)
    batches: tuple[int, ...] = (1, 8, 32)
    prompt: int = 64
    tokens: int = 32
    repeats: int = 3
    threads: int = 2
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_known("shape", self.shape, tuple(SHAPES))
        if SHAPES[self.shape].encoder_decoder:
            raise ValueError(
                f"shape {self.shape!r} is an encoder-decoder model, which vLLM does not serve with a head."
            )


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Generated tokens per second with so many requests at once, prompts included in the time: the median round."""

    method: str
    batch: int
    wall: float
    cpu: float
    of_plain: float  # ratio of the throughput in wall time to that of the plain model
    of_plain_cpu: float


@contextmanager
def engines(settings: EngineSettings) -> Iterator[dict[str, Any]]:
    """An engine for the plain model and for each method, side by side in this process."""
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
    from vllm import LLM

    shape = SHAPES[settings.shape]
    room = 2 * (settings.prompt + settings.tokens)
    with tempfile.TemporaryDirectory() as folder:
        for name in (PLAIN, *settings.methods):
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(shape.model_type, **shape.options()))
            if name != PLAIN:
                attach(model, name)
            model.save_pretrained(Path(folder) / name)
        torch.set_num_threads(settings.threads)
        yield {
            name: LLM(
                str(Path(folder) / name),
                dtype=settings.dtype,
                max_model_len=room,
                max_num_seqs=max(settings.batches),
                max_num_batched_tokens=max(room, 1024),
                enforce_eager=True,
                enable_prefix_caching=False,
                skip_tokenizer_init=True,
                seed=0,
            )
            for name in (PLAIN, *settings.methods)
        }


def measure(settings: EngineSettings) -> Iterator[Throughput]:
    """All methods take turns, so that the load of the machine affects them alike. Rows come when a batch is done."""
    with engines(settings) as running:
        from vllm import SamplingParams

        exact = SamplingParams(temperature=0, max_tokens=settings.tokens, ignore_eos=True, detokenize=False)
        words = torch.Generator().manual_seed(0)
        for batch in settings.batches:
            ids = torch.randint(3, SHAPES[settings.shape].vocabulary, (batch, settings.prompt), generator=words)
            requests = [{"prompt_token_ids": row} for row in ids.tolist()]
            runs = {name: partial(llm.generate, requests, exact, use_tqdm=False) for name, llm in running.items()}
            times = median_times(runs, repeats=settings.repeats)
            for name, time in times.items():
                yield Throughput(
                    method=name,
                    batch=batch,
                    wall=batch * settings.tokens / time.wall,
                    cpu=batch * settings.tokens / time.cpu,
                    of_plain=times[PLAIN].wall / time.wall,
                    of_plain_cpu=times[PLAIN].cpu / time.cpu,
                )


def table(rows: Sequence[Throughput]) -> Table:
    header = ["requests at once", "method", "tokens/s", "of plain", "of plain, CPU time"]
    cells = [
        [str(row.batch), row.method, f"{row.wall:.1f}", f"{row.of_plain:.2f}", f"{row.of_plain_cpu:.2f}"]
        for row in rows
    ]
    return Table(header, cells)


def save(folder: Path, rows: Sequence[Throughput], settings: EngineSettings) -> None:
    """Write bench.md and bench.json."""
    import vllm

    data: Json = {
        "settings": asdict(settings),
        "machine": machine() | {"vllm": vllm.__version__},
        "rows": [asdict(row) for row in rows],
    }
    write_json(folder / "bench.json", data)
    settings_line = json.dumps(asdict(settings))
    write_text(folder / "bench.md", f"{settings_line}\n\n{table(rows).markdown()}\n")
