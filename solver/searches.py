"""The search as others repeat it with other limits: anew, or with a mapping to begin with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from model.mapspace import Mapspace
from solver.result import Options, ProgressCallback, Result, StopCallback
from solver.search.branching.skeleton import Priced

Search = Callable[[Mapspace, Options, ProgressCallback | None, StopCallback | None], Result]
"""`solver.search.map_einsum`, or what stands for it."""

SearchFrom = Callable[[Priced, Mapspace, Options, ProgressCallback | None, StopCallback | None], Result]
"""The same with an incumbent to begin with, such as `solver.guided.map_from`."""


def beginning_with(known: Priced | None, search: Search, search_from: SearchFrom | None) -> Search:
    """Return the search that begins with `known`; `search` itself if nothing is known, or nothing else given.

    Parameters
    ----------
    known
        A mapping that is allowed where will be searched, with its costs there.
    search, search_from
        The search without and with an incumbent.
    """
    if known is None or search_from is None:
        return search
    return partial(search_from, known)
