"""analogies: contexts after which exactly two of four words are equally likely."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from random import Random

from unbottle.data.analogy.item import KINDS, PARTS, Analogy
from unbottle.data.analogy.pairs import RELATIONS, Pair, Pairs, own_pairs, rows
from unbottle.data.analogy.split import split

SIZE = 400  # contexts of each relation, kind and part
Case = tuple[Pair, Pair]  # answers, distractors


def analogies(
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    relations: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    pairs: Pairs | None = None,
    size: int = SIZE,
) -> list[Analogy]:
    """At most `size` contexts of each relation, kind and part, the same ones whenever the arguments are the same.

    Two pairs (a1, b1), (a2, b2) of a relation make two diagonals (a1, b2), (b1, a2) and two edges (a1, b1), (a2, b2).
    After the idea of Chang and McCallum (2022), the context mentions the two answers and neither distractor, then asks
    for one of the two without a hint which: it determines that these two words are possible, 1/2 each, and no other.
    What a softmax over global embeddings adds (the distractors lie between the answers) is not in the context.

    Each context comes twice, with its answers in both orders, so that neither is first more often. Parts share the
    templates and no word: after training on one part, the test asks for words the training never had as answers. An
    item depends on `seed`, `pairs` and `size`, not on what else is asked for. `pairs`: our own if None.
    """
    pairs = own_pairs() if pairs is None else pairs
    with_templates = [relation for relation in pairs if relation in RELATIONS]
    relations = with_templates if relations is None else relations
    for name, given, known in (("kind", kinds, KINDS), ("relation", relations, with_templates), ("part", parts, PARTS)):
        _refuse_unknown(name, given, known)
    if size < 2 or size % 2:
        raise ValueError(f"size={size}: expected an even number from 2, since each context comes in two orders.")
    divided = split(pairs, seed=seed)
    items = []
    for relation in relations:
        for kind in kinds:
            for part in parts:
                place = (relation, kind, part)
                items += _items(place, cases(divided[relation][part], kind), seed=seed, size=size)
    return items


def cases(pairs: Sequence[Pair], kind: str) -> list[Case]:
    """Answers and distractors of all two pairs of four different words; a diagonal that is a pair itself is none."""
    found: list[Case] = []
    for (a1, b1), (a2, b2) in combinations(pairs, 2):
        if len({a1, b1, a2, b2}) < 4:
            continue
        edges, diagonals = ((a1, b1), (a2, b2)), ((a1, b2), (b1, a2))
        if kind == "edge":
            found += [edges, edges[::-1]]
        elif not {diagonals[0], diagonals[1][::-1]} & set(pairs):
            found += [diagonals, diagonals[::-1]]
    return found


def _items(place: tuple[str, str, str], found: Sequence[Case], *, seed: int, size: int) -> list[Analogy]:
    """Random cases in random templates, both orders of each."""
    relation, kind, part = place
    if not found:
        raise ValueError(
            f"relation {relation!r}: its pairs leave no {kind} for {part}, which takes two pairs of four different "
            "words. Give more pairs of words."
        )
    templates = [text for about, text in rows("templates.tsv") if about == RELATIONS[relation]]
    number = len(found) * len(templates)
    chosen = Random(f"items {seed} {relation} {kind} {part}").sample(range(number), min(size // 2, number))
    items = []
    for case, template in (divmod(index, len(templates)) for index in chosen):
        answers, distractors = found[case]
        for first, second in (answers, answers[::-1]):
            prompt = templates[template].format(first=first, second=second)
            items.append(
                Analogy(
                    relation=relation,
                    kind=kind,
                    part=part,
                    prompt=prompt,
                    answers=(first, second),
                    distractors=distractors,
                )
            )
    return items


def _refuse_unknown(name: str, given: Sequence[str], known: Collection[str]) -> None:
    for value in given:
        if value not in known:
            raise ValueError(f"{name} {value!r} is unknown. Known: {', '.join(known)}.")
