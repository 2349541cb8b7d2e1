"""What a measurement depends on and the settings do not say: processor and versions. No names of machines."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")}
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()} | versions,
    }


def processor() -> str:
    """The model name of the processor, as Linux tells it, else what Python knows."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
