"""Which dataspaces each storage level keeps and bypasses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from model.formats.timeloop.clauses import ADDRESS_KEYS, Clause, of
from model.formats.timeloop.context import Context
from model.formats.timeloop.tree import Leaf, Parallel
from model.mapspace import KeepRules, ParallelGroup
from model.text.fields import given, means_all, name_list, source_ref
from model.text.keys import check_keys
from model.text.notes import note_at
from model.text.source import MappingNode, Span, SpecError
from model.wording import listing

_KEYS = ("keep", "bypass", "keep_only", "bypass_only", "no_coalesce")


@dataclass
class Keeping:
    """What one level keeps and bypasses; it is filled while constraints are read.

    Parameters
    ----------
    leaf
        A storage level, or ``!Nothing``.
    keep, bypass, no_coalesce
        Names of dataspaces with the places that say so.
    coalesces_nothing
        Whether ``no_coalesce`` is ``*``: all that the level has, whatever that is.
    settled
        What a ``!Parallel`` has to settle, whatever else is asked for.
    """

    leaf: Leaf
    keep: dict[str, Span] = field(default_factory=dict)
    bypass: dict[str, Span] = field(default_factory=dict)
    no_coalesce: dict[str, Span] = field(default_factory=dict)
    coalesces_nothing: bool = False
    settled: set[str] = field(default_factory=set)

    def rules(self) -> KeepRules:
        """Return the rules of the canonical mapspace."""
        places = {name: source_ref(span) for name, span in (self.keep | self.bypass).items()}
        return KeepRules(
            keep=frozenset(self.keep),
            bypass=frozenset(self.bypass),
            source=next(iter(places.values()), None),
            sources=tuple(places.items()),
            settled=frozenset(self.settled),
        )

    def may_hold(self, name: str) -> bool:
        """Whether the level may keep a dataspace, and not only pass on what others above it keep."""
        return name not in self.bypass and name not in self.no_coalesce

    def require(self, verb: str, name: str, span: Span) -> None:
        """Add a dataspace that must be kept or bypassed.

        Parameters
        ----------
        verb
            ``keep`` or ``bypass``.
        name, span
            The dataspace, and where that is asked for; the first place stays.

        Raises
        ------
        SpecError
            The opposite is asked for as well.
        """
        mine, other = (self.keep, self.bypass) if verb == "keep" else (self.bypass, self.keep)
        if name in other:
            opposite = "bypass" if verb == "keep" else "keep"
            message = f"`{self.leaf.name or '!Nothing'}` cannot both keep and bypass `{name}`"
            raise SpecError(message, span, ((other[name], f"{opposite} is asked for here"),))
        mine.setdefault(name, span)


def read_keeping(clauses: Sequence[Clause], leaf: Leaf, context: Context) -> Keeping:
    """Read the ``dataspace`` constraints of one leaf.

    Raises
    ------
    SpecError
        An unknown key or dataspace, or one that is to be both kept and bypassed.
    """
    keeping = Keeping(leaf)
    for node in of(clauses, leaf, "dataspace"):
        check_keys(node, (*_KEYS, *ADDRESS_KEYS), "a dataspace constraint")
        for verb, opposite in (("keep", "bypass"), ("bypass", "keep")):
            _read_verb(node, verb, keeping, context)
            _read_only(node, verb, opposite, keeping, context)
        flagged = given(node, "no_coalesce")
        if flagged is not None:
            keeping.no_coalesce |= name_list(flagged, context.dataspaces, "dataspace")
            keeping.coalesces_nothing |= means_all(flagged)
    return keeping


def _read_verb(node: MappingNode, verb: str, keeping: Keeping, context: Context) -> None:
    value = given(node, verb)
    if value is None:
        return
    for name, span in name_list(value, context.dataspaces, "dataspace").items():
        keeping.require(verb, name, span)


def _read_only(node: MappingNode, verb: str, opposite: str, keeping: Keeping, context: Context) -> None:
    """Read ``keep_only`` or ``bypass_only``: the dataspaces that are not listed do the opposite."""
    key = f"{verb}_only"
    value = given(node, key)
    if value is None:
        return
    listed = name_list(value, context.dataspaces, "dataspace")
    for name in context.dataspaces:
        keeping.require(verb if name in listed else opposite, name, listed.get(name, node.key(key).span))


def settle_parallel(
    parallel: Parallel, keepings: dict[Leaf, Keeping], context: Context
) -> ParallelGroup | None:
    """Bypass in each branch what another branch keeps.

    Raises
    ------
    SpecError
        A dataspace is kept in two branches, or in none though a branch has several levels.
    """
    home: dict[str, tuple[int, Span]] = {}
    for place, branch in enumerate(parallel.branches):
        kept = _kept(branch, keepings)
        twice = next((name for name in kept if name in home), None)
        if twice is not None:
            related = ((home[twice][1], "the other branch keeps it here"),)
            raise SpecError(f"`{twice}` is kept in two branches of one `!Parallel`", kept[twice], related)
        home |= {name: (place, span) for name, span in kept.items()}
    for place, branch in enumerate(parallel.branches):
        others = {name: span for name, (owner, span) in home.items() if owner != place}
        _bypass(branch, others, keepings)
    return _group(parallel, home, keepings, context)


def _kept(branch: Iterable[Leaf], keepings: dict[Leaf, Keeping]) -> dict[str, Span]:
    kept: dict[str, Span] = {}
    for leaf in branch:
        kept = {**keepings[leaf].keep, **kept} if leaf in keepings else kept
    return kept


def _bypass(branch: Iterable[Leaf], names: dict[str, Span], keepings: dict[Leaf, Keeping]) -> None:
    for leaf in branch:
        if leaf.role != "storage":
            continue
        for name, span in names.items():
            keepings[leaf].require("bypass", name, span)


def _group(
    parallel: Parallel, home: dict[str, tuple[int, Span]], keepings: dict[Leaf, Keeping], context: Context
) -> ParallelGroup | None:
    storages = [[leaf for leaf in branch if leaf.role == "storage"] for branch in parallel.branches]
    inside = [leaf for levels in storages for leaf in levels]
    skips = [leaf for branch in parallel.branches for leaf in branch if leaf.role == "nothing"]
    outside = {name for name in context.dataspaces if all(name in keepings[leaf].bypass for leaf in inside)}
    homeless = [name for name in context.dataspaces if name not in home]
    lost = [name for name in homeless if name in outside and not parallel.nested and not skips]
    barred = [name for name in homeless if any(name in keepings[leaf].bypass for leaf in skips)]
    choice = parallel.nested or any(len(levels) > 1 for levels in storages)
    unsaid = [name for name in homeless if choice and name not in outside]
    if lost or barred or unsaid:
        hint = "keep it in one branch, or in a `!Nothing` branch if it passes by all of them"
        if unsaid:
            hint += "; only where every branch is a single level is this left to the search"
        shown = listing(dict.fromkeys((*lost, *barred, *unsaid)))
        raise SpecError(f"no branch of this `!Parallel` keeps {shown}", parallel.span, hint=hint)
    for leaf in inside if choice else ():
        keepings[leaf].settled.update(context.dataspaces)
    if choice or not inside:
        return None
    levels = [leaf for leaf in context.tree.leaves if leaf.role == "storage"]
    return ParallelGroup(tuple(levels.index(leaf) for leaf in inside), may_skip=bool(skips))


def settle_outermost(outermost: Keeping, context: Context) -> None:
    """Make the outermost level keep what it does not bypass, as the backing store of all data."""
    for name, span in outermost.bypass.items():
        sentence = (
            "`{}` is the outermost level and bypasses `{}`: "
            "bringing it to the first level that keeps it costs nothing"
        )
        context.note(note_at(span, sentence, outermost.leaf.name, name))
    for name in context.dataspaces:
        if name not in outermost.bypass:
            outermost.keep.setdefault(name, outermost.leaf.span)


def check_homes(keepings: Sequence[Keeping], context: Context) -> None:
    """Check that some level may keep each dataspace, and note levels that keep nothing.

    Raises
    ------
    SpecError
        No level keeps a dataspace.
    """
    for keeping in () if context.idle_levels else keepings:
        if set(keeping.bypass) == set(context.dataspaces):
            sentence = "`{}` keeps nothing: all data passes by"
            context.note(note_at(keeping.leaf.span, sentence, keeping.leaf.name))
    for name in context.dataspaces:
        if any(keeping.may_hold(name) for keeping in keepings):
            continue
        passing = [keeping for keeping in keepings if name not in keeping.bypass]
        bypassing = [keeping for keeping in keepings if name in keeping.bypass]
        places = [(k.no_coalesce[name], f"`{k.leaf.name}` only passes it on: no_coalesce") for k in passing]
        places += [(k.bypass[name], f"`{k.leaf.name}` bypasses it") for k in bypassing]
        hint = "a level with no_coalesce needs one above it that keeps the dataspace" if passing else None
        raise SpecError(f"no level keeps `{name}`", places[0][0], tuple(places[1:]), hint)


def note_outermost_passing(keepings: Sequence[Keeping], context: Context) -> None:
    """Note the levels that count as bypassing, as nothing above them keeps what they only pass on."""
    for name in context.dataspaces:
        for keeping in _passing_on(name, keepings):
            sentence = "no level above `{}` keeps `{}`: with no_coalesce it counts as bypassing it"
            context.note(note_at(keeping.no_coalesce[name], sentence, keeping.leaf.name, name))


def _passing_on(name: str, keepings: Iterable[Keeping]) -> Iterator[Keeping]:
    """Yield the levels that only pass a dataspace on, out of those above the first that may hold it."""
    above = takewhile(lambda keeping: not keeping.may_hold(name), keepings)
    return (keeping for keeping in above if name not in keeping.bypass)
