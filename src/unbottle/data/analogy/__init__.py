"""Contexts with two equally likely next words, made from templates and pairs of words: read generate.py first."""

from unbottle.data.analogy.generate import analogies
from unbottle.data.analogy.item import KINDS, PARTS, Analogy
from unbottle.data.analogy.pairs import RELATIONS, own_pairs, read_pairs
from unbottle.data.analogy.text import training_text

__all__ = ["KINDS", "PARTS", "RELATIONS", "Analogy", "analogies", "own_pairs", "read_pairs", "training_text"]
