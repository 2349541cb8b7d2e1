"""The method language: what it reads, what it writes, what it refuses."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbottle.method import LETTERS, PAPER_METHODS, Method, MethodError

CANONICAL = {
    "Softmax": "softmax",
    "S": "softmax",
    " s + C e P r : 20 ": "softmax+cepr:20",
    "mos": "mos",
    "MoS:3": "mos",
    "mos:2 + CR:50 + Mi:2x2": "mos:2+cr:50+mi:2x2",
    "Softmax + CPR:20,100 + wbwR:100 + Mi": "softmax+cpr:20,100+wbwr:100+mi",
    "softmax+mi+r:20+c": "softmax+cr:20+mi",
    "none": "none",
}

REFUSED = {
    "softmax+x": "method 'softmax+x': unknown part 'x'. Known: c, e, i, k, p, r:k1,k2, mi[:LxW], wbwr:k.",
    "softmaxx": "unknown base 'softmaxx'. Known: none, softmax, mos, pg, ps, copynet (s is short for softmax).",
    "": "unknown base ''",
    "softmax+": "unknown part ''",
    "copynet+c": "part 'c' does not combine with copynet. 'c' goes with softmax, mos, pg, ps.",
    "pg+p": "part 'p' does not combine with pg. 'p' goes with softmax, mos.",
    "none+c": "'none' leaves the model as it is and takes no parts. Start from softmax.",
    "none+mi": "'none' leaves the model as it is",
    "softmax+r": "part 'r' needs the number of words it reranks. Write r:20 or r:20,100.",
    "softmax+c:20": "part 'c' takes no sizes, got '20'. Write them behind r: r:20 or cr:20.",
    "softmax+c:20+r": "part 'c' takes no sizes, got '20'.",
    "softmax+r:100,20": "sizes 100,20 do not ascend. Write r:20,100 (k1 < k2 < ...).",
    "softmax+r:20,20": "sizes 20,20 do not ascend.",
    "softmax+r:0": "'0' is not a positive whole number. Write r:k1,k2.",
    "softmax+r:": "'' is not a positive whole number.",
    "softmax+r:1e3": "'1e3' is not a positive whole number.",
    "softmax+r:-3": "'-3' is not a positive whole number.",
    "softmax+r:" + "9" * 5000: "is not a positive whole number.",
    "softmax+cc": "a letter appears twice",
    "softmax+c+pc": "c appears twice. Name each part once.",
    "softmax+mi+mi": "mi appears twice.",
    "softmax+mi:3": "part 'mi:3'. Write mi:LxW, e.g. mi:3x3 (layers x window).",
    "softmax+mi:0x3": "'0' is not a positive whole number.",
    "softmax+wbwr": "'' is not a positive whole number. Write wbwr:k.",
    "pg+wbwr:5": "wbwr does not combine with pg. It goes with softmax, mos.",
    "mos:1": "a mixture of 1 softmax. Write mos:K with K >= 2; softmax is K = 1.",
    "softmax:3": "base 'softmax' takes no number, got '3'. Only mos:K does.",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(Method.parse(text)) == canonical


@pytest.mark.parametrize("name", PAPER_METHODS)
def test_names_of_the_paper_round_trip(name: str) -> None:
    method = Method.parse(name)
    assert method.title == name
    assert Method.parse(str(method)) == Method.parse(method.title) == method


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_refusals_teach(text: str, message: str) -> None:
    with pytest.raises(MethodError) as caught:
        Method.parse(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("method ")


@pytest.mark.parametrize("value", [None, 3, ["softmax"], b"softmax"])
def test_only_text_is_a_method(value: object) -> None:
    with pytest.raises(MethodError, match="expected text such as 'softmax"):
        Method.parse(value)


def test_parts_that_a_model_cannot_do() -> None:
    with pytest.raises(MethodError, match="part 'e' reads the encoder input, and this model has no encoder"):
        Method.parse("softmax+ce").check(encoder_decoder=False, vocabulary=100)
    with pytest.raises(MethodError, match="k = 20 is more than the 19 words of the vocabulary"):
        Method.parse("softmax+r:20").check(encoder_decoder=True, vocabulary=19)
    with pytest.raises(MethodError, match="k = 30 is more than the 19 words of the vocabulary"):
        Method.parse("softmax+wbwr:30").check(encoder_decoder=True, vocabulary=19)
    Method.parse("softmax+cepr:19").check(encoder_decoder=True, vocabulary=19)


def test_mi_block_is_the_papers_unless_said() -> None:
    assert Method.parse("softmax+mi").mi_block(encoder_decoder=False) == (3, 3)
    assert Method.parse("softmax+mi").mi_block(encoder_decoder=True) == (1, 3)
    assert Method.parse("softmax+mi:2x4").mi_block(encoder_decoder=True) == (2, 4)
    assert Method.parse("softmax").mi_block(encoder_decoder=False) is None


def test_a_method_built_by_hand_is_checked_too() -> None:
    assert str(Method(letters="rc", ks=(3, 9))) == "softmax+cr:3,9"
    for wrong in (
        {"base": "soft"},
        {"letters": "z"},
        {"letters": "r"},
        {"wbwr": 0},
        {"block": (3, 3)},
        {"softmaxes": 2},
    ):
        with pytest.raises(MethodError):
            Method(**wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("softmax+mi:3x100000", "would read 300000 states at a time. Write mi:LxW with L x W <= 1024."),
        ("softmax+mi:1025x1", "would read 1025 states at a time"),
        ("mos:100000+c", "a mixture of 100000 softmaxes. Write mos:K with K <= 64."),
    ],
)
def test_sizes_that_no_model_needs_are_refused(text: str, said: str) -> None:
    with pytest.raises(MethodError, match=re.escape(said)):
        Method.parse(text)
    Method.parse("mos:64+mi:4x256")


@st.composite
def fields(draw) -> dict:
    base = draw(st.sampled_from(["softmax", "mos", "pg", "ps", "copynet"]))
    allowed = [letter for letter in sorted(LETTERS) if base in LETTERS[letter].bases]
    letters = "".join(draw(st.sets(st.sampled_from(allowed)))) if allowed else ""
    ks = tuple(sorted(draw(st.sets(st.integers(1, 10**8), min_size=1, max_size=4)))) if "r" in letters else ()
    mi = draw(st.booleans())
    sizes = st.integers(1, 20)
    return {
        "base": base,
        "softmaxes": draw(st.integers(2, 9)) if base == "mos" else 1,
        "letters": letters,
        "ks": ks,
        "mi": mi,
        "block": draw(st.none() | st.tuples(sizes, sizes)) if mi else None,
        "wbwr": draw(st.none() | st.integers(1, 10**8)) if base in ("softmax", "mos") else None,
    }


@given(fields())
def test_every_method_round_trips(fields: dict) -> None:
    method = Method(**fields)
    assert Method.parse(str(method)) == method
    assert Method.parse(method.title) == method
    assert str(Method.parse(str(method))) == str(method)


@given(st.text() | st.text("softmaxgcepr:,+0123456789 wbi"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        method = Method.parse(text)
    except MethodError:
        return
    assert Method.parse(str(method)) == method
