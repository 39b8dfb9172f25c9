"""How much a spec may ask for before it is taken for a mistake or an attack."""

from __future__ import annotations

from dataclasses import dataclass

MEBI = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the text of a spec; the defaults lie far above what a real one needs.

    Parameters
    ----------
    file_bytes, total_bytes : int
        Size of one file; of all files read, each as often as it is included.
    nodes : int
        YAML nodes of all files together, with every alias written out.
    depth : int
        Nesting of lists and mappings.
    merge_sources : int
        Mappings that one merge key joins.
    integer_digits : int
        Digits of a number.
    scalar_characters : int
        Characters of a single value.
    includes, include_depth : int
        Files included in all; files that include one another in a row.
    template_bytes : int
        Size of what one template has to be compiled for: its statements and expressions.
    rendered_characters : int
        Text that templates may print, and the size of any value in one.
    template_work : int
        Characters and items of all values that templates make or compare.
    range_length : int
        Length of a ``range`` in a template.
    seconds : float
        Time for all templates.
    dimensions : int
        Dimensions of a problem, its dataspaces, the ranks of one.
    components : int
        Nodes of an architecture, branches included.
    attributes : int
        Attributes of a component, inherited ones included; variables.
    rules : int
        Factor rules on one dimension at one node.
    points : int
        Computes of a problem, words of a dataspace, instances of a component.
    """

    file_bytes: int = 8 * MEBI
    total_bytes: int = 32 * MEBI
    nodes: int = 1_000_000
    depth: int = 100
    merge_sources: int = 32
    integer_digits: int = 100
    scalar_characters: int = 10_000
    includes: int = 1_000
    include_depth: int = 20
    template_bytes: int = MEBI // 16
    rendered_characters: int = 2 * MEBI
    template_work: int = 16 * MEBI
    range_length: int = 100_000
    seconds: float = 3.0
    dimensions: int = 64
    components: int = 128
    attributes: int = 500
    rules: int = 16
    points: int = 10**24


DEFAULT_LIMITS = Limits()


def raised_by(name: str) -> str:
    """Return the hint for a spec that asks for more than a limit allows; `name` is a field of `Limits`."""
    return f"`--limit {name}=N` allows more"
