"""How much a spec may ask for before it is taken for a mistake or an attack."""

from __future__ import annotations

from dataclasses import dataclass

MEBI = 2**20
LONGEST_CHAIN = 50
"""Attributes, variables or sets of which each needs the next one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a spec may ask for; the defaults lie far above what a real one needs."""

    file_bytes: int = 8 * MEBI
    total_bytes: int = 32 * MEBI  # of all files, each as often as it is included
    nodes: int = 1_000_000  # YAML values of all files, with every alias written out
    depth: int = 100  # nesting of lists and mappings
    merge_sources: int = 32  # mappings that one merge key joins
    integer_digits: int = 100  # digits of any number
    scalar_characters: int = 10_000
    includes: int = 1_000
    include_depth: int = 20  # files that include one another in a row
    rendered_characters: int = 8 * MEBI  # of all templates
    template_memory: int = 256 * MEBI  # bytes, on top of what the process has
    seconds: float = 2.0  # processor time of all templates, with the files that they include
    dimensions: int = 64  # of a problem; its dataspaces; the ranks of one
    components: int = 128  # nodes of an architecture, branches included
    attributes: int = 500  # of a component, inherited ones included; variables
    rules: int = 16  # on the factors of one dimension at one node
    points: int = 10**24  # computes of a problem, words of a dataspace, instances of a component


DEFAULT_LIMITS = Limits()


def raised_by(name: str) -> str:
    """Return the hint for a spec that asks for more than a limit allows; `name` is a field of `Limits`."""
    return f"`--limit {name}=N` allows more"
