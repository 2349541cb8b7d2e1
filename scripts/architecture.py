"""Write the file tree of docs/architecture.md again: python scripts/architecture.py

Comments and the order of the lines are kept. Files that are gone lose their line; new files get one at the end of their
folder, with the first sentence of their docstring as the comment, to be edited by hand.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- file tree -->\n```text\n", "```\n<!-- end of file tree -->\n"
LISTED = ("src/unbottle", "scripts", "examples")  # every file
LEFT_OUT = {"__init__.py", "__pycache__"}
COLUMN = 34  # where comments start


def files() -> set[str]:
    """Every file that the tree must name, by its path."""
    paths = (path for folder in LISTED for path in (ROOT / folder).rglob("*") if path.is_file())
    shown = {path.relative_to(ROOT) for path in paths if not LEFT_OUT & set(path.parts)}
    return {path.as_posix() for path in shown if path.suffix != ".pyc"}


def tree(text: str) -> dict[str, str]:
    """Path -> comment of each line of the tree, in order; the paths of folders end with a slash."""
    block = text.partition(START)[2].partition(END)[0]
    comments: dict[str, str] = {}
    folders: list[tuple[int, str]] = []  # indentation and path of the folders around a line
    for line in block.splitlines():
        indentation = len(line) - len(line.lstrip())
        name, _, comment = line.strip().partition(" ")
        while folders and folders[-1][0] >= indentation:
            folders.pop()
        path = (folders[-1][1] if folders else "") + name
        comments[path] = comment.strip()
        if name.endswith("/"):
            folders.append((indentation, path))
    return comments


def drawn(comments: dict[str, str]) -> str:
    """The lines of a tree of all files, with these comments and in their order."""
    order = {path: place for place, path in enumerate(comments)}
    lines: list[str] = []

    def draw(folder: str, depth: int) -> None:
        children = {_first(path[len(folder) :]) for path in files() if path.startswith(folder)}
        for name in sorted(children, key=lambda name: (order.get(folder + name, len(order)), name)):
            path = folder + name
            comment = comments.get(path) or docstring(ROOT / path)
            lines.append(f"{'  ' * depth + name:<{COLUMN}}{comment}".rstrip())
            if name.endswith("/"):
                draw(path, depth + 1)

    for root in (path for path in comments if "/" not in path.rstrip("/") or path.rstrip("/") in LISTED):
        lines.append(f"{root:<{COLUMN}}{comments[root]}".rstrip())
        draw(root, 1)
    return "\n".join(lines) + "\n"


def _first(path: str) -> str:
    """Its first file or folder."""
    name, slash, _ = path.partition("/")
    return name + slash


def docstring(path: Path) -> str:
    """The first sentence of the docstring of a file, or of the `__init__.py` of a folder."""
    path = path / "__init__.py" if path.is_dir() else path
    if path.suffix != ".py" or not path.exists():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].split(". ")[0].rstrip(".")


def updated(text: str) -> str:
    before, _, rest = text.partition(START)
    return f"{before}{START}{drawn(tree(text))}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Written to {PAGE}")
