"""Storage components: the names of their attributes, what they describe, and those that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from functools import lru_cache

from model.architecture import StorageLevel
from model.energy import AREA_SCALES, ESTIMATED_ATTRIBUTES, GIVEN_KEYS, CompoundClasses
from model.formats.timeloop.constraints import UPPER_UTILIZATION, no_upper_utilization
from model.formats.timeloop.context import Context
from model.formats.timeloop.tree import POWER_GATING, ArchLeaf, Attribute
from model.source_ref import SourceRef
from model.sparsity import SparseLevel
from model.text.fields import Names, as_bool, as_fraction, as_int, as_mapping, known_name
from model.text.source import Node, ScalarNode, Span, SpecError, note_at, source_ref, values_in
from model.wording import fold_name, listing

SYNONYMS: dict[str, tuple[str, ...]] = {
    "depth": ("depth", "memory_depth", "data_storage_depth"),
    "width": ("width", "memory_width", "data_storage_width"),
    "datawidth": ("datawidth", "word-bits", "word_bits", "word_width"),
    "block_size": ("block_size", "block-size", "n_words"),
}
_SPELLINGS = {
    **SYNONYMS,
    "metadata_datawidth": ("metadata_datawidth", "metadata_word_bits"),
    "metadata_storage_width": ("metadata_storage_width", "metadata_width"),
    "metadata_storage_depth": ("metadata_storage_depth", "metadata_depth"),
}
_SIMPLE = (
    "entries",
    "sizeKB",
    "cluster_size",
    "multiple_buffering",
    "min_utilization",
    "shared_bandwidth",
    "read_bandwidth",
    "write_bandwidth",
    "bandwidth",
    "network_fill_latency",
    "network_drain_latency",
    "per_dataspace_bandwidth_consumption_scale",
    "allow_overbooking",
    POWER_GATING,
    "power_gated_at",
    "reduction_supported",
)
SPARSE_ATTRIBUTES = (
    "metadata_datawidth",
    "metadata_word_bits",
    "metadata_depth",
    "metadata_width",
    "metadata_storage_depth",
    "metadata_storage_width",
    "metadata_block_size",
    "concordant_compressed_tile_traversal",
    "tile_partition_supported",
    "decompression_supported",
    "compression_supported",
)
NETWORK_ENERGIES = (
    "router_energy",
    "router-energy",
    "wire_energy",
    "wire-energy",
    "energy_per_hop",
    "energy-per-hop",
    "energy_per_ingress",
    "energy-per-ingress",
)
MODELLED_ATTRIBUTES = (*(name for names in SYNONYMS.values() for name in names), *_SIMPLE)
STORAGE_ATTRIBUTES = (*MODELLED_ATTRIBUTES, *SPARSE_ATTRIBUTES, *NETWORK_ENERGIES)
SHAPE_ATTRIBUTES = tuple(name for known in ("depth", "width", "datawidth") for name in SYNONYMS[known])
"""What estimators ask of any component, in all spellings."""
_SLIP = 0.88
"""Alike enough to be a slip of the pen, unlike `n_banks` and the other names an estimator may know."""


def _check_attributes(leaf: ArchLeaf, context: Context) -> None:
    """Check the attributes of a storage by name; those that nothing here knows go to the estimator."""
    _note_sparse(leaf, context)
    for name, attribute in leaf.attributes.items():
        if name == "instances":
            hint = "write `spatial: {meshX: ..., meshY: ...}` on a node: instances per instance above"
            raise SpecError("`instances` is not an attribute", attribute.key, hint=hint)
        if name == UPPER_UTILIZATION:
            raise no_upper_utilization(attribute.key)
        slip = None if name in (*MODELLED_ATTRIBUTES, *SPARSE_ATTRIBUTES) else _slip(name)
        if slip is not None:
            raise SpecError(f"unknown attribute `{name}`", attribute.key, hint=f"did you mean `{slip}`?")


def refuse_networks(leaf: ArchLeaf) -> None:
    """Check that no energy of a network is given, on a storage or for the fanout of a container."""
    for name in NETWORK_ENERGIES if leaf.role in ("container", "storage") else ():
        if name in leaf.attributes and leaf.attributes[name].value not in (None, 0):
            message = f"`{name}`: the energy of networks is not modelled"
            raise SpecError(message, leaf.attributes[name].key, hint="leave it out, or make it 0")


def _note_sparse(leaf: ArchLeaf, context: Context) -> None:
    """Note what says how compressed data is stored: only sparse optimizations compress any."""
    if context.optimizes_sparse:
        return
    present = (name for name in SPARSE_ATTRIBUTES if name in leaf.attributes)
    names = [name for name in present if leaf.attributes[name].value not in (None, False)]
    if names:
        verb = "has" if len(names) == 1 else "have"
        sentence = "{} of `{}` " + verb + " no effect: only sparse optimizations compress data"
        context.note(note_at(leaf.attributes[names[0]].key, sentence, listing(names), leaf.name))


def _unknown_attributes(leaf: ArchLeaf) -> dict[str, Span]:
    """Return the places of the attributes that a storage writes itself, and that nobody reads, in order."""
    known = (*STORAGE_ATTRIBUTES, *ESTIMATED_ATTRIBUTES)
    unknown = {name: leaf.attributes[name].key for name in leaf.own_attributes if name not in known}
    return dict(sorted(unknown.items(), key=lambda item: (item[1].line, item[1].column)))


@lru_cache(maxsize=1024)
def _slip(name: str) -> str | None:
    """Return the modelled attribute that `name` misspells, if it does."""
    folded = fold_name(name)
    for known in MODELLED_ATTRIBUTES:
        plain = fold_name(known)
        # The ratio is harsh on two letters swapped in a short word, such as depht.
        swapped = sorted(folded) == sorted(plain)
        if swapped or SequenceMatcher(None, folded, plain).ratio() >= _SLIP:
            return known
    return None


BITS_PER_KIBIBYTE = 8192


@dataclass(frozen=True)
class _AttributeReader:
    """Typed access to the attributes of one storage component."""

    leaf: ArchLeaf
    names: Names

    def find(self, name: str) -> tuple[str, Attribute] | None:
        """Return the attribute under one of the synonyms of `name`, the leaf's own before inherited ones."""
        spellings = _SPELLINGS.get(name, (name,))
        present = [(word, self.leaf.attributes[word]) for word in spellings if word in self.leaf.attributes]
        written_here = [entry for entry in present if entry[0] in self.leaf.own_attributes]
        differing = [entry for entry in written_here[1:] if entry[1].value != written_here[0][1].value]
        if differing:
            (first, one), (second, other) = written_here[0], differing[0]
            message = f"`{first}` and `{second}` are two names for the same attribute"
            raise SpecError(message, other.key, ((one.key, "first given here"),))
        return (written_here or present)[0] if present else None

    def node(self, name: str) -> Node | None:
        """Return the attribute's value as written."""
        entry = self.find(name)
        return None if entry is None or entry[1].value is None else entry[1].node

    def integer(self, name: str, minimum: int = 1) -> int | None:
        """Return a whole number, None where the attribute is not given."""
        node = self.node(name)
        return None if node is None else as_int(node, f"`{name}`", self._others(name), minimum)

    def integer_or(self, name: str, default: int, minimum: int = 1) -> int:
        """Return a whole number, `default` where the attribute is not given."""
        value = self.integer(name, minimum)
        return default if value is None else value

    def fraction(self, name: str) -> Fraction | None:
        """Return an exact number, None where the attribute is not given."""
        node = self.node(name)
        return None if node is None else as_fraction(node, f"`{name}`", self._others(name))

    def flag(self, name: str) -> bool:
        """Return a truth value, false where the attribute is not given."""
        node = self.node(name)
        return node is not None and as_bool(node, f"`{name}`", self.names)

    def _others(self, name: str) -> Names:
        """Return the names without the attribute's own, which is no value to calculate it from."""
        spellings = SYNONYMS.get(name, (name,))
        return {other: value for other, value in self.names.items() if other not in spellings}

    def place(self, name: str) -> Span:
        """Return where an attribute is written, or the component's name."""
        entry = self.find(name)
        return self.leaf.span if entry is None else entry[1].node.span


