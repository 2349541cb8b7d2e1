"""A page that loads nothing: no script, no address, no file beside it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = ("meta", "img", "rect", "circle")


class Reader(HTMLParser):
    """What a page would load, and whether its tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if tag in ("script", "link", "iframe", "object", "base") or name.startswith("on"):
                self.loads.append(f"{tag} {name}={value}")
            if name in ("src", "href", "srcset", "data", "action") and not (value or "").startswith("data:"):
                self.loads.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)


def read_page(text: str) -> Reader:
    """Refuses a page that is not closed or not self-contained."""
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.loads == []
    assert "@import" not in text
    assert "url(" not in text
    assert "http" not in text
    return reader
