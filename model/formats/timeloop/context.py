"""What the readers of constraints and mappings need to know about the rest of the spec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from model.formats.timeloop.problem import LoadedProblem
from model.formats.timeloop.tree import Leaf, Tree, values_of
from model.problem import Problem
from model.text.fields import Names
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.source import Span, TakeNote

INSTANCE = "spec.problem.instance"
"""What expressions call the problem's instance, to ask how many keys it has."""


@dataclass(frozen=True)
class Bounds:
    """What factors are checked against.

    Parameters
    ----------
    bound, spans
        The problem's bounds by dimension, and their places.
    """

    bound: dict[str, int]
    spans: dict[str, Span]


@dataclass(frozen=True)
class Context:
    """A problem on a flattened architecture, and where notes go.

    Parameters
    ----------
    loaded
        The problem with the places of its bounds.
    tree
        The flattened architecture.
    variables
        Top-level variables, for expressions.
    note
        Takes what the user should know.
    timeloop_padding
        Whether an incomplete spatial permutation is completed as Timeloop's front end does.
    limits
        How much the spec may ask for.
    idle_levels
        Whether a level may keep nothing, as it may where the problem is one of a whole network.
    """

    loaded: LoadedProblem
    tree: Tree
    variables: Names
    note: TakeNote
    timeloop_padding: bool = False
    limits: Limits = DEFAULT_LIMITS
    idle_levels: bool = False

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.loaded.problem

    @cached_property
    def bounds(self) -> Bounds:
        """The problem's bounds with their places."""
        return Bounds(self.problem.bound, self.loaded.bound_spans)

    @cached_property
    def dataspaces(self) -> tuple[str, ...]:
        """Names of the dataspaces."""
        return tuple(space.name for space in self.problem.dataspaces)

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """Named leaves of the tree."""
        return {leaf.name: leaf for leaf in self.tree.leaves if leaf.name}

    @cached_property
    def _nodes(self) -> Names:
        """What expressions see of the nodes, by name."""
        return {name: leaf.as_value() for name, leaf in self.leaves.items()}

    def names_at(self, leaf: Leaf) -> Names:
        """Names that expressions in the constraints of a node may use.

        Its attributes come before the variables, and these before the nodes. Attributes also go by
        ``attributes.NAME``, and `INSTANCE` is the list of the instance's keys.
        """
        attributes = values_of(leaf.attributes)
        dotted = {f"attributes.{name}": value for name, value in attributes.items()}
        instance = {INSTANCE: list(self.loaded.instance_keys)}
        return {**self._nodes, **self.variables, **attributes, **dotted, **instance}