def read_storage(leaf: ArchLeaf, fanouts: frozenset[ArchLeaf], context: Context) -> StorageLevel:
    """Return the storage level that the attributes of a leaf describe, energies aside.

    ``block_size`` is ``width / (cluster_size * datawidth)``, where ``cluster_size`` is 1 if nobody says
    otherwise; the capacity is ``depth * block_size``, ``entries`` or ``sizeKB``, and unlimited for a DRAM
    that gives none.
    """
    reader = _AttributeReader(leaf, context.names_at(leaf))
    _check_attributes(leaf, context)
    _note_bandwidth(reader, context)
    word_bits = reader.integer("datawidth")
    if word_bits is None:
        raise _lacking(leaf, ("datawidth",), " (the bits of a word)")
    cluster_size, block_size = _block(reader, word_bits, context)
    if cluster_size > 1 and _is_dram(leaf):
        raise SpecError("a DRAM has a `cluster_size` of 1", reader.place("cluster_size"))
    capacity = _capacity_words(reader, word_bits, block_size)
    _note_idle_attributes(reader, capacity, context)
    return StorageLevel(
        name=leaf.name,
        size_words=capacity,
        word_bits=word_bits,
        block_size=block_size,
        cluster_size=cluster_size,
        multiple_buffering=_fraction_within(reader, "multiple_buffering", Fraction(1), lowest=Fraction(1)),
        min_utilization=_fraction_within(reader, "min_utilization", Fraction(0), Fraction(0), Fraction(1)),
        read_bandwidth=_port_bandwidth(reader, "read_bandwidth"),
        write_bandwidth=_port_bandwidth(reader, "write_bandwidth"),
        shared_bandwidth=_bandwidth(reader, "shared_bandwidth"),
        bandwidth_scale=_scales(reader, context),
        network_fill_latency=reader.integer_or("network_fill_latency", 0, minimum=0),
        network_drain_latency=reader.integer_or("network_drain_latency", 0, minimum=0),
        gating_fanouts=_gating_fanouts(reader, fanouts, context),
        rows_per_word=None if reader.find("depth") is None else Fraction(1, block_size),
        size_source=_attribute_source(reader, "depth", "entries", "sizeKB"),
        buffering_source=_attribute_source(reader, "multiple_buffering"),
        utilization_source=_attribute_source(reader, "min_utilization"),
    )


