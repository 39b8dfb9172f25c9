"""Canonical sparsity: densities of tensors, how they are compressed, and what is gated or skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

Distribution = Literal["fixed_structured", "hypergeometric", "banded"]
DISTRIBUTIONS: tuple[Distribution, ...] = ("fixed_structured", "hypergeometric", "banded")

Format = Literal["UOP", "CP", "RLE", "B", "UB"]
FORMATS: tuple[Format, ...] = ("UOP", "CP", "RLE", "B", "UB")
COMPRESSED: frozenset[Format] = frozenset(("CP", "RLE", "B"))
"""Formats that leave out the empty parts of a fiber."""

OptimizationKind = Literal["gating", "skipping", "skipping_spatial"]
OPTIMIZATION_KINDS: tuple[OptimizationKind, ...] = ("gating", "skipping", "skipping_spatial")


@dataclass(frozen=True, slots=True)
class Density:
    """How the nonzeros of a tensor are distributed.

    Parameters
    ----------
    distribution
        ``fixed_structured``: every tile has its share of nonzeros, rounded up or down; ``hypergeometric``:
        a fixed number of nonzeros lies anywhere in the tensor; ``banded``: a square matrix with nonzeros near
        its diagonal.
    share
        Share of nonzeros in the tensor, 0 to 1; it is not used for bands.
    band_width
        Greatest distance of a nonzero of a banded matrix from the diagonal.
    """

    distribution: Distribution = "fixed_structured"
    share: Fraction = Fraction(1)
    band_width: int = 0


DENSE = Density()


@dataclass(frozen=True, slots=True)
class Rank:
    """A level of a fiber tree.

    Parameters
    ----------
    format
        ``UOP`` (offsets), ``CP`` (coordinates), ``RLE`` (run lengths), ``B`` and ``UB`` (bit masks with and
        without leaving out what is empty).
    metadata_bits, payload_bits
        Bits of one word of either kind.
    flattened
        Groups of dimensions: loops over dimensions of one group form one rank together. Without any, each
        rank takes one loop.
    """

    format: Format
    metadata_bits: int = 0
    payload_bits: int = 0
    flattened: tuple[tuple[str, ...], ...] = ()

    @property
    def compressed(self) -> bool:
        """Whether empty parts of its fibers are left out."""
        return self.format in COMPRESSED

    def group_of(self, dim: str) -> tuple[str, ...]:
        """Return the group of flattened dimensions with `dim`; empty if there is none."""
        return next((group for group in self.flattened if dim in group), ())


@dataclass(frozen=True)
class Representation:
    """How one dataspace is stored at one level.

    Parameters
    ----------
    ranks
        The lowest rank first; at least one.
    inner_to_outer
        Whether loops are given ranks from the innermost loop and the lowest rank on, instead of from the
        outermost loop and the top rank.
    """

    ranks: tuple[Rank, ...]
    inner_to_outer: bool = False

    @cached_property
    def compressed(self) -> bool:
        """Whether any rank leaves out what is empty."""
        return any(rank.compressed for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class Conditional:
    """Accesses to `target` that are useless where the words of all `conditions` that meet them are zero."""

    target: str
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Optimization:
    """One unit of a storage level that gates or skips accesses.

    Parameters
    ----------
    kind
        ``gating`` and ``skipping`` save accesses; ``skipping_spatial`` saves instances.
    options
        The unit serves the one that saves most; at least one.
    """

    kind: OptimizationKind
    options: tuple[Conditional, ...]


@dataclass(frozen=True)
class SparseLevel:
    """What a storage level has for sparse data.

    Parameters
    ----------
    representations
        By dataspace; what is not listed is stored as it is.
    optimizations
        In the order of the spec.
    metadata_word_bits, metadata_width_bits, metadata_size_bits
        Bits of one word of metadata where a rank does not say, of one access to the storage of metadata
        (0: it costs nothing), and of all of it.
    decompresses, compresses
        Whether the level can unpack what comes from outside, and pack what it sends there.
    allow_overbooking, max_overbooked
        Whether tiles may exceed the capacity at times, and in which share of the cases at most.
    energy
        Of vector accesses and actions besides those of `model.architecture.AccessEnergy`, in the
        architecture's unit; those missing cost nothing.
    """

    representations: Mapping[str, Representation] = field(default_factory=dict)
    optimizations: tuple[Optimization, ...] = ()
    metadata_word_bits: int = 0
    metadata_width_bits: int = 0
    metadata_size_bits: int = 0
    decompresses: bool = False
    compresses: bool = False
    allow_overbooking: bool = False
    max_overbooked: Fraction = Fraction(0)
    energy: Mapping[str, int] = field(default_factory=dict)

    @property
    def confidence(self) -> float:
        """The least share of cases in which all tiles must fit."""
        return 1.0 - float(self.max_overbooked)


@dataclass(frozen=True)
class SparseCompute:
    """What the arithmetic does about operands that are zero.

    Parameters
    ----------
    gates_zeros
        Whether it idles when an operand is zero.
    skips_unaligned
        Whether it takes no time when an operand is not there while another one is.
    energy
        Of ``gated_compute`` and ``skipped_compute``, in the architecture's unit; those missing cost nothing.
    """

    gates_zeros: bool = False
    skips_unaligned: bool = False
    energy: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sparsity:
    """Everything about sparse data in a mapspace.

    Parameters
    ----------
    densities
        By dataspace; what is not listed is dense.
    levels
        Along ``architecture.levels``.
    compute
        Of the arithmetic.
    """

    densities: Mapping[str, Density]
    levels: tuple[SparseLevel, ...]
    compute: SparseCompute = field(default_factory=SparseCompute)

    def density(self, dataspace: str) -> Density:
        """Return the density of a dataspace."""
        return self.densities.get(dataspace, DENSE)

    @cached_property
    def skips_instances(self) -> bool:
        """Whether any unit saves instances."""
        kinds = (unit.kind for level in self.levels for unit in level.optimizations)
        return any(kind == "skipping_spatial" for kind in kinds)

    @cached_property
    def optimized(self) -> bool:
        """Whether anything depends on the densities: otherwise all counts are those of dense data."""
        compute = self.compute.gates_zeros or self.compute.skips_unaligned
        return compute or any(level.representations or level.optimizations for level in self.levels)


METADATA_READ, METADATA_FILL, METADATA_UPDATE = "metadata_read", "metadata_fill", "metadata_update"
STORAGE_ACTIONS: tuple[str, ...] = (
    *(f"{kind}_{access}" for kind in ("gated", "skipped") for access in ("read", "fill", "update")),
    METADATA_READ,
    METADATA_FILL,
    METADATA_UPDATE,
    *(f"{kind}_metadata_{access}" for kind in ("gated", "skipped") for access in ("read", "fill", "update")),
    "decompression",
    "compression",
)
"""Actions of a storage that only sparse data has."""
COMPUTE_ACTIONS: tuple[str, ...] = ("gated_compute", "skipped_compute")
