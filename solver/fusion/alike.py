"""Parts of a cascade that differ in names alone: what holds of one holds of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from solver.fusion.edges import Choice, EdgeKind
from solver.fusion.labels import Step
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import Frame, FusionSpace

Waiting = frozenset[tuple[str, int]] | None
"""Tensors that are stored on chip where no body spans the cut, with the numbers of their memories.

None if they might all be, anywhere, without room.
"""


@dataclass(frozen=True)
class Window:
    """The Einsums from a cut on that bodies which begin there may reach.

    Parameters
    ----------
    number
        What windows have in common that differ in names alone.
    end
        The cut that no such body goes beyond.
    tensors
        That its Einsums access, or that wait meanwhile: of windows with one number, one by one alike.
    """

    number: int
    start: int
    end: int
    tensors: tuple[str, ...]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {tensor: number for number, tensor in enumerate(self.tensors)}

    def of(self, waiting: Waiting) -> frozenset[tuple[int, int]] | None:
        """Numbers of tensors, and their levels."""
        return None if waiting is None else frozenset((self._positions[name], n) for name, n in waiting)

    def named(self, numbers: frozenset[tuple[int, int]] | None) -> Waiting:
        """The tensors of some numbers."""
        return None if numbers is None else frozenset((self.tensors[own], n) for own, n in numbers)


@dataclass(frozen=True)
class Likeness:
    """Finds windows that differ in names alone, and carries paths from one to another."""

    space: FusionSpace
    pricer: EdgePricer

    @cached_property
    def _numbers(self) -> dict[object, int]:
        return {}

    @remembered
    def window(self, at: int) -> Window:
        """The window that begins at a cut."""
        end = max(self.space.ends(at), default=at + 1)
        tensors = tuple(self._tensors(at, end))
        structure = tuple(self._structure(at, end, tensors))
        number = self._numbers.setdefault(structure, len(self._numbers))
        return Window(number, at, end, tensors)

    def _tensors(self, at: int, end: int) -> Iterator[str]:
        """Yield the tensors by their first access, then those that wait, each once."""
        accessed = (access.tensor for einsum in self.space.einsums[at:end] for access in einsum.accesses)
        waiting = {name for cut in range(at, end + 1) for name in self.space.crossing(cut)}
        known = list(dict.fromkeys(accessed))
        yield from known
        yield from sorted(waiting - set(known), key=lambda name: (self._role(name, at, end), name))

    def _role(self, tensor: str, at: int, end: int) -> tuple[object, ...]:
        """What matters of a tensor besides who accesses it."""
        cascade = self.space.cascade
        if tensor not in cascade.intermediates:
            return False, 0, 0, 0, tensor in cascade.persistent
        users = cascade.users[tensor]
        first, last = max(users[0], at - 1), min(users[-1], end)
        return (
            tensor in self.space.storable,
            self.space.stored_words(tensor, {}),
            first - at,
            last - at,
            False,
        )

    def _structure(self, at: int, end: int, tensors: Sequence[str]) -> Iterator[object]:
        if self.space.is_intricate:
            yield at  # spreads and levels are not compared
        yield tuple(self._role(tensor, at, end) for tensor in tensors)
        yield tuple(self.space.copies.relations(tensors))
        numbers = {tensor: number for number, tensor in enumerate(tensors)}
        ranks: dict[tuple[str, str], int] = {}
        for place in range(at, end):
            einsum = self.space.einsums[place]
            dims = {dim: number for number, dim in enumerate(einsum.problem.dims)}
            accesses = {access.dataspace: access for access in einsum.accesses}
            yield self.pricer.alike[place], einsum.times, einsum.is_copy, place in self.space.followers
            for tile in self.space.tiles[place]:
                access = accesses[tile.space.name]
                named = [ranks.setdefault((tile.tensor, rank), len(ranks)) for rank in access.ranks]
                yield numbers[tile.tensor], tuple(named), access.offsets
            yield frozenset(
                (dims[dim], body.start - at, body.stop - at)
                for dim, bodies in self.space.looped(place).items()
                for body in bodies
            )

    def moved(self, steps: Sequence[Step], source: Window, target: Window) -> list[Step] | None:
        """The steps of a path in another window; None if an edge is not known to cost the same there."""
        found: list[Step] = []
        for step in steps:
            own = self._moved(step, source, target)
            if own is None:
                return None
            found.append(own)
        return found

    def _moved(self, step: Step, source: Window, target: Window) -> Step | None:
        shift = target.start - source.start
        names = dict(zip(source.tensors, target.tensors, strict=True))
        place = step.place + shift
        spaces = {
            own.space.name: other.space.name
            for own, other in zip(self.space.tiles[step.place], self.space.tiles[place], strict=True)
        }
        users = self.space.cascade.users
        if any(own.root and own.root not in names for own in step.stores):
            return None
        moved = step._replace(
            place=place,
            frames=tuple(Frame(f.start + shift, f.end + shift, f.segments, f.flat) for f in step.frames),
            stores=tuple(
                own._replace(
                    tensor=names[own.tensor],
                    last=users[names[own.tensor]][-1],
                    root=names[own.root] if own.root else "",
                )
                for own in step.stores
            ),
            held=tuple((spaces[name], depth) for name, depth in step.held),
        )
        if step.kind is None or step.choice is None:
            return moved
        own, other = (self.space.einsums[number].problem.dims for number in (step.place, place))
        kind = step.kind.renamed(place, dict(zip(own, other, strict=True)), spaces)
        choice = self._choice(kind, step.choice)
        return None if choice is None else moved._replace(kind=kind, choice=choice)

    def _choice(self, kind: EdgeKind, known: Choice) -> Choice | None:
        choices = (own for as_paid in (False, True) for own in self.pricer.least(kind, as_paid=as_paid))
        return next((own for own in choices if own == known), None)