def _note_idle_attributes(reader: _AttributeReader, capacity: int | None, context: Context) -> None:
    """Note attributes that are understood and change nothing here."""
    reasons: dict[str, str] = {}
    if reader.flag("allow_overbooking") and not context.optimizes_sparse:
        reasons["allow_overbooking"] = "tiles of dense data always have their full size"
    if reader.find("reduction_supported") and not reader.flag("reduction_supported"):
        reasons["reduction_supported"] = "it applies to networks only, which are not modelled"
    for name in ("multiple_buffering", "min_utilization"):
        if capacity is None and reader.find(name) is not None:
            reasons[name] = "it has no limit"
    for name, reason in reasons.items():
        sentence = name + " of `{}` has no effect: " + reason
        context.note(note_at(reader.place(name), sentence, reader.leaf.name))


@dataclass(frozen=True)
class SparseSupport:
    """What a storage has for sparse data, and where the width of its metadata is written."""

    level: SparseLevel
    width_span: Span


def read_sparse_support(leaf: ArchLeaf, context: Context) -> SparseSupport:
    """Return what the attributes of a leaf say about sparse data; formats and optimizations are elsewhere."""
    reader = _AttributeReader(leaf, context.names_at(leaf))
    word = reader.integer_or("metadata_datawidth", 0, minimum=0)
    width = reader.integer_or("metadata_storage_width", 0, minimum=0)
    block = reader.integer_or("metadata_block_size", 1)
    if word and width % (word * block):
        message = f"a row of {width} bits of metadata does not hold a whole number of words of {word} bits"
        message += f", {block} at a time" if block > 1 else ""
        related = ((reader.place("metadata_datawidth"), "the bits of a word"),)
        raise SpecError(message, reader.place("metadata_storage_width"), related)
    if reader.flag("tile_partition_supported"):
        message = "`tile_partition_supported`: tiles are not partitioned while they are read"
        raise SpecError(
            message, reader.place("tile_partition_supported"), hint="leave it out, or make it false"
        )
    if reader.flag("concordant_compressed_tile_traversal"):
        sentence = "concordant_compressed_tile_traversal of `{}` has no effect: tiles are always traversed so"
        context.note(note_at(reader.place("concordant_compressed_tile_traversal"), sentence, leaf.name))
    level = SparseLevel(
        metadata_word_bits=word,
        metadata_width_bits=width,
        metadata_size_bits=width * reader.integer_or("metadata_storage_depth", 0, minimum=0),
        decompresses=reader.flag("decompression_supported"),
        compresses=reader.flag("compression_supported"),
        allow_overbooking=reader.flag("allow_overbooking"),
    )
    return SparseSupport(level, reader.place("metadata_storage_width"))


