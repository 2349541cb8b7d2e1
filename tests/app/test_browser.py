"""The page in a real browser: typed into, clicked on, read. Run by `make test-browser`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import tiny_shown

pytest.importorskip("gradio", reason="needs Gradio: make test-browser, or pip install 'unbottle[app]'")
api = pytest.importorskip(
    "playwright.sync_api", reason="needs Playwright: make test-browser, or pip install playwright"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium"),
    pytest.mark.filterwarnings("default"),  # of a browser's driver, not of ours
]

WAIT = 30_000  # milliseconds until a page that does not answer fails the test
PHONE, DESKTOP = {"width": 375, "height": 740}, {"width": 1280, "height": 900}
LIST = "We have [tea], [milk] and [juice], and I take"
DOCUMENT = "the king of France met Anna in Paris and said that she should go to London"
LONG_WORDS = "king France Anna Paris said that should London"  # words of one to three letters are marked in pairs only


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program itself, with a head, which brings its base model along, and a model that summarizes."""
    place = tmp_path_factory.mktemp("models")
    for shown in (tiny_shown.causal()[1], *tiny_shown.encoder_decoder()):
        shown.model.save_pretrained(place / shown.name / "model")
        shown.tokenizer.save_pretrained(place / shown.name / "model")
    with running([str(place / name / "model") for name in ("cpr", "cepr")]) as found:
        yield found


