"""Network files to a network with costs, or to shapes with the cost model that prices them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from model.assignment import CostedNetwork, Hardware, ShapedNetwork
from model.formats.assignment.shapes import read_shapes
from model.formats.assignment.tables import read_tables
from model.text.fields import as_mapping, check_keys
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.reader import read_files, unused_notes
from model.text.source import SpecError

SECTION, ARCHITECTURE = "network", "architecture"


@dataclass(frozen=True)
class LoadedAssignment:
    """What network files say: either a network with its costs, or shapes and the hardware.

    Parameters
    ----------
    network
        With explicit costs; None where a cost model prices it.
    shaped, hardware
        Layers by their shapes, and what prices them; None where costs are explicit.
    """

    network: CostedNetwork | None = None
    shaped: ShapedNetwork | None = None
    hardware: Hardware | None = None


def load_assignment(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    allow_include: Iterable[str | Path] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> LoadedAssignment:
    """Read network files.

    Parameters
    ----------
    paths
        YAML files and Jinja2 templates, joined by top-level key.
    variables
        Template variables.
    allow_include
        Further directories that templates and includes may read from.
    limits
        Bounds on the text that is read.

    Raises
    ------
    SpecError
        For every kind of bad input, with its place.
    """
    names: set[str] = set()
    top = read_files(paths, variables, limits, allow_include, names=names)
    unused = tuple(unused_notes(variables or {}, names))
    if ARCHITECTURE in top and SECTION in top:
        raise SpecError(
            "a network with costs of its own needs no architecture",
            top.key(ARCHITECTURE).span,
            hint="`--methods FILE` lets the mapper find what each method of FILE costs on it",
        )
    check_keys(top, (SECTION,), "a network file", (SECTION,))
    section = as_mapping(top.require(SECTION, "the file"), f"`{SECTION}`")
    if "cost_model" not in section:
        network = read_tables(section)
        return LoadedAssignment(network=replace(network, notes=(*network.notes, *unused)))
    shaped, hardware = read_shapes(section)
    return LoadedAssignment(shaped=replace(shaped, notes=(*shaped.notes, *unused)), hardware=hardware)
