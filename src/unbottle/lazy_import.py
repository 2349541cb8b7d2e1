"""Names of a package that are imported on first use, so that a wrong option is refused without waiting for torch."""

import importlib
from collections.abc import Callable, Collection, Sequence


def on_first_use(package: str, names: Collection[str], modules: Sequence[str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose `names` are those of its `modules`, which are tried in this order."""

    def attribute(name: str) -> object:
        for part in modules if name in names else ():
            module = importlib.import_module(f"{package}.{part}")
            if name in getattr(module, "__all__", vars(module)):  # not any attribute: `head.knobs` is a module
                return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
