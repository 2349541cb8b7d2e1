"""Analogies: contexts after which exactly two of four words are equally likely, and texts to train on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import combinations, product
from pathlib import Path
from random import Random

KINDS = ("diagonal", "edge")
PARTS = ("train", "valid", "test")
RELATIONS = {"capital-common": "place", "capital-world": "place", "city-in-state": "place", "family": "person"}
ALIASES = {"capital-common-countries": "capital-common"}  # questions-words.txt has a longer name for it
SHARES = dict(zip(PARTS, (0.6, 0.2, 0.2), strict=True))
SIZE = 400  # contexts of each relation, kind and part
LEFT_OUT = {"he", "she", "his", "her"}  # words that contexts of the public protocol never have as answers

WordPair = tuple[str, str]  # a word and what it is paired with: Paris, France; king, queen
WordPairs = Mapping[str, Sequence[WordPair]]  # by relation
Case = tuple[WordPair, WordPair]  # answers, distractors


@dataclass(frozen=True, kw_only=True)
class Analogy:
    """A context after which each of two words comes with probability 1/2.

    Of two pairs (king, queen) and (man, woman), `answers` are the words of a diagonal of the parallelogram (king,
    woman), or of an edge (king, queen), in the order in which the prompt mentions them. `distractors` are the two other
    words; the prompt does not mention them.
    """

    relation: str
    kind: str  # of KINDS
    part: str  # of PARTS
    prompt: str  # ends before the space in front of the answer
    answers: tuple[str, str]
    distractors: tuple[str, str]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def own_pairs() -> dict[str, list[WordPair]]:
    """The pairs that come with the package. They are one word each, and no word is in two pairs without need."""
    return {relation: [(first, second) for first, second in rows(f"{relation}.tsv")] for relation in RELATIONS}


def rows(name: str) -> list[list[str]]:
    """The cells of a .tsv file of this package."""
    text = files("unbottle.data").joinpath("analogy_pairs", name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def read_word_pairs(path: str | Path) -> dict[str, list[WordPair]]:
    """The pairs of a file in the format of questions-words.txt: `: relation`, then lines of four words, a b c d.

    Relations for which there are no templates are left out.
    """
    from unbottle.data.sources import read_text

    pairs: dict[str, dict[WordPair, None]] = {}  # in the order of the file
    relation = ""
    for number, line in enumerate(read_text(Path(path)).splitlines(), start=1):
        words = line.split()
        if words[:1] == [":"]:
            name = " ".join(words[1:])
            relation = ALIASES.get(name, name)
        elif words:
            if len(words) != 4 or not relation:
                raise ValueError(
                    f"{path}, line {number}: {line.strip()[:60]!r} is no analogy question. Expected ': relation', and "
                    "below it lines of four words, as in 'Athens Greece Oslo Norway'."
                )
            pairs.setdefault(relation, {}).update({(words[0], words[1]): None, (words[2], words[3]): None})
    known = {name: list(pairs[name]) for name in RELATIONS if name in pairs}
    if not known:
        raise ValueError(
            f"{path} has no relation of {', '.join(RELATIONS)}, but {', '.join(pairs) or 'nothing'}. "
            "Add a line like ': family' above its questions."
        )
    return known


def split(pairs: WordPairs, *, seed: int) -> dict[str, dict[str, list[WordPair]]]:
    """The pairs of each relation and part. No word of one part is in another, whatever the relations.

    Pairs that share a word (all cities of Ohio) stay together, across relations (Atlanta and Tbilisi meet in Georgia).
    Such a group goes to the part that lacks most of its share of the relation, large groups first, else in random
    order. Tokens of different words may be the same (stepbrother, brother).
    """
    part_of: dict[str, str] = {}  # by word
    divided: dict[str, dict[str, list[WordPair]]] = {}
    groups = connected([pair for related in pairs.values() for pair in related])
    for relation, related in pairs.items():
        parts: dict[str, list[WordPair]] = {part: [] for part in PARTS}
        sizes = {part: share * len(related) for part, share in SHARES.items()}
        within = [members for group in groups if (members := [pair for pair in group if pair in set(related)])]
        Random(f"split {seed} {relation}").shuffle(within)
        within.sort(key=lambda group: (group[0][0] not in part_of, -len(group)))  # groups with a part already, first
        for group in within:
            part = part_of.get(group[0][0]) or max(PARTS, key=lambda name: sizes[name] - len(parts[name]))
            parts[part] += group
            part_of |= {word: part for other in groups if group[0] in other for pair in other for word in pair}
        divided[relation] = parts
    return divided


def connected(pairs: Sequence[WordPair]) -> list[list[WordPair]]:
    """Groups of pairs such that no word is in two groups."""
    groups: list[list[WordPair]] = []
    for pair in dict.fromkeys(pairs):
        near = [group for group in groups if any(set(pair) & set(other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), pair])
    return groups


def training_text(items: Iterable[Analogy], *, seed: int = 0) -> list[str]:
    """Each prompt with each of its two answers and a full stop, in random order: one text per line of a file."""
    texts = [f"{item.prompt} {answer}." for item in items for answer in item.answers]
    Random(f"text {seed}").shuffle(texts)
    return texts


def analogies(
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    relations: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    pairs: WordPairs | None = None,
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
    for name, values, known in (
        ("kind", kinds, KINDS),
        ("relation", relations, with_templates),
        ("part", parts, PARTS),
    ):
        for value in values:
            if value not in known:
                raise ValueError(f"{name} {value!r} is unknown. Known: {', '.join(known)}.")
    if size < 2 or size % 2:
        raise ValueError(f"size={size}: expected an even number from 2, since each context comes in two orders.")
    divided = split(pairs, seed=seed)
    items = []
    for relation, kind, part in product(relations, kinds, parts):
        possible = [*product(cases(divided[relation][part], kind), _templates("templates.tsv", relation))]
        if not possible:
            raise ValueError(
                f"relation {relation!r}: its pairs leave no {kind} for {part}, which takes two pairs of four different "
                "words. Give more pairs of words."
            )
        random = Random(f"items {seed} {relation} {kind} {part}")
        items += _items(relation, kind, part, random.sample(possible, min(size // 2, len(possible))))
    return items


def public_analogies(
    *, seed: int = 0, pairs: WordPairs | None = None, size: int | None = None, parts: Sequence[str] = PARTS
) -> list[Analogy]:
    """Contexts by the public protocol of Chang and McCallum (2022), whose data set the paper's table is about.

    Half of the pairs of each relation, drawn at random, are for training: `train` has contexts of two such pairs,
    `valid` of one of them and one that was never seen, `test` of two that were never seen. Four templates about places
    and four about people. Of the words of (w1, w2), (w3, w4), a diagonal is (w1, w4) or (w2, w3), an edge any other.
    `size` limits the contexts of each relation, kind and part; without it there are all.

    Differs from the public code: a pair that two relations share is for training in both or in neither, so that no test
    pair was seen; and all pairs of pairs are used, where Google's file lists some of them.
    """
    pairs = own_pairs() if pairs is None else pairs
    seen: dict[WordPair, bool] = {}
    items = []
    for relation in (name for name in RELATIONS if name in pairs):
        related = list(pairs[relation])
        Random(f"public split {seed} {relation}").shuffle(related)
        wanted = len(related) // 2 - sum(seen.get(pair, False) for pair in related)
        for pair in (pair for pair in related if pair not in seen):
            seen[pair] = wanted > 0
            wanted -= 1
        for kind, part in product(KINDS, parts):
            sides = [
                (answers, others)
                for first, second in combinations(pairs[relation], 2)
                if PARTS[2 - seen[first] - seen[second]] == part and len({*first, *second}) == 4
                for answers, others in _sides(first, second, kind)
                if not LEFT_OUT & {*answers}
            ]
            possible = [*product(sides, _templates("public_templates.tsv", relation))]
            if size is not None and len(possible) > size // 2:
                possible = Random(f"public items {seed} {relation} {kind} {part}").sample(possible, size // 2)
            items += _items(relation, kind, part, possible)
    return items


def _sides(first: WordPair, second: WordPair, kind: str) -> list[Case]:
    """Two words of a parallelogram, and the two others."""
    (w1, w2), (w3, w4) = first, second
    sides = [((w1, w4), (w2, w3))] if kind == "diagonal" else [((w1, w2), (w3, w4)), ((w1, w3), (w2, w4))]
    return [side for one, other in sides for side in ((one, other), (other, one))]


def _templates(name: str, relation: str) -> list[str]:
    """The templates of a .tsv file for what the relation is about."""
    return [text for about, text in rows(name) if about == RELATIONS[relation]]


def _items(relation: str, kind: str, part: str, chosen: Iterable[tuple[Case, str]]) -> list[Analogy]:
    """Both orders of the answers of each case, in its template."""
    return [
        Analogy(
            relation=relation,
            kind=kind,
            part=part,
            prompt=template.format(first=first, second=second),
            answers=(first, second),
            distractors=distractors,
        )
        for (answers, distractors), template in chosen
        for first, second in (answers, answers[::-1])
    ]


def cases(pairs: Sequence[WordPair], kind: str) -> list[Case]:
    """Answers and distractors of all two pairs of four different words; a diagonal that is a pair itself is none."""
    result: list[Case] = []
    for (a1, b1), (a2, b2) in combinations(pairs, 2):
        if len({a1, b1, a2, b2}) < 4:
            continue
        edges, diagonals = ((a1, b1), (a2, b2)), ((a1, b2), (b1, a2))
        if kind == "edge":
            result += [edges, edges[::-1]]
        elif not {diagonals[0], diagonals[1][::-1]} & set(pairs):
            result += [diagonals, diagonals[::-1]]
    return result
