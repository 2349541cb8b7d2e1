"""Write constraints-hashed.txt: the versions of constraints.txt with the SHA-256 of their files: make lock

pip names the files it would install here (Linux, the Python that runs this), from whatever index it is set to use.
torch is left out: each of its builds (CPU, CUDA) has files of its own, so no list of hashes fits all machines. The file
is for `pip install --require-hashes --no-deps`, after torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS, LOCK = ROOT / "constraints.txt", ROOT / "constraints-hashed.txt"
LEFT_OUT = ("torch",)
HEAD = """\
# Written by `make lock` from constraints.txt: the same versions, with the hashes of the files for Linux on x86-64 and
# Python 3.11. Install torch first, by its version in constraints.txt, then
#     pip install --require-hashes --no-deps --requirement constraints-hashed.txt
"""


def pinned() -> list[str]:
    """The lines of constraints.txt that pin a package, each once, without torch."""
    lines = [line.strip() for line in PINS.read_text(encoding="utf-8").splitlines()]
    pins = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    return [pin for pin in pins if pin.partition("==")[0] not in LEFT_OUT]


def hashed(pins: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        wanted.write_text("\n".join(pins), encoding="utf-8")
        flags = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--disable-pip-version-check"]
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            *flags,
            "--report",
            str(report),
            "--requirement",
            str(wanted),
        ]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    lines = [
        f"{package['metadata']['name']}=={package['metadata']['version']} "
        f"--hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}\n"
        for package in found
    ]
    return HEAD + "".join(sorted(lines, key=str.lower))


if __name__ == "__main__":
    text = hashed(pinned())
    LOCK.write_text(text, encoding="utf-8")
    print(f"{text.count('--hash')} packages in {LOCK.name}")
