"""The design that a curve is about: a memory that holds everything, one buffer, and the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from model.architecture import AccessEnergy, Architecture, Compute, Packing, StorageLevel
from model.extents import ANY, Factors
from model.mapspace import KeepRules, Mapspace, TemporalRules
from model.objective import ENERGY
from model.problem import Problem

MEMORY, BUFFER = 0, 1
"""Levels of the design."""


@dataclass(frozen=True)
class Design:
    """A problem on a memory and a buffer, of which only the words between the two cost anything.

    Parameters
    ----------
    problem
        The Einsum.
    bits
        Of a value, by dataspace.
    factors
        Out of `model.extents.FACTORS`.
    """

    problem: Problem
    bits: Mapping[str, int]
    factors: Factors = ANY

    @cached_property
    def unit_bits(self) -> int:
        """Bits of a word: the most that values of all dataspaces are multiples of."""
        return math.gcd(*(self.bits[space.name] for space in self.problem.dataspaces))

    @cached_property
    def mapspace(self) -> Mapspace:
        """All mappings onto a buffer without a limit; their energy is the traffic in words."""
        return self.with_capacity(None)

    def with_capacity(self, words: int | None) -> Mapspace:
        """Return the mappings that fit a buffer of so many words; None for no limit."""
        sizes = {space.name: self.bits[space.name] // self.unit_bits for space in self.problem.dataspaces}
        packing = tuple(Packing(name, 1, size, size) for name, size in sizes.items())
        level = StorageLevel("memory", word_bits=self.unit_bits, packing=packing)
        memory = replace(level, energy=AccessEnergy(read=1, fill=1, update=1))
        buffer = replace(level, name="buffer", size_words=words)
        return Mapspace(
            self.problem,
            Architecture("memory and buffer", (memory, buffer), Compute("arithmetic")),
            (TemporalRules(), TemporalRules()),
            (),
            (KeepRules(frozenset(sizes)), KeepRules()),
            objectives=(ENERGY,),
            factors=self.factors,
        )
