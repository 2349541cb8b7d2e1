"""The method language: what an output layer is made of, as text and as data. Standard library only."""

from unbottle.spec.letters import LETTERS, Letter, register_letter
from unbottle.spec.method import Method, MethodError, UnknownLetterError
from unbottle.spec.names import PAPER_METHODS

__all__ = ["LETTERS", "PAPER_METHODS", "Letter", "Method", "MethodError", "UnknownLetterError", "register_letter"]
