"""Which pairs are for training, which for validation, which for the test."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from unbottle.data.analogy.item import PARTS
from unbottle.data.analogy.pairs import Pair, Pairs

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
