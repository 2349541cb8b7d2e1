"""Ambiguous contexts: what they say, what they share, and that they stay the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import unbottle
from unbottle.data.analogy import (
    KINDS,
    PARTS,
    RELATIONS,
    Analogy,
    analogies,
    cases,
    own_pairs,
    public_analogies,
    read_word_pairs,
    rows,
    split,
    training_text,
)

QUESTIONS = """: family
king queen man woman
boy girl dad mom
son daughter uncle aunt
groom bride nephew niece
: currency
Japan yen Russia ruble
: capital-common-countries
Athens Greece Oslo Norway
Paris France Rome Italy
Berlin Germany Madrid Spain
Vienna Austria London England
"""
# Without the __init__ of the package, which would import torch.
OTHER_PROCESS = """
import sys, types
package = sys.modules["unbottle"] = types.ModuleType("unbottle")
package.__path__ = [sys.argv[1]]
from unbottle.data.analogy import analogies
print(analogies(relations=["family"])[:20])
"""


@pytest.fixture(scope="module")
def items() -> list[Analogy]:
    return analogies()


def words(item: Analogy) -> set[str]:
    return {*item.answers, *item.distractors}


# -- the public protocol


def test_public_parts_have_two_one_and_no_pair_of_training() -> None:
    items = public_analogies(seed=3)
    pairs = own_pairs()
    trained = {relation: set() for relation in RELATIONS}
    by_part = {part: [item for item in items if item.part == part] for part in PARTS}

    @cache
    def pairs_within(relation: str, words: frozenset[str]) -> set[tuple[str, str]]:
        return {pair for pair in pairs[relation] if {*pair} <= words}

    def pairs_of(item: Analogy) -> set[tuple[str, str]]:
        return pairs_within(item.relation, frozenset(words(item)))

    for item in by_part["train"]:
        trained[item.relation] |= pairs_of(item)
    seen = set.union(*trained.values())
    for relation in RELATIONS:
        assert len(trained[relation]) == len(pairs[relation]) // 2
    for part, number in zip(PARTS, (2, 1, 0), strict=True):
        assert by_part[part]
        assert all(len(pairs_of(item) & seen) == number for item in by_part[part])


def test_public_contexts_are_all_there_are() -> None:
    """Two pairs: two diagonals and four edges, four templates, both orders."""
    pairs = {"family": [("king", "queen"), ("man", "woman"), ("he", "she"), ("boy", "girl")]}
    items = public_analogies(pairs=pairs)
    assert all(not {"he", "she"} & {*item.answers} for item in items)
    mine = [item for item in items if words(item) == {"king", "queen", "man", "woman"}]
    diagonal = {item.answers for item in mine if item.kind == "diagonal"}
    edge = {item.answers for item in mine if item.kind == "edge"}
    assert diagonal == {("king", "woman"), ("woman", "king"), ("queen", "man"), ("man", "queen")}
    assert {frozenset(answers) for answers in edge} == {
        frozenset(pair) for pair in (("king", "queen"), ("man", "woman"), ("king", "man"), ("queen", "woman"))
    }
    assert len(mine) == 4 * (4 + 8)  # templates, ordered answers
    assert all(words(item) - {*item.answers} == {*item.distractors} for item in mine)
    limited = public_analogies(pairs=pairs, size=4)
    assert {*limited} < {*items}
    assert max(Counter((item.kind, item.part) for item in limited).values()) == 4


# -- words


def test_every_relation_has_enough_pairs_of_single_words() -> None:
    found = own_pairs()
    least = {"capital-common": 23, "capital-world": 100, "city-in-state": 65, "family": 23}
    assert all(len(found[relation]) >= number for relation, number in least.items())
    for pairs in found.values():
        assert len(set(pairs)) == len(pairs)
        assert all(word.isalpha() for pair in pairs for word in pair)


def test_no_template_has_a_word_of_its_own_in_the_lists() -> None:
    listed = {word for pairs in own_pairs().values() for pair in pairs for word in pair}
    for about, template in rows("templates.tsv"):
        assert about in RELATIONS.values()
        assert template.count("{first}") == template.count("{second}") == 1
        assert template == template.strip()
        assert not listed & set(template.replace(",", " ").split())


@pytest.mark.parametrize("seed", range(5))
def test_parts_share_no_word_and_lose_no_pair(seed: int) -> None:
    pairs = own_pairs()
    divided = split(pairs, seed=seed)
    for relation, parts in divided.items():
        assert sorted(pair for part in PARTS for pair in parts[part]) == sorted(pairs[relation])
        assert len(parts["train"]) == pytest.approx(0.6 * len(pairs[relation]), abs=2)
    used = [{w for parts in divided.values() for pair in parts[part] for w in pair} for part in PARTS]
    assert not used[0] & used[1]
    assert not used[0] & used[2]
    assert not used[1] & used[2]


def test_pairs_that_meet_in_a_word_of_another_relation_stay_together() -> None:
    pairs = {"capital-world": [("Tbilisi", "Georgia"), ("Lima", "Peru")], "city-in-state": [("Atlanta", "Georgia")]}
    for seed in range(20):
        divided = split(pairs, seed=seed)
        part = next(part for part in PARTS if ("Atlanta", "Georgia") in divided["city-in-state"][part])
        assert ("Tbilisi", "Georgia") in divided["capital-world"][part]


# -- items


def test_items_of_different_parts_share_no_word(items: list[Analogy]) -> None:
    used = {part: set().union(*(words(item) for item in items if item.part == part)) for part in PARTS}
    assert not used["train"] & used["valid"] | used["train"] & used["test"] | used["valid"] & used["test"]


def test_answers_and_distractors_are_two_pairs(items: list[Analogy]) -> None:
    pairs = {relation: set(found) for relation, found in own_pairs().items()}
    for item in items:
        known = pairs[item.relation]
        assert len(words(item)) == 4
        (first, second), (third, fourth) = item.answers, item.distractors
        if item.kind == "edge":
            assert {(first, second), (second, first)} & known
            assert (third, fourth) in known
        else:
            assert not {(first, second), (second, first)} & known
            assert sum(len({(a, b), (b, a)} & known) for a in item.answers for b in item.distractors) == 2
            assert sum(word in {left for left, _ in known} for word in item.answers) == 1  # one from each side


def test_prompts_mention_the_answers_in_order_and_no_distractor(items: list[Analogy]) -> None:
    for item in items:
        said = item.prompt.replace(",", "").split()
        assert said.count(item.answers[0]) == said.count(item.answers[1]) == 1
        assert said.index(item.answers[0]) < said.index(item.answers[1])
        assert not set(item.distractors) & set(said)
        assert item.prompt == item.prompt.strip()


def test_either_answer_is_first_equally_often(items: list[Analogy]) -> None:
    first = Counter((i.relation, i.part, i.kind, i.distractors, i.answers, mask(i)) for i in items)
    for relation, part, kind, distractors, answers, text in first:
        here, turned = ((relation, part, kind, distractors, order, text) for order in (answers, answers[::-1]))
        assert first[here] == first[turned] > 0


def mask(item: Analogy) -> str:
    return re.sub(rf"\b({'|'.join(item.answers)})\b", "_", item.prompt)


def test_every_group_is_full_and_no_item_comes_twice(items: list[Analogy]) -> None:
    groups = Counter((item.relation, item.kind, item.part) for item in items)
    assert set(groups) == {(relation, kind, part) for relation in RELATIONS for kind in KINDS for part in PARTS}
    assert set(groups.values()) == {400}
    assert len(set(items)) == len(items)


def test_items_do_not_depend_on_what_else_is_asked_for(items: list[Analogy]) -> None:
    some = analogies(kinds=["edge"], relations=["family"], parts=["test"])
    wanted = ("edge", "family", "test")
    assert some == [item for item in items if (item.kind, item.relation, item.part) == wanted]


def test_another_seed_makes_other_items(items: list[Analogy]) -> None:
    assert analogies(seed=1) != items


def test_other_processes_make_the_same_items(items: list[Analogy]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(Path(unbottle.__file__).parent)],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found.strip() == str([item for item in items if item.relation == "family"][:20])


def test_a_diagonal_that_is_a_pair_is_none() -> None:
    pairs = [("Glendale", "Arizona"), ("Fresno", "California"), ("Glendale", "California")]
    assert cases(pairs, "diagonal") == []
    assert cases([*pairs[:1], ("Reno", "Nevada")], "diagonal") == [
        (("Glendale", "Nevada"), ("Arizona", "Reno")),
        (("Arizona", "Reno"), ("Glendale", "Nevada")),
    ]


def test_training_text_has_each_answer_once_for_each_prompt(items: list[Analogy]) -> None:
    some = items[:100]
    texts = training_text(some)
    assert Counter(texts) == Counter(f"{item.prompt} {answer}." for item in some for answer in item.answers)
    assert texts == training_text(some)
    assert texts != training_text(some, seed=1)


# -- files of questions


def test_pairs_of_a_file_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(QUESTIONS, encoding="utf-8")
    pairs = read_word_pairs(path)
    assert list(pairs) == ["capital-common", "family"]
    assert pairs["family"][:3] == [("king", "queen"), ("man", "woman"), ("boy", "girl")]
    assert len(analogies(pairs=pairs, parts=["train"], size=10)) == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (": family\nking queen man\n", "line 2: 'king queen man' is no analogy question"),
        ("king queen man woman\n", "line 1: .* is no analogy question"),
        (": currency\nJapan yen Russia ruble\n", "has no relation of capital-common, .*, but currency"),
        ("", "but nothing"),
    ],
)
def test_files_that_are_no_questions_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_word_pairs(path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text in UTF-8"):
        read_word_pairs(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["side"]}, "kind 'side' is unknown. Known: diagonal, edge"),
        ({"relations": ["currency"]}, "relation 'currency' is unknown. Known: capital-common"),
        ({"parts": ["dev"]}, "part 'dev' is unknown. Known: train, valid, test"),
        ({"size": 3}, "size=3: expected an even number from 2"),
        ({"pairs": {"family": [("king", "queen")]}}, "relation 'family': its pairs leave no diagonal for train"),
    ],
)
def test_what_cannot_be_made_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        analogies(**options)
