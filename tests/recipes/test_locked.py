"""A lock makes others wait, and lets them go on."""

import threading

from unbottle.recipes.locked import locked


def test_the_second_waits_for_the_first(tmp_path) -> None:
    path, said = tmp_path / "new" / ".lock", []

    def second() -> None:
        with locked(path):
            said.append("second")

    other = threading.Thread(target=second)
    with locked(path):
        other.start()
        other.join(timeout=0.2)
        said.append("first")
    other.join(timeout=10)
    assert said == ["first", "second"]
