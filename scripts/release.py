"""Check that a tag can be released, and name the repository in pyproject.toml: python scripts/release.py v0.1.0 URL

The version stands in one place, `__version__`; the tag, CITATION.cff and the newest section of CHANGELOG.md must agree
with it. Addresses of the repository are added here, because a fork that releases has others.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md", "Security": "/security/policy"}


def version(root: Path = ROOT) -> str:
    text = (root / "src" / "unbottle" / "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)[0]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What disagrees with the tag."""
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = [name for name in re.findall(r"^## \[(.*?)\]", changelog, re.MULTILINE) if name != "Unreleased"]
    stated = {
        "__version__": version(root),
        "CITATION.cff": re.findall(r"^version: (.*)$", citation, re.MULTILINE)[0],
        "CHANGELOG.md": sections[0] if sections else "no release",
    }
    wanted = tag.removeprefix("v")
    return [f"the tag is {tag}, but {place} says {found}" for place, found in stated.items() if found != wanted]


def with_addresses(pyproject: str, repository: str) -> str:
    lines = "".join(f'{name} = "{repository}{path}"\n' for name, path in PAGES.items())
    return pyproject.replace("[project.urls]\n", f"[project.urls]\n{lines}", 1)


if __name__ == "__main__":
    tag, repository = sys.argv[1:]
    if found := problems(tag):
        sys.exit("\n".join(found))
    path = ROOT / "pyproject.toml"
    path.write_text(with_addresses(path.read_text(encoding="utf-8"), repository), encoding="utf-8")
    print(f"{tag} can be released")
