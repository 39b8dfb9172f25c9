"""Limits on the search for fused mappings: those of the user, and those of the search itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.extents import PERFECT
from model.fused.cascade import Cascade, CascadeEinsum
from model.orders import check_orders
from model.wording import listing


class NotSearchedError(ValueError):
    """A cascade has what the search for fused mappings does not know."""


class LimitError(ValueError):
    """A limit names what is not there; `field` is its name in `FusionLimits`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class FusionLimits:
    """Limits on the search for fused mappings.

    Parameters
    ----------
    max_loops, max_loops_per_rank
        Most shared loops above an Einsum, in total and over one of its ranks; None: no limit.
    no_fuse
        Tensors that must go through the outermost memory.
    memories
        On-chip memories that may store tensors between Einsums; None: all suitable ones.
    equal_parts
        Whether shared loops divide their bounds, even if private loops may have remainders.
    """

    max_loops: int | None = None
    max_loops_per_rank: int | None = None
    no_fuse: frozenset[str] = frozenset()
    memories: frozenset[str] | None = None
    equal_parts: bool = True

    def phrases(self) -> Iterator[str]:
        """Yield what the limits leave, for people."""
        if self.max_loops is not None:
            yield f"at most {self.max_loops} shared loops above an Einsum"
        if self.max_loops_per_rank is not None:
            yield f"at most {self.max_loops_per_rank} shared loops over one rank of an Einsum"
        if self.no_fuse:
            yield f"{listing(sorted(self.no_fuse))} through the outermost memory"
        if self.memories is not None:
            yield f"tensors are stored in {listing(sorted(self.memories))}"

    def check(self, cascade: Cascade) -> None:
        """Check that a cascade has what the limits name.

        Raises
        ------
        LimitError
            If a tensor or a memory is not there, or is none that tensors are stored in; or if shared loops
            may have remainders where no nest may.
        """
        if not self.equal_parts and all(own.mapspace.factors == PERFECT for own in cascade.einsums):
            raise LimitError("equal_parts", "remainders of shared loops need nests that may have remainders")
        for tensor in sorted(self.no_fuse - cascade.users.keys()):
            between = listing(cascade.intermediates)
            raise LimitError("no_fuse", f"no Einsum accesses {tensor!r}; tensors between Einsums: {between}")
        architecture = cascade.einsums[0].mapspace.architecture
        outermost, on_chip = architecture.levels[0].name, [level.name for level in architecture.on_chip]
        for memory in sorted((self.memories or frozenset()).difference(on_chip)):
            text = f"there is no memory {memory!r}; on chip there are {listing(on_chip)}"
            if memory == outermost:
                text = f"{memory!r} is the outermost memory; tensors that are not fused go through it anyway"
            raise LimitError("memories", text)


def check_einsum(einsum: CascadeEinsum) -> None:
    """Check that the search knows all that an Einsum and its architecture have.

    Raises
    ------
    NotSearchedError
        If it does not.
    """
    mapspace = einsum.mapspace
    architecture = mapspace.architecture
    if not architecture.on_chip:
        raise NotSearchedError("there is no on-chip memory to fuse into")
    rule = mapspace.counting_rule
    if not rule.fused:
        raise NotSearchedError(f"{rule.title} does not support fused mappings")
    for level in (own for own in architecture.levels if own.no_coalesce):
        raise NotSearchedError(f"`no_coalesce` at `{level.name}` is not modelled in fused mappings")
    for own in (part for rule in mapspace.rules for part in rule.parts):
        if not own.is_spatial:
            text = "with fusion, user-defined constraints are about the factors of one fanout"
            raise NotSearchedError(f"{text}: `{own}` is not")
    try:
        in_order = replace(mapspace, factors=PERFECT, free_order=frozenset())
        in_order.check_searchable(simple_rules=True, by_bounds=not rule.is_general)
        _check_orders(einsum)
    except ValueError as error:
        raise NotSearchedError(str(error)) from None


def _check_orders(einsum: CascadeEinsum) -> None:
    """Check that a search knows the orders of memories that an Einsum's nests may have."""
    mapspace = einsum.mapspace
    if not mapspace.free_order or einsum.is_copy:
        return
    if mapspace.counting_rule.by_order:
        text = "memories in any order (force_memory_hierarchy_order: False) are not searched in cascades"
        raise ValueError(f"{text} by {mapspace.counting_rule.title}")
    check_orders(mapspace)


def in_hardware_order(cascade: Cascade) -> Cascade | None:
    """Return a cascade with its memories in the order of the hardware; None where they have no other."""
    if not any(einsum.mapspace.free_order for einsum in cascade.einsums):
        return None
    bound = (replace(own.mapspace, free_order=frozenset()) for own in cascade.einsums)
    pairs = zip(cascade.einsums, bound, strict=True)
    return replace(cascade, einsums=tuple(replace(own, mapspace=mapspace) for own, mapspace in pairs))
