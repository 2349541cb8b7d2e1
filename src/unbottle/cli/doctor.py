"""unbottle doctor: what is installed, what is missing, what it is for and how to install it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from unbottle.cli.errors import FAILED
from unbottle.cli.options import AsJson

OK, MISSING, LOW = "ok", "missing", "low"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "firefox")
HIDDEN_EXTRAS = ("dev",)
DISK, MEMORY = 5e9, 4e9  # bytes: what a small model and its checkpoints take, and what it takes to train it


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check. What is `needed` is needed by every command; the rest by some."""

    name: str
    status: str
    found: str = ""
    purpose: str = ""
    remedy: str = ""
    needed: bool = False


def checks() -> list[Check]:
    """All checks, the needed ones first."""
    return [python(), *packages(), *extras(), *others(), *machine()]


def python() -> Check:
    """The version of Python, compared with what the package requires."""
    from packaging.specifiers import SpecifierSet

    wanted, found = SpecifierSet(importlib.metadata.metadata("unbottle")["Requires-Python"]), platform.python_version()
    right = wanted.contains(found, prereleases=True)
    remedy = "" if right else f"make an environment with Python {wanted}"
    return Check(name="python", status=OK if right else MISSING, found=found, remedy=remedy, needed=True)


def packages() -> Iterator[Check]:
    """The required packages and their versions."""
    for requirement in requirements(""):
        found = version(requirement.name)
        right = found is not None and requirement.specifier.contains(found, prereleases=True)
        remedy = "" if right else f"pip install '{str(requirement).partition(';')[0].strip()}'"
        yield Check(
            name=requirement.name, status=OK if right else MISSING, found=found or "", remedy=remedy, needed=True
        )


def extras() -> Iterator[Check]:
    """The extras of the package."""
    declared = importlib.metadata.metadata("unbottle").get_all("Provides-Extra") or []
    for extra in declared:
        wanted = [] if extra in HIDDEN_EXTRAS else requirements(extra)
        if not wanted:
            continue
        lacking = [requirement.name for requirement in wanted if version(requirement.name) is None]
        names = ", ".join(f"{each.name} {version(each.name)}" for each in wanted if each.name not in lacking)
        yield Check(
            name=f"extra {extra}",
            status=MISSING if lacking else OK,
            found=names,
            purpose=f"lacks {', '.join(lacking)}" if lacking else "",
            remedy=f"pip install 'unbottle[{extra}]'" if lacking else "",
        )


def others() -> Iterator[Check]:
    """Optional packages and programs that no extra installs."""
    spacy_model = "en_core_web_sm"
    yield package("deepspeed", "unbottle train with ZeRO 2", "pip install deepspeed")
    yield package("lm_eval", "unbottle eval lm-eval", "pip install 'lm_eval[hf]'")
    yield package("gguf", "models in GGUF files", "pip install gguf")
    yield package("mauve-text", "the metric mauve", "pip install mauve-text   (GPLv3)")
    yield package("spacy", "proper nouns by spaCy; else by NLTK or by rules", "pip install spacy")
    yield package(
        spacy_model, "the same", f"python -m spacy download {spacy_model}", title=f"spaCy model {spacy_model}"
    )
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    yield Check(
        name="browser",
        status=OK if browser else MISSING,
        found=Path(browser).name if browser else "",
        purpose="" if browser else "the tests of the web page",
        remedy="" if browser else "apt install chromium, or any other Chrome",
    )


def machine() -> Iterator[Check]:
    free = shutil.disk_usage(Path.cwd()).free
    yield limit("disk", free, DISK, "free here", "models and checkpoints")
    if (memory := available_memory()) is not None:
        yield limit("memory", memory, MEMORY, "available", "training a small model")
    yield Check(name="cores", status=OK, found=str(cores()))
    yield Check(name="device", status=OK, found=device())
    yield hub()


def hub() -> Check:
    from unbottle.hub_access import reachable

    name = "Hugging Face Hub"
    if reachable():
        return Check(name=name, status=OK, found="answers")
    return Check(
        name=name,
        status=MISSING,
        purpose="models and data sets by name",
        remedy="a network; folders and files do without",
    )


def package(name: str, purpose: str, remedy: str, *, title: str = "") -> Check:
    found = version(name)
    status = MISSING if found is None else OK
    absent = found is None
    return Check(name=title or name, status=status, found=found or "", purpose=purpose * absent, remedy=remedy * absent)


def limit(name: str, value: float, least: float, what: str, purpose: str) -> Check:
    enough = value >= least
    return Check(
        name=name,
        status=OK if enough else LOW,
        found=f"{value / 1e9:.1f} GB {what}",
        purpose="" if enough else purpose,
        remedy="" if enough else f"{least / 1e9:.0f} GB are comfortable",
    )


def requirements(extra: str) -> list:
    """The declared requirements of the package, or those that an extra adds."""
    from packaging.requirements import Requirement

    declared = [Requirement(line) for line in importlib.metadata.requires("unbottle") or []]

    def applies(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    plain = [requirement for requirement in declared if applies(requirement, "")]
    added = [requirement for requirement in declared if requirement not in plain and applies(requirement, extra)]
    return added if extra else plain


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """The number of cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def device() -> str:
    """The device that models run on."""
    if importlib.util.find_spec("torch") is None:
        return "none without torch"
    from unbottle.eval.inference import best_device

    return best_device()


def available_memory() -> int | None:
    """Available memory in bytes on Linux; None elsewhere."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None


EXAMPLES = """
unbottle doctor
unbottle doctor --json
"""


def doctor(as_json: AsJson = False) -> None:
    """Print what is installed, what is missing, what it is for, and how to install it.

    Exit code 0 if everything required is installed, whatever optional packages are missing; otherwise 1.
    """
    results = checks()
    failed = [check for check in results if check.needed and check.status != OK]
    if as_json:
        print(json.dumps({"healthy": not failed, "checks": [asdict(check) for check in results]}, indent=1))
    else:
        print(report(results))
        missing = sum(check.status != OK for check in results)
        verdict = (
            f"Required, but missing: {', '.join(check.name for check in failed)}."
            if failed
            else "Everything required is installed."
        )
        print(f"\n{verdict} {missing - len(failed)} optional items are missing or low.")
    if failed:
        raise typer.Exit(FAILED)


def report(results: Sequence[Check]) -> str:
    """A line for each check; below what is missing, what it is for and how to install it."""
    width = max(len(check.name) for check in results)
    lines = []
    for check in results:
        lines.append(f"{check.status:<7}  {check.name:<{width}}  {check.found}".rstrip())
        if check.remedy:
            purpose = f"{check.purpose}: " if check.purpose else ""
            lines.append(f"{'':<7}  {'':<{width}}  {purpose}{check.remedy}")
    return "\n".join(lines)
