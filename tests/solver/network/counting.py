"""A search that counts its calls."""

from solver.fallback import map_from
from solver.result import Result


class Counting:
    """The search, with what it was called for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *arguments: object, **further: object) -> Result:
        self.calls += 1
        return map_from(*arguments, **further)