@contextmanager
def running(models: list[str]) -> Iterator[str]:
    """unbottle app in a process of its own, until the block ends: then it is interrupted, as by Ctrl-C."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("GRADIO_ANALYTICS_ENABLED", None)
    command = [sys.executable, "-m", "unbottle", "app", *models]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+)/? in a browser; Ctrl-C here ends it\.\n", line)
        yield found.group(1) if found else pytest.fail(f"no address: {line!r} {process.communicate()[1]}")
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.endswith("Interrupted.\n")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    api.expect.set_options(timeout=WAIT)
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def page(browser, address: str, request: pytest.FixtureRequest) -> Iterator:
    """The page is open. Afterwards: it asked nobody but its own server, nothing failed, nothing sticks out."""
    context = browser.new_context(viewport=request.param)
    found = context.new_page()
    found.set_default_timeout(WAIT)
    asked, wrong = [], []
    found.on("request", lambda each: asked.append(each.url))
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    found.goto(address)
    found.locator("#next-out button").first.wait_for()  # it answers before anything is typed
    yield found
    elsewhere = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert elsewhere == []
    assert wrong == []
    assert found.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


def fill(page, place: str, text: str) -> None:
    page.locator(f"#{place} textarea").fill(text)


def text_of(page, place: str) -> str:
    return page.locator(f"#{place} textarea").input_value()


def words(page, model: int):
    return page.locator(f'#next-out button[data-model="{model}"]')


def tab(page, name: str) -> None:
    """A phone has room for some tabs only; the others are in a menu."""
    there = page.get_by_role("tab", name=name, exact=True).locator("visible=true")
    if there.count() == 0:
        page.locator("button.overflow-menu, .overflow-menu > button").first.click()
        page.locator(".overflow-dropdown button", has_text=name).click()
    else:
        there.first.click()


def test_type_and_click_a_word(page) -> None:
    fill(page, "next-text", "The king and the")
    page.wait_for_function("document.querySelectorAll('#next-out button[data-word]').length == 16")
    tokenizer = tiny_shown.spelling()
    told = tiny_shown.causal()[1]
    expected = next_ids(told, "The king and the")
    api.expect(words(page, 1).first).to_have_attribute("data-word", str(expected[0]))
    word = words(page, 1).locator("visible=true").and_(page.locator(":enabled")).first
    added = tokenizer.decode([int(word.get_attribute("data-word"))])
    word.click()
    api.expect(page.locator("#next-text textarea")).to_have_value("The king and the" + added)
    api.expect(words(page, 1).first).to_have_attribute("data-word", str(next_ids(told, "The king and the" + added)[0]))
    assert page.locator("#next-out .ub-legend .ub-chip").count() >= 3


def next_ids(shown, text: str) -> list[int]:
    return [word.id for word in next_words_of(shown, text)]


def next_words_of(shown, text: str, copy_bias: float = 0) -> list:
    from unbottle.app.predictions import next_words

    (found,) = next_words([shown], text, words=8, copy_bias=copy_bias)
    return found.words


def test_it_opens_with_an_answer_for_the_base_model_and_the_head(page) -> None:
    """The answer comes with the page: nothing was asked for yet."""
    assert page.locator("#next-out h3").all_inner_texts() == ["base model no head", "cpr Softmax + CPR:3,9 + Mi"]
    assert text_of(page, "next-text") == page.locator("#next-out [data-text]").get_attribute("data-text")
    assert page.evaluate("performance.getEntriesByType('resource').filter(e => e.name.includes('queue')).length") == 0
    assert page.locator("#next-out .ub-changed").count() > 0


def test_pointing_at_a_word_marks_where_it_was_copied_from(page) -> None:
    text = "\U0001f451 The king and\nthe woman and the king"
    fill(page, "next-text", text)
    api.expect(page.locator("#next-out [data-text]")).to_have_attribute("data-text", text)
    word = page.locator("#next-out button", has=page.locator("[data-places]")).first
    spelled = tiny_shown.spelling().decode([int(word.get_attribute("data-word"))]).strip()
    marks = page.locator(".ub-mirror mark")
    for name in ("hover", "focus"):
        getattr(word, name)()
        api.expect(marks.first).to_have_text(spelled)
        assert {*marks.all_inner_texts()} == {spelled}
        boxes = [page.locator(place).bounding_box() for place in ("#next-text textarea", ".ub-mirror")]
        assert all(abs(boxes[0][side] - boxes[1][side]) <= 1 for side in ("x", "y", "height"))
        page.locator("h1").hover()
        page.locator("#next-text textarea").focus()
        api.expect(marks).to_have_count(0)
    word.hover()
    fill(page, "next-text", "something else")
    api.expect(marks).to_have_count(0)


def test_a_tap_explains_a_method(page) -> None:
    """A phone cannot point at a word; what appears is not underlined like the word itself."""
    page.locator("#next-out abbr").first.click()
    shown = "(name) => getComputedStyle(document.activeElement, '::after')[name]"
    assert "Softmax: one vector for all words" in page.evaluate(shown, "content")
    assert page.evaluate(shown, "display") == "inline-block"


def test_every_word_has_room(page) -> None:
    fill(page, "next-text", "The king and the")
    page.wait_for_function("document.querySelectorAll('#next-out button[data-word]').length == 16")
    cut = "[...document.querySelectorAll('#next-out .ub-text')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert page.evaluate(cut) == 0


def test_it_shows_that_it_is_busy(page) -> None:
    page.route("**/queue/join*", lambda route: (page.wait_for_timeout(700), route.continue_()))
    page.locator("#next-text textarea").fill("The king")
    api.expect(page.locator("#next-out .pending")).to_have_count(1)
    stripe = "getComputedStyle(document.querySelector('#next-out .pending'), '::before').animationName"
    assert page.evaluate(stripe) == "ub-busy"
    api.expect(page.locator("#next-out .pending")).to_have_count(0)
    api.expect(page.locator("#next-out [data-text]")).to_have_attribute("data-text", "The king")


def test_a_link_to_what_is_shown(page) -> None:
    text = "The king & the woman = \u00e9?"
    fill(page, "next-text", text)
    page.locator("input[type=range]:visible").nth(1).fill("2.5")
    page.wait_for_function("new URLSearchParams(location.search).get('copy_bias') == '2.5'")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#link").click()
    api.expect(page.locator("#link")).to_have_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    shown = page.locator("#next-out [data-text]")
    api.expect(shown).to_have_attribute("data-text", text)
    percents = page.locator('#next-out button[data-model="1"] .ub-percent')
    expected = [f"{word.probability:.1%}" for word in next_words_of(tiny_shown.causal()[1], text, copy_bias=2.5)]
    api.expect(percents).to_have_text(expected)  # of the knob too, whose answer may come after that of the text
    page.goto("about:blank")
    page.goto(link)
    api.expect(shown).to_have_attribute("data-text", text)
    api.expect(page.locator("#next-text textarea")).to_have_value(text)
    api.expect(percents).to_have_text(expected)


def test_a_link_to_another_tab_presses_its_button(page, address: str) -> None:
    page.goto(f"{address}/?tab=continue&text=The+king+and&words=3")
    api.expect(page.locator("#continue-out .ub-made")).to_have_count(2)
    assert text_of(page, "continue-text") == "The king and"
    tab(page, "Order of a list")
    page.wait_for_function("new URLSearchParams(location.search).get('tab') == 'order'")


def test_keyboard_alone(page) -> None:
    fill(page, "next-text", "The woman")
    first = words(page, 0).and_(page.locator(":enabled")).first
    api.expect(words(page, 0).first).to_have_attribute(
        "data-word", str(next_ids(tiny_shown.causal()[0], "The woman")[0])
    )
    first.focus()
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.word")
    assert second != first.get_attribute("data-word")
    page.keyboard.press("Enter")
    added = tiny_shown.spelling().decode([int(second)])
    api.expect(page.locator("#next-text textarea")).to_have_value("The woman" + added)


def test_generate_and_see_what_was_copied(page) -> None:
    tab(page, "Continue")
    fill(page, "continue-text", "The king and the woman <script>alert(1)</script>")
    page.locator("#continue-button").click()
    cards = page.locator("#continue-out .ub-made")
    api.expect(cards).to_have_count(2)
    assert all(card.inner_text().strip() for card in cards.all())
    source = page.locator("#continue-out .ub-source")
    assert "<script>alert(1)</script>" in re.sub(r"\s+", " ", source.inner_text())
    assert page.locator("#continue-out script").count() == 0


def test_a_copied_word_is_marked_in_both_texts(page, address: str) -> None:
    page.goto(f"{address}/?tab=summarize&text={LONG_WORDS}&tokens=20&only=true")  # a model that can only copy
    copied = page.locator("#summarize-out .ub-made mark").first
    copied.hover()
    api.expect(page.locator("#summarize-out .ub-source mark.ub-same").first).to_contain_text(copied.inner_text())
    page.locator("h1").hover()
    api.expect(page.locator("#summarize-out .ub-same")).to_have_count(0)


def test_order_of_a_list(page) -> None:
    tab(page, "Order of a list")
    fill(page, "order-text", LIST)
    page.locator("#order-button").click()
    maps = page.locator("#order-out table")
    api.expect(maps).to_have_count(2)
    for each in maps.all():
        assert each.locator("thead th").all_inner_texts() == ["order", "tea", "milk", "juice"]
        assert each.locator("tbody tr").count() == 6  # all orders of three options
        shares = [int(text.split("%")[0]) for text in each.locator("tbody tr").first.locator("td").all_inner_texts()]
        assert 98 <= sum(shares) <= 102
    facts = page.locator("#order-out .ub-facts").first.inner_text()
    assert re.search(r"evenness\s+0\.\d{3}", facts)
    assert re.search(r"winner changes\s+\d+%", facts)


def test_summarize(page) -> None:
    tab(page, "Summarize")
    fill(page, "summarize-text", DOCUMENT)
    page.locator("#summarize-button").click()
    card = page.locator("#summarize-out .ub-made")
    api.expect(card).to_have_count(1)
    assert card.inner_text().strip()


def test_an_error_is_a_sentence(page) -> None:
    tab(page, "Order of a list")
    fill(page, "order-text", "no list <img src=x onerror=alert(1)>")
    page.locator("#order-button").click()
    told = page.locator("#order-out [role=alert]")
    api.expect(told).to_contain_text("The text has 0 options in brackets, and 2 to 8 are needed.")
    assert "Traceback" not in page.content()
