"""Write what the tests of this folder compare with.

    PYTHONPATH=src:tests OMP_NUM_THREADS=1 python tests/frozen/write_fixtures.py [names] [golden]

It was run once, with the layout of the package before its reorganisation. What it wrote is what later versions must
read and compute: run it again only for a change that is meant to change them, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from frozen import golden, public


def write_names() -> None:
    names = {"names": public.names(), "head_parameters": public.head_parameters(), "commands": public.commands()}
    write(public.FILE, names)


def write_golden() -> None:
    numbers = {case.name: golden.numbers(case) for case in golden.cases()}
    tokens = {case.name: golden.tokens(case) for case in golden.cases()}
    write(golden.FILE, {"numbers": numbers, "tokens": tokens})


def write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=0) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


PARTS = {"names": write_names, "golden": write_golden}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
