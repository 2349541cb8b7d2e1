"""Analogy: one context and the two words that may follow it.

Pairs of words by relation: our own, as .tsv files beside this one, or those of a file of analogy questions.

Which pairs are for training, which for validation, which for the test.

training_text: what a model reads to learn that two words are equally likely.

analogies: contexts after which exactly two of four words are equally likely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from random import Random

KINDS = ("diagonal", "edge")
PARTS = ("train", "valid", "test")


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
        """Plain data, ready for JSON."""
        return asdict(self)


Pair = tuple[str, str]  # a word and what it is paired with: Paris, France; king, queen
Pairs = Mapping[str, Sequence[Pair]]  # by relation

RELATIONS = {"capital-common": "place", "capital-world": "place", "city-in-state": "place", "family": "person"}
ALIASES = {"capital-common-countries": "capital-common"}  # questions-words.txt has a longer name for it


def own_pairs() -> dict[str, list[Pair]]:
    """The pairs that come with the package. They are one word each, and no word is in two pairs without need."""
    return {relation: [(first, second) for first, second in rows(f"{relation}.tsv")] for relation in RELATIONS}


def rows(name: str) -> list[list[str]]:
    """The cells of a .tsv file of this package."""
    text = files("unbottle.data").joinpath("analogy_pairs", name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def read_pairs(path: str | Path) -> dict[str, list[Pair]]:
    """The pairs of a file in the format of questions-words.txt: `: relation`, then lines of four words, a b c d.

    Relations for which there are no templates are left out.
    """
    found: dict[str, dict[Pair, None]] = {}  # in the order of the file
    relation = ""
    for number, line in enumerate(lines(Path(path)), start=1):
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
            found.setdefault(relation, {}).update({(words[0], words[1]): None, (words[2], words[3]): None})
    known = {name: list(found[name]) for name in RELATIONS if name in found}
    if not known:
        raise ValueError(
            f"{path} has no relation of {', '.join(RELATIONS)}, but {', '.join(found) or 'nothing'}. "
            "Add a line like ': family' above its questions."
        )
    return known


def lines(path: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}.") from error


SHARES = dict(zip(PARTS, (0.6, 0.2, 0.2), strict=True))


def split(pairs: Pairs, *, seed: int) -> dict[str, dict[str, list[Pair]]]:
    """The pairs of each relation and part. No word of one part is in another, whatever the relations.

    Pairs that share a word (all cities of Ohio) stay together, across relations (Atlanta and Tbilisi meet in Georgia).
    Such a group goes to the part that lacks most of its share of the relation, large groups first, else in random
    order. Tokens of different words may be the same (stepbrother, brother).
    """
    part_of: dict[str, str] = {}  # by word
    divided: dict[str, dict[str, list[Pair]]] = {}
    groups = connected([pair for found in pairs.values() for pair in found])
    for relation, found in pairs.items():
        parts: dict[str, list[Pair]] = {part: [] for part in PARTS}
        wanted = {part: share * len(found) for part, share in SHARES.items()}
        within = [[pair for pair in group if pair in set(found)] for group in groups]
        within = [group for group in within if group]
        Random(f"split {seed} {relation}").shuffle(within)
        within.sort(key=lambda group: (group[0][0] not in part_of, -len(group)))  # what is settled already, first
        for group in within:
            part = part_of.get(group[0][0]) or max(PARTS, key=lambda name: wanted[name] - len(parts[name]))
            parts[part] += group
            part_of |= {word: part for whole in groups if group[0] in whole for pair in whole for word in pair}
        divided[relation] = parts
    return divided


def connected(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Groups of pairs such that no word is in two groups."""
    groups: list[list[Pair]] = []
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
