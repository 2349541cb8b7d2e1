"""What hypothesis draws: repetitions, paddings, document boundaries, one token, nothing to read."""

from cases import VOCABULARY, Shape
from hypothesis import strategies as st


@st.composite
def methods(draw) -> tuple[str, bool]:
    """Anything the grammar allows, on a kind of model that takes it."""
    encoder_decoder = draw(st.booleans())
    base = draw(st.sampled_from(["softmax", "mos:2", "mos:3", "pg", "ps", "copynet"]))
    allowed = {"copynet": "", "pg": "cer", "ps": "cer"}.get(base, "cepr")
    letters = [letter for letter in allowed if (letter != "e" or encoder_decoder) and draw(st.booleans())]
    ks = sorted(draw(st.sets(st.integers(1, VOCABULARY), min_size=1, max_size=3))) if "r" in letters else []
    parts = [base, *(["".join(letters) + (":" + ",".join(map(str, ks)) if ks else "")] if letters else [])]
    if base.startswith(("softmax", "mos")) and draw(st.booleans()):
        parts.append(f"wbwr:{draw(st.integers(1, 5))}")
    if draw(st.booleans()):
        parts.append(f"mi:{draw(st.integers(1, 3))}x{draw(st.integers(1, 7))}")
    return "+".join(parts), encoder_decoder


@st.composite
def shapes(draw) -> Shape:
    batch, positions, tokens = draw(st.integers(1, 2)), draw(st.integers(1, 5)), draw(st.integers(0, 4))
    words = st.integers(0, draw(st.sampled_from([1, 3, VOCABULARY - 1])))

    def grid(cell, width):
        return draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=batch, max_size=batch))

    order = draw(st.sampled_from([sorted, list]))  # documents one after the other, or interleaved
    mask = []
    for _ in range(batch):
        left = draw(st.integers(0, positions))
        right = draw(st.integers(0, positions - left))
        mask.append([False] * left + [True] * (positions - left - right) + [False] * right)
    chosen = grid(st.booleans(), positions) if draw(st.booleans()) else mask
    return Shape(
        ids=grid(words, positions),
        mask=mask,
        readable=[[a and b for a, b in zip(*rows, strict=True)] for rows in zip(mask, chosen, strict=True)],
        documents=[order(row) for row in grid(st.sampled_from([-(2**40), 0, 7]), positions)],
        source_ids=grid(words, tokens),
        source_mask=grid(st.booleans(), tokens),
    )
