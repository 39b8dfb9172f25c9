"""The shortest path over the cuts of a cascade, whose edges are Einsums: A* over labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from model.objective import objective_value
from solver.fusion.alike import Likeness, Waiting, Window
from solver.fusion.amounts import UNLIMITED, FloatArray, worth
from solver.fusion.bodies import BodyBounds
from solver.fusion.copies import WaitingTiles
from solver.fusion.extensions import Extensions, Values
from solver.fusion.groups import MOST_WAITING
from solver.fusion.labels import Draft, Label, Queue, Room, Step, StoredTile, room_of
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered, remembered_by
from solver.fusion.space import Frame, Frames, FusionSpace
from solver.fusion.successors import Successors
from solver.fusion.trips import BodyLoops
from solver.fusion.ways import DECIDED_OUTSIDE, Given
from solver.search.stopping import Stopped

SHARED = (
    "bodies",
    "loops",
    "likeness",
    "successors",
    "ends",
    "_after",
    "states",
    "_sums",
    "_drafts",
    "extensions",
)
"""Tables that the searches for rests of paths have in common."""

FEW_LABELS = 16
"""Labels that are expanded of each search for the rest of a path before any other one is."""

PROMISING = 64
"""Bodies of some Einsums that one pass for a good path looks at."""

Limits = dict[str, int]
"""By objective, a value."""


class _Tail(NamedTuple):
    """The first part of a shortest path from a cut on, and the bound on the rest that it was found with."""

    label: Label | None
    rest: tuple[int, int]


State = tuple[int, Waiting]
"""A cut that no body spans, and what is stored there."""


@dataclass
class Counts:
    """Work of all searches for a path."""

    expanded: int = 0
    dominated: int = 0
    settled: int = 0  # the farthest cut
    open: int = 0


@dataclass
class PathSearch:
    """Searches for the shortest path by what is known of the edges."""

    space: FusionSpace
    pricer: EdgePricer
    objective: str
    counts: Counts = field(default_factory=Counts)
    longest: int | None = None
    """Einsums of a body; with a limit, there are no bodies in bodies, and some bounds are estimates."""
    most_labels: int = 100
    """Labels that are expanded of each search for the rest of a path; each call of `tighten` doubles it."""
    as_paid: bool = False
    """Whether Einsums whose visits differ cost what their best known nests do: then it is no bound."""
    by_spread: set[tuple[str, int, Frames]] = field(default_factory=set)
    """Tensors in memories that exist several times, with levels and open bodies, that are looked at spread by
    spread; of others the best nests of each Einsum count, whether or not they spread them alike."""

    @cached_property
    def bodies(self) -> BodyBounds:
        """Bounds on Einsums."""
        return BodyBounds(self.space, self.pricer, self.longest is not None)

    @cached_property
    def successors(self) -> Successors:
        """Extends paths by Einsums."""
        return Successors(self.space, self.pricer, self.bodies, self.as_paid, self.by_spread)

    @cached_property
    def loops(self) -> BodyLoops:
        """Which loops bodies may have."""
        return BodyLoops(self.space, lambda: self.pricer.clock.stop())

    @cached_property
    def extensions(self) -> Extensions:
        """The bodies that drafts may become."""
        return Extensions(self.space, self.bodies, self.loops)

    # Bounds on the rest of a path

    @cached_property
    def ends(self) -> dict[tuple[int, Waiting], tuple[int, int]]:
        """Least energy and cycles from each cut on that no body spans, `tighten` raises them."""
        total = 0, 0
        found: dict[tuple[int, Waiting], tuple[int, int]] = {}
        for at in reversed(range(len(self.space.einsums) + 1)):
            total = (
                _plus(total, self.bodies.lower((), at, Given((), 0)))
                if at < len(self.space.einsums)
                else total
            )
            found.update({(at, waiting): total for waiting in self.states(at)})
        return found

    @remembered
    def states(self, at: int) -> tuple[Waiting, ...]:
        """What may be stored at a cut that no body spans."""
        names = sorted(self.space.storable.intersection(self.space.crossing(at)))
        choices = [(0, *self.space.homes[name]) for name in names]
        is_told = self.space.copies.are_told_apart(names)
        if math.prod(map(len, choices)) > 1 << MOST_WAITING or not is_told:
            return (None,)
        homes = (zip(names, chosen, strict=True) for chosen in product(*choices))
        states = [frozenset((name, level) for name, level in own if level) for own in homes]
        return tuple(own for own in sorted(states, key=len) if self._fits(own))

    def _fits(self, waiting: frozenset[tuple[str, int]]) -> bool:
        """Whether memories have room for whole tensors."""
        tiles = list(self._whole(waiting))
        taken = {own: room_of(t for t in tiles if t.level == own) for own in {t.level for t in tiles}}
        return all(words <= self.bodies.room_of(level) for level, words in taken.items())

    def _waiting(self, label: Label) -> Waiting:
        """What is stored at the cut of a label without open bodies."""
        if self.states(label.at) == (None,):
            return None
        return frozenset((tile.tensor, tile.level) for tile in label.stored)

    @cached_property
    def _after(self) -> dict[tuple[int, int, Waiting], tuple[int, int]]:
        return {}

    def after(self, label: Label, cut: int) -> tuple[int, int]:
        """Least energy and cycles from a later cut on that no body spans, by what a label stores."""
        crossing = set(self.space.crossing(cut))
        pairs = frozenset((tile.tensor, tile.level) for tile in label.stored if tile.tensor in crossing)
        key, stored = (cut, label.at, pairs), {(tensor, level) for tensor, level in pairs if level}
        if key not in self._after:
            writers, undecided = self.space.cascade.writers, {t.tensor for t in label.stored if not t.level}
            known = {tile.tensor for tile in label.stored}
            decided = {t for t in crossing - undecided if writers[t] < label.at or t in known}
            found = [
                self.ends[cut, own]
                for own in self.states(cut)
                if own is None or {pair for pair in own if pair[0] in decided} == stored
            ]
            energies, cycles = zip(*found, strict=True) if found else ((UNLIMITED,),) * 2
            self._after[key] = min(energies), min(cycles)
        return self._after[key]

    def tighten(self, limit: int | None = None, width: int | None = None) -> None:
        """Raise the bounds on the rests of paths, from the last cut on, by shortest paths of their own.

        With each call more of their labels are looked at. With a `width`, as for `shortest`, these are no
        bounds.

        Parameters
        ----------
        limit
            Value of whole paths that is to be improved.
        """
        if width is None and not self._tails:
            most, self.most_labels = self.most_labels, FEW_LABELS
            self._tighten(0, limit)  # soon, there is a bound on whole paths that is better than a sum
            self.most_labels = most
        self.most_labels *= 2
        self._tighten(1, limit, width)

    def _tighten(self, cut: int, limit: int | None, width: int | None = None) -> None:
        """Raise the bounds on the rests of paths from the last cut to this one."""
        first = dict[object, State]()
        for at in reversed(range(cut, len(self.space.einsums))):
            window = self.likeness.window(at)
            key = window.number, self._rests(window)
            states = [(at, waiting) for waiting in self.states(at)]
            self._sources.update({own: first.setdefault((key, window.of(own[1])), own) for own in states})
            for state in states:
                self.pricer.heed()
                self._raise(state, limit, width)

    def _raise(self, state: State, limit: int | None, width: int | None) -> None:
        """Raise the bound on the rest of a path from a state on, by a search if that may tell more."""
        if self._sources[state] != state:
            self._copy(self._sources[state], state)
            return
        known = self._tails.get(state)
        if known is None or any(map(self._has_changed, known)):
            self._tails[state] = self._tail(*state, self._limits(state[0], limit), width)

    def _rests(self, window: Window) -> frozenset[object]:
        """The bounds on the rests from the cuts of a window on, but for what follows it."""
        base = self._after_window(window)
        cuts = range(window.start + 1, window.end + 1)
        states = ((cut, waiting) for cut in cuts for waiting in self.states(cut))
        return frozenset(
            (state[0] - window.start, window.of(state[1]), *_minus(self.ends[state], base))
            for state in states
        )

    def _after_window(self, window: Window) -> tuple[int, int]:
        return self.ends[window.end, self.states(window.end)[0]]

    def _copy(self, source: State, target: State) -> None:
        """Take over what is known of a state from one that differs in names alone."""
        before, after = (self._after_window(self.likeness.window(at)) for at, _ in (source, target))
        energy, cycles = _plus(_minus(self.ends[source], before), after)
        known = self.ends[target]
        self.ends[target] = max(known[0], energy), max(known[1], cycles)
        self._after.clear()

    @cached_property
    def likeness(self) -> Likeness:
        """What parts of the cascade differ in names alone."""
        return Likeness(self.space, self.pricer)

    @cached_property
    def _sources(self) -> dict[State, State]:
        return {}

    def path(self, limit: int | None, width: int | None = None) -> tuple[list[Step] | None, int | None]:
        """The best path by what is known, and its value; parameters and bounds are those of `shortest`."""
        rests: dict[State, list[Step] | None] = {}

        def is_known(label: Label) -> bool:
            is_open = bool(label.frames) or label.draft is not None
            if not label.at or is_open or self.objective == "edp" or self.space.is_intricate:
                return False
            if self.states(label.at) == (None,):
                return False
            state = label.at, self._waiting(label)
            rests[state] = rests[state] if state in rests else self._joined(state)
            return rests[state] is not None

        label, value = self.shortest(limit, width=width, ends=is_known)
        if label is None:
            return None, value
        rest = rests.get((label.at, self._waiting(label))) if label.at < len(self.space.einsums) else []
        return label.steps() + (rest or []), value

    def _joined(self, state: State) -> list[Step] | None:
        """The first parts of shortest paths, one after the other; None if one is not known."""
        found: list[Step] = []
        while state[0] < len(self.space.einsums):
            source = self._sources.get(state, state)
            (tail,) = self._tails.get(source, (_Tail(None, (0, 0)),))
            if tail.label is None:
                return None
            windows = self.likeness.window(source[0]), self.likeness.window(state[0])
            steps = (
                tail.label.steps() if source == state else self.likeness.moved(tail.label.steps(), *windows)
            )
            if steps is None:
                return None
            found += steps
            waiting = self._waiting(tail.label)
            if waiting is None:
                return None  # what is stored there is not known
            names = windows[1].named(windows[0].of(waiting))
            state = state[0] + tail.label.at - source[0], names
        return found

    def _limits(self, at: int, limit: int | None) -> Limits:
        """Energy and cycles that the rest of a path from a cut on must be below, if the whole one is to."""
        if limit is None or self.objective == "edp":
            return {}
        energy, cycles = self._before[at]
        before = energy if self.objective == "energy" else cycles
        return {self.objective: max(0, limit - before)}

    @cached_property
    def _before(self) -> list[tuple[int, int]]:
        """Least energy and cycles of all Einsums before each cut."""
        total, found = (0, 0), [(0, 0)]
        for place in range(len(self.space.einsums)):
            total = _plus(total, self.bodies.lower((), place, Given((), 0)))
            found.append(total)
        return found

    @cached_property
    def _tails(self) -> dict[tuple[int, Waiting], tuple[_Tail, ...]]:
        return {}

    def _has_changed(self, tail: _Tail) -> bool:
        """Whether some edge of a path, or the rest after it, has got dearer."""
        if tail.label is None:
            return not tail.rest[0]
        if self.ends[tail.label.at, self._waiting(tail.label)] != tail.rest:
            return True
        return any(self._is_dearer(step) for step in tail.label.steps())

    def _is_dearer(self, step: Step) -> bool:
        if step.kind is None or step.choice is None:
            return False
        chosen, known = step.choice, self.pricer.least(step.kind, as_paid=self.as_paid)
        return not any(own.room_words <= chosen.room_words and own[:2] == chosen[:2] for own in known)

    def _tail(self, at: int, waiting: Waiting, limits: Limits, width: int | None) -> tuple[_Tail, ...]:
        tails: list[_Tail] = []
        most = self.most_labels if width is None else None
        best = list(self.ends[at, waiting])
        for number, objective in enumerate(("energy", "latency")):
            if self.objective not in {objective, "edp"}:
                continue
            search = replace(self, objective=objective)
            search.__dict__.update({name: getattr(self, name) for name in SHARED})
            limit = limits.get(objective)
            label, value = search.shortest(limit, at, waiting, width, most, search._is_known)
            if label is None:
                none = value is None and width is None  # no path at all, or none that is of use
                least = UNLIMITED if limit is None else limit
                best[number] = max(best[number], least if none else value or 0)
                tails.append(_Tail(None, (int(none), 0)))
                continue
            best[number] = max(best[number], value or 0)
            tails.append(_Tail(label, self.ends[label.at, self._waiting(label)]))
        self.ends[at, waiting] = best[0], best[1]
        self._after.clear()
        return tuple(tails)

    def _is_known(self, label: Label) -> bool:
        """Whether the rest of a path is bounded as well as it may be."""
        if label.frames or label.draft is not None:
            return False
        if self.states(label.at) != (None,):
            return all(tile.level for tile in label.stored)
        crossing = self.space.storable.intersection(self.space.crossing(label.at))
        return crossing <= {tile.tensor for tile in label.stored}

    # Bounds on Einsums

    @cached_property
    def _sums(self) -> dict[tuple[object, ...], tuple[int, int]]:
        return {}

    @cached_property
    def _read(self) -> tuple[tuple[str, ...], ...]:
        """Per Einsum the tensors that it reads and that may be stored."""
        return tuple(
            tuple(sorted({t.tensor for t in tiles if not t.space.read_write} & self.space.storable))
            for tiles in self.space.tiles
        )

    def _given(self, label: Label, place: int) -> Given:
        """What a label decides for a later Einsum."""
        stored, writers = {tile.tensor: tile for tile in label.stored}, self.space.cascade.writers
        found = tuple(
            (name, stored[name].words if name in stored else DECIDED_OUTSIDE)
            for name in self._read[place]
            if writers[name] < label.at or name in stored
        )
        waiting = (tile for tile in label.stored if tile.level == 1 and self._waits(label, tile, place))
        # What may take one room with a tensor of this Einsum counts with that.
        near, family = self.space.copies.families[place], self.space.copies.family
        apart = (tile for tile in waiting if tile.tensor not in self._read[place])
        others = room_of(tile for tile in apart if family(tile.tensor) not in near)
        around = sum(len(frame.segments) for frame in label.frames if place < frame.end)
        levels = tuple((name, stored[name].level) for name, words in found if words > 0)
        levels = tuple((name, level) for name, level in levels if level > 1)
        return Given(found, others + sum(label.room.held[:around]), levels)

    def _waits(self, label: Label, tile: StoredTile, place: int) -> bool:
        """Whether a stored tile takes room while a later Einsum runs."""
        if tile.last >= place:
            return True
        depth = 0
        for frame in label.frames:
            depth += len(frame.segments)
            if tile.depth < depth and frame.start <= tile.last and place < frame.end:
                return True
        drafted = None if label.draft is None else label.draft.frame
        return drafted is not None and drafted.start <= tile.last and place < drafted.end

    def rest(self, label: Label, at: int) -> tuple[int, int]:
        """Least energy and cycles from an Einsum to the end, with a label's open bodies."""
        if not label.frames:
            return self.after(label, at)
        return _plus(self._until(label, at, len(label.frames)), self.after(label, label.frames[0].end))

    def _until(self, label: Label, at: int, bodies: int) -> tuple[int, int]:
        """Least energy and cycles from an Einsum to the end of so many open bodies."""
        frames = label.frames[:bodies]
        is_parted = at != label.at or label.parted[bodies - 1]
        peak = max(label.room.peaks[sum(len(frame.segments) for frame in frames) :])
        key = frames, at, label.at, label.stored, label.room.held, is_parted, peak
        if key not in self._sums:
            total = self._until(label, frames[-1].end, bodies - 1) if bodies > 1 else (0, 0)
            self._sums[key] = _plus(total, self._to_end(label, frames, at, is_parted, peak))
        return self._sums[key]

    def _to_end(self, label: Label, frames: Frames, at: int, is_parted: bool, peak: int) -> tuple[int, int]:
        """Least energy and cycles from an Einsum to the end of the innermost of some bodies."""
        given = [self._given(label, place) for place in range(at, frames[-1].end)]
        total = 0, 0
        for place, known in enumerate(given, at):
            total = _plus(total, self.bodies.lower(frames, place, known))
        if at == frames[-1].end or self.longest is not None or self.space.is_intricate:
            return total
        if frames[-1].flat:
            least = self.bodies.together(frames, at, given, peak)
        else:
            least = self.bodies.with_bodies(frames, at, given, is_parted)
        return max(total[0], least[0]), max(total[1], least[1])

    def rest_of(self, label: Label) -> tuple[int, int]:
        """Least energy and cycles from a label to the end."""
        if label.draft is None:
            return self.rest(label, label.at)
        end = label.draft.frame.end
        return _plus(self._drafts(label, label.draft), self.rest(label, end))

    @remembered_by(lambda _, label, draft: (label.frames, draft, label.stored, label.room.held))
    def _drafts(self, label: Label, draft: Draft) -> tuple[int, int]:
        """Least energy and cycles of the Einsums of a body that is drafted."""
        total = 0, 0
        for place in range(label.at, draft.frame.end):
            total = _plus(total, self._drafted(label, draft, place))
        return total

    def _drafted(self, label: Label, draft: Draft, place: int) -> tuple[int, int]:
        """Least energy and cycles of an Einsum in a body whose inner loops are not ordered yet."""
        frames, given = label.frames, self._given(label, place)
        if draft.left is None:
            # The frames may be flat once the body is there; now further loops are open.
            return self.bodies.lower((*frames, replace(draft.frame, flat=False)), place, given)
        within = (*frames, draft.frame)
        segment = tuple((number, count) for number, count in enumerate(draft.left) if count > 1)
        longer = replace(draft.frame, segments=(*draft.frame.segments, segment))
        return self.bodies.lower_by(
            within, place, given, self.space.cuts((*frames, longer), place), draft.left
        )

    # The search

    def shortest(
        self,
        limit: int | None,
        first: int = 0,
        waiting: Waiting = frozenset(),
        width: int | None = None,
        most: int | None = None,
        ends: Callable[[Label], bool] = lambda _: False,
    ) -> tuple[Label | None, int | None]:
        """The best path from a cut on by the costs and bounds that are known, and its value.

        Parameters
        ----------
        limit
            Value that it is below.
        first
            The Einsum after the cut.
        waiting
            What is stored there.
        width
            Most labels that are looked at of those with the same bodies, whatever their loops: then other
            paths may be better.
        most
            Labels that are expanded.
        ends
            Says whether a path need not go on, at a cut after the first one.

        Returns
        -------
        tuple
            No label if no path is below the limit. If the search has to stop, no label, and a bound on all
            paths that are left.

        Raises
        ------
        Stopped
            The search has to stop before there is a bound.
        """
        queue = Queue(limit, width)
        start = self.start(first, waiting)
        queue.push(start, self.value(start))
        last = None if most is None else self.counts.expanded + most
        try:
            return self._emptied(queue, last, lambda label: label.at > first and ends(label))
        except Stopped:
            return None, queue.least

    def _emptied(
        self, queue: Queue, last: int | None, ends: Callable[[Label], bool]
    ) -> tuple[Label | None, int | None]:
        """Expand labels, up to the `last` one, until the best one is complete or need not be."""
        while queue:
            value, label, is_rough = queue.pop()
            self.counts.open = len(queue)
            closer = self.value(label) if is_rough else value
            if closer > value:
                queue.push(label, closer)
                continue
            if label.at == len(self.space.einsums) or ends(label):
                return label, value
            if self.counts.expanded == last:
                return None, value
            self.pricer.heed()
            self.counts.expanded += 1
            self.counts.settled = max(self.counts.settled, label.at)
            if queue.passes(label, self._costs(label)):
                self._expand(queue, label, value)
        return None, None

    def _expand(self, queue: Queue, label: Label, least: int) -> None:
        # The first ones are those with few and short loops: of equal labels they come first.
        for following, rough in reversed(list(self._following(label, queue))):
            value = max(least, self.value(following) if rough is None else rough)
            if not queue.improves(value):
                continue
            if not queue.enter(following, self._costs(following)):
                self.counts.dominated += 1
                continue
            queue.push(following, value, is_rough=rough is not None and self._slides(following))

    def _slides(self, label: Label) -> bool:
        """Whether loops of a label's bodies may move windows: bounds on many bodies are weak then."""
        drafted = () if label.draft is None else (label.draft.frame,)
        return any(self.space.sliding(frame.start, frame.end) for frame in (*label.frames, *drafted))

    def start(self, first: int, waiting: Waiting) -> Label:
        """A path that has not begun, at a cut where some tensors wait."""
        if waiting is None:
            crossing = self.space.storable.intersection(self.space.crossing(first))
            waiting = frozenset((tensor, 0) for tensor in crossing)
        stored = tuple(self._whole(waiting))
        return Label(first, True, (), stored, Room(inner=((0,),) * len(self.space.rooms)), 0, 0)

    def _whole(self, waiting: WaitingTiles) -> Iterator[StoredTile]:
        """Yield whole tensors that wait."""
        users, roots = self.space.cascade.users, self.space.copies.roots(waiting)
        for tensor, level in sorted(waiting):
            words = self.space.stored_words(tensor, {}, level) if level else 0
            spread = None if self.space.stores.outside(level) else ()
            yield StoredTile(tensor, 0, words, users[tensor][-1], level, spread, roots.get(tensor, ""))

    def value(self, label: Label) -> int:
        """Least value of the objective of all paths that go on from a label."""
        energy, cycles = _plus((label.energy, label.cycles), self.rest_of(label))
        return objective_value(self.objective, energy, cycles)

    def _costs(self, label: Label) -> tuple[int, ...]:
        objective = self.objective
        energy = (label.energy,) if objective != "latency" else ()
        cycles = (label.cycles,) if objective != "energy" else ()
        inner = (words for peaks in label.room.inner for words in peaks)
        apart = (words for _, _, peaks in label.room.apart for words in peaks)
        return (*energy, *cycles, *label.room.held, *label.room.peaks, *inner, *apart)

    def _following(self, label: Label, queue: Queue) -> Iterator[tuple[Label, int | None]]:
        """Yield what follows a label, with a lower bound on its value if that is known."""
        if label.draft is not None:
            is_plain = not self.space.remainders and not self._slides(label)
            extend = self._extended if self.longest is None or not is_plain else self._all_at_once
            yield from extend(label, label.draft, queue)
            return
        if label.opening:
            yield replace(label, opening=False, parent=label, step=None), None
        following = self._opened(label) if label.opening else self.successors.of(label)
        for own in following:
            yield own, None

    def _opened(self, label: Label) -> Iterator[Label]:
        """Yield the label with one more body that begins here."""
        frames, at = label.frames, label.at
        if frames and frames[-1].flat:
            return
        most = frames[-1].end if frames else len(self.space.einsums)
        most -= bool(frames) and frames[-1].start == at  # a body whose only child is a body is one body
        most = most if self.longest is None else min(most, at + self.longest, self._storing(at))
        for end in (end for end in self.space.ends(at) if end <= most):
            for flat in (True, False) if end > at + 2 and self.longest is None else (True,):
                yield replace(label, draft=Draft(Frame(at, end, (), flat)), parent=label, step=None)

    @remembered
    def _storing(self, at: int) -> int:
        """How far a body from an Einsum on goes at each of whose cuts something may be stored.

        At others it may be split.
        """
        every = range(at + 1, len(self.space.einsums))
        stores = (not self.space.storable.isdisjoint(self.space.crossing(cut)) for cut in every)
        return next((cut for cut, may in zip(every, stores, strict=True) if not may), len(self.space.einsums))

    def _extended(self, label: Label, draft: Draft, queue: Queue) -> Iterator[tuple[Label, int | None]]:
        """Yield the label with the loops of its new body, from the outermost on; all trips come first."""
        given = tuple(self._given(label, place) for place in range(draft.frame.start, draft.frame.end))
        values = self._values(label, draft.frame.end)
        bodies = self.extensions.longer(label.frames, draft, given, values, queue.limit)
        every = worth(values(bodies.energies, bodies.cycles))
        for longer, left, value in zip(bodies.frames, bodies.left, every, strict=True):
            if queue.improves(value):
                yield self.with_body(label, longer, left), value

    def _all_at_once(self, label: Label, draft: Draft, queue: Queue) -> Iterator[tuple[Label, int | None]]:
        """Yield the label with those of the bodies with each rank looped once that promise most."""
        given = tuple(self._given(label, place) for place in range(draft.frame.start, draft.frame.end))
        bodies, energies, cycles = self.extensions.at_once(label.frames, draft.frame, given)
        values = self._values(label, draft.frame.end)(energies, cycles)
        best = np.argsort(values, kind="stable")[:PROMISING]
        for number, value in zip(best.tolist(), worth(values[best]), strict=True):
            is_allowed = self.loops.is_within_limits((*label.frames, bodies[number]))
            if is_allowed and queue.improves(value):
                yield self.with_body(label, bodies[number], (1,)), value

    def _values(self, label: Label, end: int) -> Values:
        """Tells values of a label with further costs up to an Einsum, and of what follows."""
        energy, cycles = map(float, _plus((label.energy, label.cycles), self.rest(label, end)))

        def values(energies: FloatArray, busy: FloatArray) -> FloatArray:
            found = np.ones_like(energies)
            if self.objective != "latency":
                found = found * (energies + energy)
            if self.objective != "energy":
                found = found * (busy + cycles)
            return found

        return values

    def with_body(self, label: Label, frame: Frame, left: tuple[int, ...]) -> Label:
        """The label with a body that is drafted, or opened once no loops are left."""
        if max(left) > 1:
            return replace(label, draft=Draft(frame, left))
        more = (0,) * len(frame.segments)
        inner = tuple(peaks + more for peaks in label.room.inner)
        apart = tuple((level, roots, peaks + more) for level, roots, peaks in label.room.apart)
        room = Room(label.room.held + more, label.room.peaks + more, inner, apart)
        parted = (*label.parted[:-1], True, False) if label.parted else (False,)
        return replace(label, frames=(*label.frames, frame), room=room, draft=None, parted=parted)


def _minus(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] - other[0], one[1] - other[1]


def _plus(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]
