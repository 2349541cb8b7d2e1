"""Take the picture of `unbottle app` for its guide, with the models of `unbottle demo` or others.

    python scripts/app_picture.py docs/images/app.png runs/demo/softmax/model runs/demo/cpr/model

Needs what `make test-browser` installs, and chromium. The page is shown as it opens, with the pointer on the first word
that the last model copied.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from unbottle.app.page import served
from unbottle.cli.app import shown_models

WIDTH, HEIGHT = 1120, 960


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    asked = parser.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with served(shown_models(asked.model), host="127.0.0.1", port=None) as address:
        photograph(address, asked.output, asked.width, asked.height)
    print(f"Written to {asked.output}")


def photograph(address: str, output: Path, width: int, height: int) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(address)
        page.locator("#next-out button").first.wait_for()
        copied = page.locator("#next-out .ub-card").last.locator("button", has=page.locator("[data-places]"))
        if copied.count():
            copied.first.hover()
        page.screenshot(path=output)
        browser.close()


if __name__ == "__main__":
    main()
