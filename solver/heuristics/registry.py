"""Mappers by name: the built-in ones, those that installed packages register, and ``module:Class``."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from solver.heuristics.interface import Mapper, MapperError

ENTRY_POINTS = "tilewright.mappers"
"""Group of entry points under which packages register mappers."""

BUILT_IN = {
    "random": "solver.heuristics.random_search:RandomSearch",
    "linear-pruned": "solver.heuristics.linear_pruned:LinearPruned",
    "greedy": "solver.heuristics.greedy:GreedyDescent",
    "annealing": "solver.heuristics.annealing:Annealing",
    "log-relaxation": "solver.heuristics.log_relaxation:LogRelaxation",
    "smaug": "solver.heuristics.smaug.mapper:SmaugTiling",
}

OptionValue = int | float | str
MapperClass = Callable[..., Mapper]


def known_mappers() -> tuple[str, ...]:
    """Names of all mappers: the built-in ones in the order of `BUILT_IN`, then the registered ones."""
    registered = sorted(point.name for point in _registered() if point.name not in BUILT_IN)
    return (*BUILT_IN, *registered)


def named_mapper(name: str) -> MapperClass:
    """Return the class of the mapper called `name`.

    Raises
    ------
    MapperError
        If there is none of that name, or it cannot be imported.
    """
    if name in BUILT_IN:
        return imported_mapper(BUILT_IN[name])
    for point in _registered():
        if point.name == name:
            return _registered_class(point)
    close = difflib.get_close_matches(name, known_mappers(), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known_mappers())}"
    raise MapperError(f"unknown mapper {name!r}; {hint}")


def imported_mapper(reference: str) -> MapperClass:
    """Return the class that ``module:Class`` names; modules of the working directory are found as well.

    Raises
    ------
    MapperError
        If the text has another form, the import fails, or what it names is no mapper.
    """
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
        raise MapperError(f"{reference} is no mapper: it needs a method find_mapping(mapspace, pricing)")
    mapper: MapperClass = candidate
    return mapper


def make_mapper(name: str, create: MapperClass, options: Mapping[str, OptionValue]) -> Mapper:
    """Create a mapper with its options.

    Parameters
    ----------
    name
        For messages.
    create
        Its class, as of `named_mapper`.
    options
        Keyword arguments; integers do where a number is the default.

    Raises
    ------
    MapperError
        For an option that the class does not have, a value that it refuses, or any error of its own.
    """
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
