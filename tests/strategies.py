"""What hypothesis draws: repetitions, paddings, document boundaries, one token, nothing to read."""

from cases import VOCABULARY, Shape
from hypothesis import strategies as st


@st.composite
def shapes(draw) -> Shape:
    batch, positions, tokens = draw(st.integers(1, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    words = st.integers(0, draw(st.sampled_from([1, 3, VOCABULARY - 1])))

    def grid(cell, width):
        return draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=batch, max_size=batch))

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
        documents=[sorted(row) for row in grid(st.integers(0, 2), positions)],
        source_ids=grid(words, tokens),
        source_mask=grid(st.booleans(), tokens),
    )
