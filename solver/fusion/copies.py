"""Copies among the Einsums: what they move, and which tensors take one room with what they copy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from model.cost.copying import least_transfer
from model.fused.cascade import Cascade
from solver.fusion.edges import fanouts_outside, level_number
from solver.fusion.remembered import remembered
from solver.fusion.stores import Shares

WaitingTiles = Collection[tuple[str, int]]
"""Tensors that are stored as a whole, with the numbers of their memories; 0 for any memory, or none."""


@dataclass(frozen=True)
class Copies:
    """The copies of a cascade. Memories are numbered as in `EdgeKind`: 0 is the outermost one."""

    cascade: Cascade

    @cached_property
    def sources(self) -> dict[str, str]:
        """Per copy, what it is a copy of."""
        copies = (einsum for einsum in self.cascade.einsums if einsum.is_copy)
        return {target: einsum.copied for einsum in copies for target in sorted(einsum.written)}

    @cached_property
    def targets(self) -> dict[str, tuple[str, ...]]:
        """Per tensor, its copies."""
        sources = dict.fromkeys(self.sources.values())
        return {own: tuple(t for t, source in self.sources.items() if source == own) for own in sources}

    @cached_property
    def accessed(self) -> frozenset[str]:
        """Tensors that are copied, or copies."""
        return frozenset((*self.sources, *self.targets))

    @cached_property
    def _families(self) -> dict[str, str]:
        return {tensor: self._first_of(tensor, self.accessed) for tensor in self.accessed}

    def _first_of(self, tensor: str, among: Collection[str]) -> str:
        """What a tensor is a copy of, or a copy of its copy, as far as all are among some tensors."""
        while self.sources.get(tensor) in among:
            tensor = self.sources[tensor]
        return tensor

    def family(self, tensor: str) -> str | None:
        """What a tensor has in common with its copies, and theirs: the first of them. None without copies."""
        return self._families.get(tensor)

    @cached_property
    def families(self) -> tuple[frozenset[str], ...]:
        """Per Einsum, those of the tensors that it accesses."""
        found = (map(self.family, einsum.tensors) for einsum in self.cascade.einsums)
        return tuple(frozenset(family for family in own if family is not None) for own in found)

    def relatives(self, tensor: str) -> frozenset[str]:
        """Tensors of the same family, with the tensor itself."""
        return self._relatives.get(tensor, frozenset((tensor,)))

    @cached_property
    def _relatives(self) -> dict[str, frozenset[str]]:
        members: dict[str, set[str]] = {}
        for tensor, family in self._families.items():
            members.setdefault(family, set()).add(tensor)
        return {tensor: frozenset(members[family]) for tensor, family in self._families.items()}

    def may_lie(self, tensor: str, level: int) -> bool:
        """Whether a tensor may lie in a memory: copies alone do not say how it is spread over instances."""
        if not fanouts_outside(self.cascade.einsums[0].mapspace.architecture, level):
            return True
        return not all(self.cascade.einsums[place].is_copy for place in self.cascade.users[tensor])

    def transfer(self, place: int, levels: Mapping[str, int], shares: Shares = ()) -> tuple[int, int]:
        """Energy and cycles of a copy whose tensors are stored so, at the least where fanouts are left open.

        Parameters
        ----------
        shares
            Spatial loops that spread what it accesses, as far as they are known.
        """
        accesses = self.cascade.einsums[place].accesses
        return self._transfer(place, tuple(levels.get(access.tensor, 0) for access in accesses), shares)

    @remembered
    def _transfer(self, place: int, levels: tuple[int, ...], shares: Shares) -> tuple[int, int]:
        einsum = self.cascade.einsums[place]
        architecture = einsum.mapspace.architecture
        numbers = [level_number(architecture, level) if level else 0 for level in levels]
        names = (access.dataspace for access in einsum.accesses)
        known = {number: math.prod(count for _, count in loops) for number, loops in shares}
        every = {number for level in levels if level for number in fanouts_outside(architecture, level)}
        open_ = {number: architecture.fanouts[number].size for number in every - known.keys()}
        return least_transfer(einsum.mapspace, dict(zip(names, numbers, strict=True)), known, open_)

    # Room

    def roots(self, waiting: WaitingTiles) -> dict[str, str]:
        """Return per tensor that waits, of those with copies, the one whose room it takes."""
        levels, found = dict(waiting), dict[str, str]()
        for tensor in (own for own in levels if own in self.accessed):
            root = tensor
            while levels.get(self.sources.get(root, "")) in (0, levels[tensor]):
                root = self.sources[root]
            found[tensor] = root
        return found

    def are_told_apart(self, tensors: Collection[str]) -> bool:
        """Whether the levels of tensors that wait say which of them take one room.

        What copies of one source have in common, the source says, if it waits as well.
        """
        copied = self.accessed.intersection(tensors)
        firsts = {self._first_of(tensor, copied) for tensor in copied}
        return len(firsts) == len({self.family(tensor) for tensor in copied})

    def relations(self, tensors: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
        """Yield for each of some tensors the number of its source among them, and that of its family."""
        numbers = {tensor: number for number, tensor in enumerate(tensors)}
        firsts: dict[str, int] = {}
        for number, tensor in enumerate(tensors):
            family = self.family(tensor)
            first = None if family is None else firsts.setdefault(family, number)
            yield numbers.get(self.sources.get(tensor, "")), first
