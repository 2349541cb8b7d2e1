"""The bar tells the truth about all steps, and only about what is left to do."""

from __future__ import annotations

from unbottle.experiments.demo_plan import Step, carry_out, part_of


def step(title: str, seconds: float, log: list[str], *, done: bool = False) -> Step:
    def work(report) -> None:
        log.append(title)
        for number in range(1, 5):
            report(number, 4, f"{number} of 4")

    return Step(title=title, seconds=seconds, is_done=lambda: done, work=work)


def test_shares_are_those_of_the_time() -> None:
    log: list[str] = []
    seen: list[tuple[float, float, str]] = []
    clock = iter([0.0, 5.0, 5.0, 25.0])
    steps = [step("a", 10, log), step("done before", 1000, log, done=True), step("b", 30, log)]
    took = dict(carry_out(steps, lambda *told: seen.append(told), now=lambda: next(clock)))
    assert log == ["a", "b"]
    assert took == {"a": 5.0, "b": 20.0}
    assert {total for _, total, _ in seen} == {40}
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[0] == (0.0, 40, "a")
    assert (10.0, 40, "b") in seen
    assert seen[-1] == (40, 40, "done")
    assert all(done < 40 for done, _, _ in seen[:-1])
    assert any(text == "b: 2 of 4" for _, _, text in seen)


def test_nothing_to_do_says_nothing() -> None:
    seen: list[object] = []
    assert list(carry_out([step("a", 10, [], done=True)], lambda *told: seen.append(told))) == []
    assert seen == []


def test_a_step_is_over_before_the_next_one_starts() -> None:
    """Whoever is told of a finished step can write that down before the next one is interrupted."""
    log: list[str] = []
    running = carry_out([step("a", 1, log), step("b", 1, log)], lambda *told: None)
    assert next(running)[0] == "a"
    assert log == ["a"]


def test_part_of_a_larger_work() -> None:
    seen: list[tuple[float, float, str]] = []
    report = part_of(lambda *told: seen.append(told), 3, 2, 10)
    report(1, 2, "half")
    report(9, 2, "more than all")
    report(0, 0, "of nothing")
    assert seen == [(4.0, 10, "half"), (5.0, 10, "more than all"), (3.0, 10, "of nothing")]
