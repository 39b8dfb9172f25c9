"""What the readers of constraints and mappings need to know about the rest of the spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from model.counting import EXACT, Counting
from model.extents import PERFECT, Extents, Factors
from model.formats.timeloop.problem import LoadedProblem
from model.formats.timeloop.tree import ArchLeaf, Tree, values_of
from model.problem import Problem
from model.text.fields import Names
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.source import Span, SpecError, TakeNote, note_at
from model.wording import did_you_mean, listing

OUTPUT_CHANNELS = {"M": "K", "K": "M"}
"""Names of output channels: Timeloop's exercises say M, the shipped layers say K."""

INSTANCE = "spec.problem.instance"
"""What expressions call the problem's instance, to ask how many keys it has."""


@dataclass(frozen=True)
class Context:
    """A problem on a flattened architecture, and where notes go."""

    loaded: LoadedProblem
    tree: Tree
    variables: Names
    note: TakeNote
    # Whether an incomplete spatial permutation is completed as Timeloop's front end does
    timeloop_padding: bool = False
    counting: Counting = EXACT
    factors: Factors = PERFECT
    limits: Limits = DEFAULT_LIMITS
    # Whether a level may keep nothing, as it may where the problem is one of a whole network
    idle_levels: bool = False
    # Whether sparse optimizations are read, so that it matters how metadata is stored
    optimizes_sparse: bool = False
    # Whether the architecture has an older form: what Timeloop's C++ programs pass over is passed over then
    is_older: bool = False
    # Dimensions that constraints name and the problem lacks, filled by `is_dimension`
    lacking: dict[str, Span] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.loaded.problem

    def extents(self, dim: str) -> Extents:
        """Return the extents that tiles of a dimension may have."""
        return Extents(self.problem.bound[dim], self.factors)

    @cached_property
    def dataspaces(self) -> tuple[str, ...]:
        """Names of the dataspaces."""
        return tuple(space.name for space in self.problem.dataspaces)

    @cached_property
    def leaves(self) -> dict[str, ArchLeaf]:
        """Named leaves of the tree."""
        return {leaf.name: leaf for leaf in self.tree.leaves if leaf.name}

    @cached_property
    def _nodes(self) -> Names:
        """What expressions see of the nodes, by name."""
        return {name: leaf.as_value() for name, leaf in self.leaves.items()}

    def is_dimension(self, name: str, span: Span, asks_for_loop: bool = False) -> bool:
        """Whether the problem has a dimension; one of another kind of layer is remembered for a note."""
        if name in self.problem.dims:
            return True
        folded = {dim.casefold() for dim in self.problem.dims}
        if asks_for_loop or name.casefold() in folded or folded.issuperset(name.casefold()):
            known = f"the problem has {listing(self.problem.dims)}"
            hint = self._meant(name) or known
            raise SpecError(f"unknown dimension `{name}`", span, hint=hint)
        self.lacking.setdefault(name, span)
        return False

    def note_lacking(self) -> None:
        """Note the dimensions that constraints name and the problem lacks."""
        if self.lacking:
            names = listing(self.lacking)
            hints = "".join(f"; `{name}`: {hint}" for name in self.lacking if (hint := self._meant(name)))
            them = (
                "dimension {}; constraints on it"
                if len(self.lacking) == 1
                else "dimensions {}; constraints on them"
            )
            sentence = f"the problem has no {them} have no effect" + "{}"
            self.note(note_at(next(iter(self.lacking.values())), sentence, names, hints))

    def _meant(self, name: str) -> str | None:
        """Return a suggestion for an unknown dimension, None if no name is similar."""
        other = OUTPUT_CHANNELS.get(name)
        if other in self.problem.dims:
            return (
                f"did you mean `{other}`? Some layers call the output channels `{name}`, this one `{other}`"
            )
        return did_you_mean(name, self.problem.dims)

    def names_at(self, leaf: ArchLeaf) -> Names:
        """Names in the constraints of a node: its attributes, then the variables, then the nodes."""
        attributes = values_of(leaf.attributes)
        dotted = {f"attributes.{name}": value for name, value in attributes.items()}
        instance = {INSTANCE: list(self.loaded.instance_keys)}
        return {**self._nodes, **self.variables, **attributes, **dotted, **instance}
