"""Compiles the Triton kernels ahead of time, without a GPU: `python triton_compilation.py 80` prints what they take.

Each kernel is compiled as the functions of `ops` launch it, for tensors of usual sizes.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from unbottle.ops.triton import functions, kernels

ARCHITECTURES = {80: "sm_80", 90: "sm_90a"}  # A100, H100
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int64: "i64"}
Launch = tuple[object, tuple]


class Recorder:
    """Stands for the kernels, and remembers with which arguments they would be launched."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def __getattr__(self, name: str) -> object:
        recorder = self

        class Launcher:
            def __getitem__(self, grid: tuple) -> Callable[..., None]:
                return lambda *args: recorder.launches.append((getattr(kernels, name), args))

        return Launcher()


def launches(dtype: torch.dtype) -> Iterator[Launch]:
    """Vocabulary 50257, k = 20, 768 numbers, on the meta device; logits and gradients of weights are float32."""
    functions.kernels = recorder = Recorder()
    size, width, k = 768, 50257, 20
    with torch.device("meta"):
        ids = torch.zeros(8, k, dtype=torch.int64)
        f, weight = torch.empty(8, size, dtype=dtype), torch.empty(width, size, dtype=dtype)
        logits, gradient = torch.empty(8, width, dtype=dtype), torch.empty(8, k, dtype=dtype)
        functions.top(logits, k)
        functions.softmax_(logits, functions.logsumexp(logits))
        functions.sampled(f, weight, ids)
        functions.sampled_rows(gradient, weight, ids)
        functions.add_sampled(torch.empty(width, size), ids, gradient, f)
    functions.kernels = kernels
    yield from recorder.launches


def compiled(launch: Launch, architecture: int) -> dict[str, int]:
    """Registers and bytes of spills, as ptxas tells them."""
    kernel, args = launch
    constants = {p.name: value for p, value in zip(kernel.params, args, strict=True) if p.is_constexpr}
    signature = {p.name: "constexpr" for p in kernel.params if p.is_constexpr}
    for parameter, value in zip(kernel.params, args, strict=True):
        if not parameter.is_constexpr:
            is_tensor = isinstance(value, torch.Tensor)
            signature[parameter.name] = f"*{TYPES[value.dtype]}" if is_tensor else "i32"
    signature = {name: signature[name] for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    binary = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    assert binary.asm["cubin"]
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "kernel.ptx")
        code.write_text(binary.asm["ptx"])
        ptxas = get_ptxas(architecture).path  # the one that Triton itself takes for this architecture
        command = [ptxas, "-v", f"--gpu-name={ARCHITECTURES[architecture]}", code, "-o", Path(folder, "kernel.cubin")]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    names = ("registers", "bytes spill stores", "bytes spill loads")
    return {name: int(re.search(rf"(\d+) {name}", told)[1]) for name in names}


def main(architecture: int) -> None:
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        for launch in launches(dtype):
            found[f"{launch[0].__name__} {TYPES[dtype]}"] = compiled(launch, architecture)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