def _attribute_source(reader: _AttributeReader, *names: str) -> SourceRef | None:
    """Return the place of the first of these attributes that is given."""
    present = (name for name in names if reader.node(name) is not None)
    name = next(present, None)
    return None if name is None else source_ref(reader.place(name))


def size_place(leaf: ArchLeaf) -> Span:
    """Return where the size of a storage is written, or its name."""
    names = (*SYNONYMS["depth"], "entries", "sizeKB")
    written = next((leaf.attributes[name] for name in names if name in leaf.attributes), None)
    return leaf.span if written is None else written.node.span


def _is_dram(leaf: ArchLeaf) -> bool:
    return "DRAM" in leaf.component_class or "DRAM" in (leaf.subclass or "")


def _lacking(leaf: ArchLeaf, names: Sequence[str], remark: str) -> SpecError:
    """Return the error for a missing attribute, any of `names`: at an empty one, or the first unknown one."""
    spellings = (word for name in names for word in SYNONYMS.get(name, (name,)))
    empty = next((word for word in spellings if word in leaf.attributes), None)
    if empty is not None:
        return SpecError(f"`{empty}` of storage `{leaf.name}` is empty{remark}", leaf.attributes[empty].key)
    message, unknown = f"storage `{leaf.name}` lacks `{names[0]}`{remark}", _unknown_attributes(leaf)
    if not unknown:
        return SpecError(message, leaf.span)
    hint = f"no storage has an attribute {listing(unknown)}"
    return SpecError(message, next(iter(unknown.values())), hint=hint)


def _block(reader: _AttributeReader, word_bits: int, context: Context) -> tuple[int, int]:
    """Return cluster size and block size, which width and datawidth tie together."""
    width = reader.integer("width", minimum=0) or None
    cluster = reader.integer_or("cluster_size", 1)
    block = reader.integer("block_size")
    if width is None:
        if block is None:
            _check_no_width(reader.leaf, word_bits)
            sentence = "storage `{}` gives neither `width` nor `block_size`: an access moves one word"
            context.note(note_at(reader.leaf.span, sentence, reader.leaf.name))
        return cluster, block or 1
    if block is not None and width != block * cluster * word_bits:
        raise _contradiction(reader, width, block, cluster, word_bits)
    if width % (cluster * word_bits):
        shown = f"width {width}, datawidth {word_bits}, cluster_size {cluster}"
        message = f"a row of {width} bits does not hold a whole number of words ({shown})"
        raise SpecError(message, reader.place("width"), ((reader.place("datawidth"), "datawidth"),))
    return cluster, width // (cluster * word_bits)


def _contradiction(
    reader: _AttributeReader, width: int, block: int, cluster: int, word_bits: int
) -> SpecError:
    """Say that a row is not as wide as the blocks of its instances."""
    written = [name for name in ("width", "datawidth", "cluster_size") if reader.node(name) is not None]
    values = {"width": width, "datawidth": word_bits, "cluster_size": cluster}
    shown = ", ".join(f"{name} {values[name]}" for name in written)
    message = f"block_size {block} contradicts {shown}"
    hint = None
    if "cluster_size" not in written:
        message += "; no cluster_size is given, which means 1"
        shared, rest = divmod(width, block * word_bits)
        hint = f"write `cluster_size: {shared}` if {shared} instances share a row" if not rest else None
    places = tuple((reader.place(name), f"`{name}`") for name in written)
    return SpecError(message, reader.place("block_size"), places, hint)


