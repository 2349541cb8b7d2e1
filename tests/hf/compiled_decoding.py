"""A program: decode from a static cache with torch.compile, with and without a head, and print what happened as JSON.

Run by test_compile.py. The compiler is inductor's up to the point where it would write kernels; what it would ask
before it makes a CUDA graph is asked here, so no GPU is needed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from models import shaken, tiny, words
from torch._dynamo.utils import counters
from torch._inductor.compile_fx import compile_fx
from torch._inductor.cudagraph_utils import get_mutating_use_stack_trace_from_node
from torch._inductor.utils import get_first_incompatible_cudagraph_node
from transformers import CompileConfig

from unbottle.hf import attach

torch.set_num_threads(1)
NEW = 6


class CudaGraphChecks:
    """A backend of torch.compile that runs graphs as they are, and notes why inductor would refuse a CUDA graph."""

    def __init__(self) -> None:
        self.graphs = 0
        self.refusals: list[str] = []

    def __deepcopy__(self, memo: dict) -> CudaGraphChecks:
        return self  # transformers copies its compile config

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return compile_fx(graph, inputs, inner_compile=self.check)

    def check(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Any:
        self.graphs += 1
        static = set(options.get("static_input_idxs") or ())
        for index, node in enumerate(graph.graph.find_nodes(op="placeholder")):
            writes = any(user.target is torch.ops.aten.copy_.default and user.args[0] is node for user in node.users)
            if writes and index not in static:
                where = get_mutating_use_stack_trace_from_node(node) or ""
                self.refusals.append(f"mutated input {node.name}: {where[-300:]}")
        if (node := get_first_incompatible_cudagraph_node(graph)) is not None:
            self.refusals.append(f"incompatible operator {node.target}")

        def run(*args: Any) -> Any:
            return graph(*(args[0] if len(args) == 1 and isinstance(args[0], list) else args))

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def decode(model: Any) -> dict[str, Any]:
    """Greedy generation from a static cache, compiled as `generate` compiles it on a GPU."""
    torch.compiler.reset()
    counters.clear()
    checks = CudaGraphChecks()
    config = CompileConfig(backend=checks, mode=None, fullgraph=False)
    config._compile_all_devices = True
    options = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "cache_implementation": "static"}
    want = model.generate(words(2), disable_compile=True, **options)
    if hasattr(model, "_cache"):
        del model._cache
    got = model.generate(words(2), compile_config=config, **options)
    return {
        "graphs": checks.graphs,
        "breaks": dict(counters["graph_break"]),
        "refusals": checks.refusals,
        "same": torch.equal(want, got),
    }


if __name__ == "__main__":
    for case in sys.argv[1:]:
        architecture, method = case.split()
        plain = decode(tiny(architecture).eval())
        head = decode(shaken(attach(tiny(architecture), method)).eval())
        print(json.dumps({"case": case, "plain": plain, "head": head}))
