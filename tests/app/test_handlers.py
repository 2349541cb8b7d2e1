"""The page's questions and handlers: HTML, one at a time, errors as sentences."""

from __future__ import annotations

import re
import threading

import pytest
import tiny_shown

from unbottle.app import handlers as module
from unbottle.app.handlers import Handlers

PROMPT = "The king and the woman"


@pytest.fixture
def handlers() -> Handlers:
    return Handlers([*tiny_shown.encoder_decoder(), *tiny_shown.causal()])


def test_models_go_where_they_belong(handlers: Handlers) -> None:
    assert [shown.name for shown in handlers.causal] == ["plain", "cpr"]
    assert [shown.name for shown in handlers.encoder_decoder] == ["cepr"]


def test_answers_come_model_by_model(handlers: Handlers) -> None:
    waiting, first, last = handlers.continued(PROMPT, 3, 1, 0, 0)
    assert waiting.count("at work…") == 2
    assert "<h3>cpr</h3><p>writing…" in first
    assert "writing…" not in last
    _, first, last = handlers.shuffled("[tea] or [milk]? I take the", 2, 0)
    assert (first.count("<table"), last.count("<table")) == (1, 2)
    _, only = handlers.summarized("Anna met the king", "greedy", 8, 0, 0, False)
    assert "<h3>cepr <small>" in only  # one model needs no number


def test_a_knob_that_one_model_does_not_have() -> None:
    handlers = Handlers(tiny_shown.softmax_beside_cpr())
    pages = [handlers.next_words(PROMPT, 8, 5), [*handlers.continued(PROMPT, 3, 1, 0, 5)][-1]]
    for html in pages:
        assert "ub-alert" not in html
        assert html.count("<h3>") >= 2
        assert html.count("not applied") == 1


def test_a_click(handlers: Handlers) -> None:
    html = handlers.next_words(PROMPT, 8, 0)
    word = int(re.search(r'data-model="1" data-word="(\d+)"', html).group(1))
    text = handlers.append(PROMPT, {"model": 1, "word": word})
    assert text == PROMPT + tiny_shown.spelling().decode([word])
    for clicked in (None, {}, [1, 2], {"model": 1, "word": 10**9}):
        with pytest.raises(ValueError, match=r"That word|has no text"):
            handlers.append(PROMPT, clicked)


def test_errors_are_sentences(handlers: Handlers, capsys: pytest.CaptureFixture) -> None:
    found = [
        handlers.next_words("", 8, 0),
        [*handlers.continued(None, 3, 1, 0, 0)][-1],
        [*handlers.shuffled("<script>", 2, 0)][-1],
        [*handlers.summarized("a", "<b>", 8, 0, 0, False)][-1],
    ]
    assert all(re.fullmatch(r'<p class="ub-alert" role="alert">[A-Z][^<]*\.?</p>', html) for html in found)
    assert capsys.readouterr().err == ""


def test_our_own_mistakes_are_named_and_told_to_the_terminal(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*_, **__):
        raise RuntimeError("secret <path>")

    monkeypatch.setattr(module, "next_words", fail)
    html = handlers.next_words(PROMPT, 8, 0)
    assert "That did not work (RuntimeError)" in html
    assert "secret" not in html
    assert "secret <path>" in capsys.readouterr().err


def test_what_was_written_before_an_error_stays(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(*_, **__):
        yield from list(whole([handlers.causal[0]], PROMPT, words=2))
        raise ValueError("the second model cannot.")

    whole = module.continued
    monkeypatch.setattr(module, "continued", half)
    *_, last = handlers.continued(PROMPT, 2, 1, 0, 0)
    assert 'role="alert">The second model cannot.</p>' in last
    assert "<h3>plain <small>" in last


def test_one_question_at_a_time(handlers: Handlers) -> None:
    """Whoever comes second waits, also between the models of the first."""
    steps = handlers.continued(PROMPT, 2, 1, 0, 0)
    next(steps), next(steps)
    assert not handlers.lock.locked()
    done = []
    with handlers.lock:
        thread = threading.Thread(target=lambda: done.append(handlers.next_words(PROMPT, 3, 0)))
        thread.start()
        thread.join(0.2)
        assert not done
    thread.join()
    assert done