_COUNTS = ("n_", "num_")
"""How names of numbers of banks and ports begin."""


def _check_no_width(leaf: ArchLeaf, word_bits: int) -> None:
    """Raise a SpecError where an attribute that nobody reads could be the width under another name."""
    for name, span in _unknown_attributes(leaf).items():
        if name.startswith(_COUNTS):
            continue
        value = leaf.attributes[name].value
        if isinstance(value, int) and not isinstance(value, bool) and value > 0 and value % word_bits == 0:
            hint = "write `width`, or `block_size: 1` if an access moves one word"
            message = f"storage `{leaf.name}` lacks `width`, and no storage has an attribute `{name}`"
            raise SpecError(message, span, hint=hint)


def _capacity_words(reader: _AttributeReader, word_bits: int, block_size: int) -> int | None:
    """Return the words of one instance, None when unlimited; 0 where the size is given as 0."""
    capacities: dict[str, int] = {}
    depth = reader.integer("depth", minimum=0)
    if depth is not None:
        capacities["depth"] = depth * block_size
    entries = reader.integer("entries", minimum=0)
    if entries is not None:
        capacities["entries"] = entries
    kilobytes = reader.fraction("sizeKB")
    if kilobytes is not None:
        capacities["sizeKB"] = int(kilobytes * BITS_PER_KIBIBYTE / word_bits)
    if not capacities:
        if _is_dram(reader.leaf):
            return None
        raise _lacking(reader.leaf, ("depth", "entries", "sizeKB"), "; only a DRAM may be unlimited")
    (name, words), *others = capacities.items()
    for other, other_words in others:
        if other_words != words:
            message = f"`{other}` gives {other_words} words, but `{name}` {words}"
            raise SpecError(message, reader.place(other), ((reader.place(name), f"`{name}`"),))
    if words < 1 and not (kilobytes == 0 or depth == 0 or entries == 0):
        raise SpecError(f"`{name}` is smaller than one word", reader.place(name))
    return words


def _bandwidth(reader: _AttributeReader, name: str) -> Fraction | None:
    value = reader.fraction(name)
    if value is not None and value <= 0:
        raise SpecError(f"`{name}` must be positive (words per cycle)", reader.place(name))
    return value


def _port_bandwidth(reader: _AttributeReader, name: str) -> Fraction | None:
    """Return the bandwidth of one kind of access: its own, or half of the old ``bandwidth`` of both."""
    of_port = _bandwidth(reader, name)
    both = _bandwidth(reader, "bandwidth")
    return of_port if of_port is not None or both is None else both / 2


def _note_bandwidth(reader: _AttributeReader, context: Context) -> None:
    if reader.node("bandwidth") is None:
        return
    sentence = (
        "`bandwidth` of `{}` counts half for reads and half for writes, as in Timeloop; "
        "`read_bandwidth` and `write_bandwidth` take precedence"
    )
    context.note(note_at(reader.place("bandwidth"), sentence, reader.leaf.name))


def _fraction_within(
    reader: _AttributeReader, name: str, default: Fraction, lowest: Fraction, highest: Fraction | None = None
) -> Fraction:
    value = reader.fraction(name)
    if value is None:
        return default
    if value < lowest or (highest is not None and value > highest):
        limits = f"at least {lowest}" if highest is None else f"between {lowest} and {highest}"
        raise SpecError(f"`{name}` must be {limits}", reader.place(name))
    return value


def _scales(reader: _AttributeReader, context: Context) -> tuple[tuple[str, Fraction], ...]:
    node = reader.node("per_dataspace_bandwidth_consumption_scale")
    if node is None:
        return ()
    scales: dict[str, Fraction] = {}
    for key, value in as_mapping(node, "`per_dataspace_bandwidth_consumption_scale`").entries:
        name = known_name(key, context.dataspaces, "dataspace")
        scale = as_fraction(value, f"scale of `{name}`", reader.names)
        if scale < 0:
            raise SpecError(f"scale of `{name}` must not be negative", value.span)
        scales[name] = scale
    return tuple(scales.items())


