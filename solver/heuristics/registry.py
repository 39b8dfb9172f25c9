"""What a mapper is, and mappers by name: built in, registered by installed packages, or ``module:Class``."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections import abc
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from solver.heuristics.interface import MapperError

if TYPE_CHECKING:
    from model.mapping import Mapping
    from model.mapspace import Mapspace
    from solver.heuristics.pricing import Pricing

ENTRY_POINTS = "tilewright.mappers"
"""Group of entry points under which packages register mappers."""

BUILT_IN = {
    "random": "solver.heuristics.timeloop_mappers:RandomSearch",
    "linear-pruned": "solver.heuristics.timeloop_mappers:LinearPruned",
    "greedy": "solver.heuristics.local_search:GreedyDescent",
    "annealing": "solver.heuristics.local_search:Annealing",
    "log-relaxation": "solver.formulation.log_relaxation:LogRelaxation",
    "smaug": "solver.heuristics.smaug.mapper:SmaugTiling",
}


class Mapper(Protocol):
    """A way to find a mapping, good or bad; a user's own needs no more than this method.

    With an attribute `knows_places` that is true it gets mapspaces in which memories have several places;
    otherwise those with one place each.

    It is made by calling its class, without arguments or with the keyword arguments that a user sets.
    """

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> Mapping | None:
        """Return a mapping of ``mapspace.problem`` on ``mapspace.architecture``.

        Parameters
        ----------
        mapspace
            The problem, the architecture, and what the user allows.
        pricing
            Prices mappings (``price``, ``price_batch``), remembers the best one, and knows the
            objectives, the seed and what is left of the budget. A mapper that needs no prices need not
            use it.

        Returns
        -------
        Mapping | None
            A mapping, which is priced in any case; or None, if the best of those that were priced is the
            answer, or if there is none.

        Raises
        ------
        MapperError
            If the mapper cannot treat this mapspace; the message says why.
        BudgetSpent
            By `pricing` once the budget is spent. There is no need to catch it: the best mapping priced
            so far is then the answer.
        """
        ...


OptionValue = int | float | str
MapperClass = Callable[..., Mapper]


def known_mappers() -> tuple[str, ...]:
    """Names of all mappers: the built-in ones in the order of `BUILT_IN`, then the registered ones."""
    registered = sorted(point.name for point in _registered() if point.name not in BUILT_IN)
    return (*BUILT_IN, *registered)


def named_mapper(name: str) -> MapperClass:
    """Return the class of the mapper called `name`; MapperError if it is unknown or cannot be imported."""
    if name in BUILT_IN:
        return imported_mapper(BUILT_IN[name])
    for point in _registered():
        if point.name == name:
            return _registered_class(point)
    close = difflib.get_close_matches(name, known_mappers(), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known mappers are {', '.join(known_mappers())}"
    raise MapperError(f"unknown mapper {name!r}; {hint}")


def imported_mapper(reference: str) -> MapperClass:
    """Return the mapper that ``module:Class`` names, also in the working directory; else MapperError."""
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute.isidentifier():
        raise MapperError(f"{reference!r} is not of the form module:Class")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        raise MapperError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    candidate = getattr(module, attribute, None)
    if candidate is None:
        raise MapperError(f"module {module_name!r} has no {attribute!r}")
    if not callable(candidate) or not callable(getattr(candidate, "find_mapping", None)):
        raise MapperError(f"{reference} is not a mapper: it needs a method find_mapping(mapspace, pricing)")
    mapper: MapperClass = candidate
    return mapper


def make_mapper(name: str, create: MapperClass, options: abc.Mapping[str, OptionValue]) -> Mapper:
    """Create a mapper with its options, integers also for numbers; MapperError for one that it refuses."""
    parameters = inspect.signature(create).parameters
    for option, value in options.items():
        if option not in parameters:
            known = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise MapperError(f"mapper {name!r} has no option {option!r}; {known}")
        default = parameters[option].default
        if isinstance(default, int | float) and not isinstance(value, int | type(default)):
            kind = "an integer" if isinstance(default, int) else "a number"
            raise MapperError(f"option {option!r} of mapper {name!r} is {kind}, not {value!r}")
    try:
        return create(**options)
    except (TypeError, ValueError) as error:
        raise MapperError(f"mapper {name!r}: {error}") from error
    except (Exception, SystemExit) as error:  # a user's class may fail in any way
        raise MapperError(f"mapper {name!r}: {type(error).__name__}: {error}") from error


def _registered_class(point: EntryPoint) -> MapperClass:
    try:
        return imported_mapper(f"{point.module}:{point.attr}")
    except MapperError as error:
        raise MapperError(f"mapper {point.name!r}: {error}") from error


def _registered() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINTS))
