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
from packaging.requirements import Requirement

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
    detail: str = ""
    purpose: str = ""
    remedy: str = ""
    needed: bool = False


def check(
    name: str,
    passed: bool,
    detail: str | None,
    remedy: str,
    *,
    purpose: str = "",
    needed: bool = False,
    bad: str = MISSING,
) -> Check:
    """A check; purpose and remedy are shown only if it did not pass."""
    advice = {} if passed else {"purpose": purpose, "remedy": remedy}
    return Check(name=name, status=OK if passed else bad, detail=detail or "", needed=needed, **advice)


def checks() -> list[Check]:
    """All checks, the needed ones first."""
    return [python(), *packages(), *extras(), *others(), *machine()]


def python() -> Check:
    """The version of Python, compared with what the package requires."""
    from packaging.specifiers import SpecifierSet

    required = SpecifierSet(importlib.metadata.metadata("unbottle")["Requires-Python"])
    running = platform.python_version()
    remedy = f"make an environment with Python {required}"
    return check("python", required.contains(running, prereleases=True), running, remedy, needed=True)


def packages() -> Iterator[Check]:
    """The required packages and their versions."""
    for requirement in requirements(""):
        installed = version(requirement.name)
        fits = installed is not None and requirement.specifier.contains(installed, prereleases=True)
        remedy = f"pip install '{str(requirement).partition(';')[0].strip()}'"
        yield check(requirement.name, fits, installed, remedy, needed=True)


def extras() -> Iterator[Check]:
    """The extras of the package."""
    for extra in importlib.metadata.metadata("unbottle").get_all("Provides-Extra") or []:
        versions = {needed.name: version(needed.name) for needed in requirements(extra)}
        if versions and extra not in HIDDEN_EXTRAS:
            missing = [name for name, installed in versions.items() if installed is None]
            installed = ", ".join(f"{name} {number}" for name, number in versions.items() if number is not None)
            purpose = f"lacks {', '.join(missing)}"
            yield check(f"extra {extra}", not missing, installed, f"pip install 'unbottle[{extra}]'", purpose=purpose)


def others() -> Iterator[Check]:
    """Optional packages and programs that no extra installs."""
    spacy_model = "en_core_web_sm"
    for name, purpose, remedy in (
        ("deepspeed", "unbottle train with ZeRO 2", "pip install deepspeed"),
        ("lm_eval", "unbottle eval lm-eval", "pip install 'lm_eval[hf]'"),
        ("gguf", "models in GGUF files", "pip install gguf"),
        ("mauve-text", "the metric mauve", "pip install mauve-text   (GPLv3)"),
        ("spacy", "proper nouns by spaCy; else by NLTK or by rules", "pip install spacy"),
        (spacy_model, "the same", f"python -m spacy download {spacy_model}"),
    ):
        title = f"spaCy model {name}" if name == spacy_model else name
        yield check(title, version(name) is not None, version(name), remedy, purpose=purpose)
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), "")
    remedy = "apt install chromium, or any other Chrome"
    yield check("browser", bool(browser), Path(browser).name, remedy, purpose="the tests of the web page")


def machine() -> Iterator[Check]:
    """Disk, memory, cores, device, and whether the Hub answers."""
    from unbottle.hub_access import reachable

    yield limit("disk", shutil.disk_usage(Path.cwd()).free, DISK, "free here", "models and checkpoints")
    if (memory := available_memory()) is not None:
        yield limit("memory", memory, MEMORY, "available", "training a small model")
    yield Check(name="cores", status=OK, detail=str(cores()))
    yield Check(name="device", status=OK, detail=device())
    answers, remedy = reachable(), "a network; folders and files do without"
    yield check("Hugging Face Hub", answers, "answers" * answers, remedy, purpose="models and data sets by name")


def limit(name: str, value: float, least: float, what: str, purpose: str) -> Check:
    detail, remedy = f"{value / 1e9:.1f} GB {what}", f"{least / 1e9:.0f} GB are comfortable"
    return check(name, value >= least, detail, remedy, purpose=purpose, bad=LOW)


def requirements(extra: str) -> list[Requirement]:
    """The declared requirements of the package, or those that an extra adds."""
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
        names = ", ".join(check.name for check in failed)
        verdict = f"Required, but missing: {names}." if failed else "Everything required is installed."
        print(f"\n{verdict} {missing - len(failed)} optional items are missing or low.")
    if failed:
        raise typer.Exit(FAILED)


def report(results: Sequence[Check]) -> str:
    """A line for each check; below what is missing, what it is for and how to install it."""
    width = max(len(check.name) for check in results)
    lines = []
    for check in results:
        lines.append(f"{check.status:<7}  {check.name:<{width}}  {check.detail}".rstrip())
        if check.remedy:
            purpose = f"{check.purpose}: " if check.purpose else ""
            lines.append(f"{'':<7}  {'':<{width}}  {purpose}{check.remedy}")
    return "\n".join(lines)