def _gating_fanouts(reader: _AttributeReader, fanouts: frozenset[ArchLeaf], context: Context) -> int | None:
    """Return the number of fanouts above the gate of this level's power, None if it gates itself."""
    leaf = reader.leaf
    gate = leaf.gate
    at = reader.node("power_gated_at")
    if at is not None:
        gate = known_name(at, context.leaves, "level")
        if gate == leaf.name and leaf.gate in (None, gate):
            sentence = (
                "power_gated_at of `{}` names the level itself and has no effect: no node above gates it"
            )
            context.note(note_at(reader.place("power_gated_at"), sentence, leaf.name))
    if gate is None or gate == leaf.name:
        return None
    if POWER_GATING in leaf.own_attributes and reader.flag(POWER_GATING):
        return None
    leaves = context.tree.leaves
    above = leaves[: leaves.index(leaf)]
    if all(other.name != gate for other in above):
        message = f"`{leaf.name}` cannot be gated at `{gate}`, which is not above it"
        raise SpecError(message, reader.place("power_gated_at"))
    upto = next(place for place, other in enumerate(above) if other.name == gate)
    return sum(other in fanouts for other in above[: upto + 1])


_ANYWHERE = frozenset((*SHAPE_ATTRIBUTES, *ESTIMATED_ATTRIBUTES, *GIVEN_KEYS, "energy_scale", *AREA_SCALES))
_OF_STORAGES = _ANYWHERE | frozenset(STORAGE_ATTRIBUTES)
_WORD = re.compile(r"[A-Za-z_]\w*")
_GIVEN_FORMS = "; energies are given as `energy: {read: 2.5, write: 3}` on the component"


def note_unread(top: Node, classes: CompoundClasses, context: Context) -> None:
    """Note attributes that nothing asks of a node, no compound class declares, and no expression names."""
    owners: dict[Span, list[str]] = {}
    names: dict[Span, str] = {}
    for leaf in context.tree.leaves:
        for name, span in _unread_attributes(leaf, classes, context):
            names[span] = name
            owners.setdefault(span, []).append(leaf.name)
        if POWER_GATING in leaf.node and not _reaches_storage(POWER_GATING, leaf, context):
            span = leaf.node.key(POWER_GATING).span
            names[span], owners[span] = POWER_GATING, [leaf.name]
    words = _words_of_expressions(top) if names else frozenset[str]()
    for span, name in names.items():
        if name not in words:
            forms = _GIVEN_FORMS if "energy" in name and name not in _OF_STORAGES else ""
            context.note(note_at(span, "nothing reads `{}` of {}{}", name, listing(owners[span]), forms))


def _unread_attributes(
    leaf: ArchLeaf, classes: CompoundClasses, context: Context
) -> Iterator[tuple[str, Span]]:
    for name, attribute in leaf.attributes.items():
        if (
            name in leaf.own_attributes
            and attribute.value is not None
            and not _is_known(name, leaf, classes, context)
        ):
            yield name, attribute.key


def _is_known(name: str, leaf: ArchLeaf, classes: CompoundClasses, context: Context) -> bool:
    if leaf.role == "nothing":
        return False
    compound = classes.by_name.get(leaf.subclass or leaf.component_class)
    declared = compound is not None and compound.declares(name)
    of_fanout = name in NETWORK_ENERGIES and leaf.role == "container"
    known = _OF_STORAGES if of_fanout or _reaches_storage(name, leaf, context) else _ANYWHERE
    return declared or name in known or name.replace("-", "_") in known


def _reaches_storage(name: str, leaf: ArchLeaf, context: Context) -> bool:
    """Whether a storage has this attribute: its own, or one that it has from the container `leaf`."""
    if leaf.role != "container":
        return leaf.role == "storage"
    leaves = context.tree.leaves
    behind = leaves[leaves.index(leaf) + 1 :]
    storages = (other for other in behind if other.role == "storage")
    # A gate of the power is none of the attributes that its container hands on.
    return any(name == POWER_GATING or name in other.attributes for other in storages)


def _words_of_expressions(top: Node) -> frozenset[str]:
    """Return the words of all values that may be expressions."""
    plain = (node.text for node in values_in(top) if isinstance(node, ScalarNode) and not node.quoted)
    return frozenset(word for text in plain for word in _WORD.findall(text))
