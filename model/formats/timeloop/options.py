"""How specs are read: options on files, on Timeloop's specs, on AccelForge's, and on the mapspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.counting import ACCELFORGE, EXACT, Counting, rule_of
from model.extents import ANY, PERFECT, Factors
from model.formats.timeloop.overrides import AttributeSetting
from model.mapspace import Mapspace
from model.note import Note
from model.text.limits import Limits
from model.text.reader import read_files
from model.text.source import MappingNode, Span, SpecError, TakeNote


@dataclass(frozen=True)
class FileOptions:
    """How files are read, whatever they hold.

    Parameters
    ----------
    limits
        On their sizes, and on the work of templates.
    allow_include
        Further directories that templates and includes may read from.
    settings
        Attributes with other values than the files give.
    """

    limits: Limits = field(default_factory=Limits)
    allow_include: tuple[Path, ...] = ()
    settings: tuple[AttributeSetting, ...] = ()

    def read(
        self,
        paths: Iterable[str | Path],
        variables: Mapping[str, object] | None = None,
        names: set[str] | None = None,
        levels_above: int = 0,
        notes: list[Note] | None = None,
    ) -> MappingNode:
        """Read spec files and join them, within these limits and from these directories; see `read_files`."""
        return read_files(paths, variables, self.limits, self.allow_include, levels_above, names, notes)


@dataclass(frozen=True)
class TimeloopOptions:
    """What is particular to specs of Timeloop, and to mappings in its form.

    Parameters
    ----------
    padding
        Whether spatial permutations are completed as Timeloop's front end does.
    mapping_file
        A file whose ``mapping`` takes the place of any that the others give.
    require_mapping, skip_mapping
        Whether specs without the key ``mapping`` are refused, and whether what is under it is ignored.
    """

    padding: bool = False
    mapping_file: Path | None = None
    require_mapping: bool = False
    skip_mapping: bool = False


@dataclass(frozen=True)
class AccelForgeOptions:
    """What is particular to architectures and workloads of AccelForge.

    Parameters
    ----------
    costs
        A table of what components cost.
    stored_outside
        Whether the outermost memory keeps all that it may.
    any_order
        Whether memories may lie in any order where the architecture says so.
    einsum
        The Einsum of a workload that matters; None: all.
    kept
        What a mapping of that Einsum keeps, by level.
    """

    costs: Path | None = None
    stored_outside: bool = False
    any_order: bool = False
    einsum: str | None = None
    kept: tuple[tuple[str, frozenset[str]], ...] = ()


@dataclass(frozen=True)
class LoadOptions:
    """How specs are read, and which mapspace is made of them.

    Parameters
    ----------
    files, timeloop, accelforge
        Options on one kind of input.
    objectives
        What is minimised; for latency alone energies may be unknown. None: what the spec says.
    counting
        The rule by which words are counted; None: AccelForge's on its architectures, exactly on all others.
    factors
        Which factors loops may have; None: as the spec says, see `free_factors`.
    has_places
        Whether all memories may have several places; None: those that say so, and by AccelForge's rule on its
        architectures all of them.
    ignore_sparse, model_sparse
        Whether sparse features are left out, and whether they are read; else they are refused.
    refuse_infeasible
        Whether constraints that conflict plainly are refused; otherwise the mapspace is empty.
    refuse_unsearchable, all_rules
        Whether what no search knows is refused, and whether the search knows all user-defined constraints.
    problems_only
        Whether files with problems or workloads have nothing else that counts: their designs are left out.
    """

    files: FileOptions = field(default_factory=FileOptions)
    timeloop: TimeloopOptions = field(default_factory=TimeloopOptions)
    accelforge: AccelForgeOptions = field(default_factory=AccelForgeOptions)
    objectives: tuple[str, ...] | None = None
    counting: Counting | None = None
    factors: Factors | None = None
    has_places: bool | None = None
    ignore_sparse: bool = False
    model_sparse: bool = False
    refuse_infeasible: bool = True
    refuse_unsearchable: bool = True
    all_rules: bool = False
    problems_only: bool = False

    @property
    def rule(self) -> Counting:
        """The rule by which words are counted."""
        return self.counting or EXACT

    def on_arch(self) -> LoadOptions:
        """Return the options on an architecture of AccelForge: by default words are counted as it does."""
        counting = self.counting or ACCELFORGE
        has_places = rule_of(counting).has_places if self.has_places is None else self.has_places
        return replace(self, counting=counting, has_places=has_places)

    @property
    def reads_sparse(self) -> bool:
        """Whether sparse features are read."""
        return self.model_sparse and not self.ignore_sparse

    def check_searched(self, mapspace: Mapspace, span: Span | None = None) -> None:
        """Raise a SpecError for what no search knows of AccelForge's rule, if the spec is to be searched."""
        if rule_of(self.rule).is_general or not self.refuse_unsearchable:
            return
        try:
            mapspace.check_searchable(simple_rules=True, by_bounds=True)
        except ValueError as error:
            raise SpecError(str(error), span, hint="--counting exact") from None

    def free_factors(self, obstacle: str | None, note: TakeNote) -> Factors:
        """Return which factors loops may have where neither the options nor the spec say so.

        They are any, but perfect where an `obstacle` excludes remainders; a note names it before searches.
        """
        if obstacle is None:
            return ANY
        if not self.timeloop.require_mapping:
            note(Note("factors are divisors only: {}", (obstacle,)))
        return PERFECT

    def check_factors(self, kind: Factors, span: Span | None = None) -> Factors:
        """Return the kind of factors; `SpecError` for remainders that a search would count wrong."""
        if kind == ANY and not rule_of(self.rule).remainders and self.refuse_unsearchable:
            hint = "--counting exact, or --factors perfect"
            raise SpecError(f"the rule `{self.rule}` does not support remainders", span, hint=hint)
        return kind
