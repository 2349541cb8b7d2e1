"""A file imports only from layers above its own."""

import ast
from pathlib import Path

import pytest

import unbottle

ROOT = Path(unbottle.__file__).parent
SHARED = {
    "method",
    "files",
    "progress",
    "tables",
    "hub_access",
    "lazy_import",
}  # single files that any layer may import
ABOVE = {
    "ops": set(),
    "head": {"ops"},
    "hf": {"ops", "head"},
    "serve": {"ops", "head", "hf", "hub"},
    "data": {"ops", "head", "hf"},
    "train": {"ops", "head", "hf"},
    "eval": {"ops", "head", "hf"},
    "bench": {"ops", "head", "hf"},
    "report": set(),
    "experiments": {"ops", "head", "hf", "data", "train", "eval", "bench", "report"},
    "app": {"head", "hf", "eval", "report"},
    "cli": {"ops", "head", "hf", "data", "train", "eval", "bench", "report", "experiments", "app"},
}
THIRD_PARTY = {
    "ops": {"torch", "jaxtyping", "triton", "numpy"},
    "head": {"torch", "jaxtyping"},
    "hf": {"torch", "jaxtyping", "transformers", "safetensors", "huggingface_hub"},
    "serve": {"torch", "jaxtyping", "transformers", "packaging", "vllm"},
    "data": {"torch", "transformers", "datasets", "numpy", "pyarrow"},
    "train": {"torch", "transformers", "accelerate", "deepspeed", "peft", "numpy", "safetensors", "huggingface_hub"},
    "eval": {"torch", "jaxtyping", "transformers", "numpy", "nltk", "rouge_score", "spacy", "lm_eval", "mauve"},
    "bench": {"torch", "transformers", "matplotlib", "vllm"},
    "report": {"matplotlib", "jinja2", "markupsafe"},
    "experiments": {"torch", "transformers", "tokenizers", "numpy", "datasets"},
    "app": {"gradio"},
    "cli": {"typer", "rich", "yaml", "transformers", "torch", "datasets", "packaging"},
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            is_shared = node.module == "unbottle" and {alias.name for alias in node.names} <= SHARED
            found.add("unbottle.hub_access" if is_shared else node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_upwards(path: Path) -> None:
    import sys

    layer = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        package, *rest = name.split(".")
        if package == "unbottle":
            assert rest, f"{path} imports all of unbottle"
            assert rest[0] in ABOVE[layer] | SHARED | {layer}, f"{layer} may not import {name}"
        elif package not in sys.stdlib_module_names:
            assert package in THIRD_PARTY[layer], f"{layer} may not import {name}"
