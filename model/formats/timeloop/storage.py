"""Attributes of storage components: capacity, width, bandwidths, buffering, power gating."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from model.architecture import StorageLevel
from model.formats.timeloop.attributes import Attribute
from model.formats.timeloop.context import Context
from model.formats.timeloop.storage_attributes import SYNONYMS, check_names, unknown_attributes
from model.formats.timeloop.tree import POWER_GATING, Leaf
from model.source_ref import SourceRef
from model.text.fields import Names, as_bool, as_fraction, as_int, as_mapping, known_name, source_ref
from model.text.notes import note_at
from model.text.source import Node, Span, SpecError
from model.wording import listing

BITS_PER_KIBIBYTE = 8192


@dataclass(frozen=True)
class _Reader:
    """Typed access to the attributes of one storage component."""

    leaf: Leaf
    names: Names

    def find(self, name: str) -> tuple[str, Attribute] | None:
        """Return the attribute under one of the synonyms of `name`, the leaf's own before inherited ones."""
        spellings = SYNONYMS.get(name, (name,))
        present = [(word, self.leaf.attributes[word]) for word in spellings if word in self.leaf.attributes]
        written_here = [entry for entry in present if entry[0] in self.leaf.own_attributes]
        differing = [entry for entry in written_here[1:] if entry[1].value != written_here[0][1].value]
        if differing:
            (first, one), (second, other) = written_here[0], differing[0]
            message = f"`{first}` and `{second}` are two names of one attribute"
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


def read_storage(leaf: Leaf, fanouts: frozenset[Leaf], context: Context) -> StorageLevel:
    """Return the storage level that the attributes of a leaf describe, energies aside.

    ``block_size`` is ``width / (cluster_size * datawidth)``, where ``cluster_size`` is 1 if nobody says
    otherwise; the capacity is ``depth * block_size``, ``entries`` or ``sizeKB``, and unlimited for a DRAM
    that gives none.

    Raises
    ------
    SpecError
        A missing, contradictory or misspelt attribute; one that is not modelled.
    """
    reader = _Reader(leaf, context.names_at(leaf))
    check_names(leaf, context)
    _note_bandwidth(reader, context)
    word_bits = reader.integer("datawidth")
    if word_bits is None:
        raise _lacking(leaf, "`datawidth`, the bits of a word")
    cluster_size, block_size = _block(reader, word_bits, context)
    if cluster_size > 1 and _is_dram(leaf):
        raise SpecError("a DRAM has a `cluster_size` of 1", reader.place("cluster_size"))
    _note_idle_flags(reader, context)
    capacity = _capacity(reader, word_bits, block_size)
    if capacity is None:
        _note_no_limit(reader, context)
    return StorageLevel(
        name=leaf.name,
        size_words=capacity,
        word_bits=word_bits,
        block_size=block_size,
        cluster_size=cluster_size,
        multiple_buffering=_within(reader, "multiple_buffering", Fraction(1), lowest=Fraction(1)),
        min_utilization=_within(reader, "min_utilization", Fraction(0), Fraction(0), Fraction(1)),
        read_bandwidth=_port_bandwidth(reader, "read_bandwidth"),
        write_bandwidth=_port_bandwidth(reader, "write_bandwidth"),
        shared_bandwidth=_bandwidth(reader, "shared_bandwidth"),
        bandwidth_scale=_scales(reader, context),
        network_fill_latency=reader.integer_or("network_fill_latency", 0, minimum=0),
        network_drain_latency=reader.integer_or("network_drain_latency", 0, minimum=0),
        gating_fanouts=_gating_fanouts(reader, fanouts, context),
        rows_per_word=None if reader.find("depth") is None else Fraction(1, block_size),
        size_source=_source(reader, "depth", "entries", "sizeKB"),
        buffering_source=_source(reader, "multiple_buffering"),
        utilization_source=_source(reader, "min_utilization"),
    )


def _note_idle_flags(reader: _Reader, context: Context) -> None:
    """Note flags that are understood and change nothing here."""
    reasons: dict[str, str] = {}
    if reader.flag("allow_overbooking"):
        reasons["allow_overbooking"] = "tiles of dense data always have their full size"
    if reader.find("reduction_supported") and not reader.flag("reduction_supported"):
        reasons["reduction_supported"] = "it prices networks only, which are not modelled"
    for name, reason in reasons.items():
        sentence = name + " of `{}` changes nothing: " + reason
        context.note(note_at(reader.place(name), sentence, reader.leaf.name))


def _note_no_limit(reader: _Reader, context: Context) -> None:
    """Note attributes that say how a capacity is used, where there is none."""
    for name in ("multiple_buffering", "min_utilization"):
        if reader.find(name) is not None:
            sentence = name + " of `{}` changes nothing: it has no limit"
            context.note(note_at(reader.place(name), sentence, reader.leaf.name))


def _source(reader: _Reader, *names: str) -> SourceRef | None:
    """Return the place of the first of these attributes that is given."""
    present = (name for name in names if reader.node(name) is not None)
    name = next(present, None)
    return None if name is None else source_ref(reader.place(name))


def _is_dram(leaf: Leaf) -> bool:
    return "DRAM" in leaf.component_class or "DRAM" in (leaf.subclass or "")


def _lacking(leaf: Leaf, what: str) -> SpecError:
    """Return the error for a missing attribute, at the first unknown one, which may be meant for it."""
    message, unknown = f"storage `{leaf.name}` lacks {what}", unknown_attributes(leaf)
    if not unknown:
        return SpecError(message, leaf.span)
    hint = f"no storage has an attribute {listing(unknown)}"
    return SpecError(message, next(iter(unknown.values())), hint=hint)


def _block(reader: _Reader, word_bits: int, context: Context) -> tuple[int, int]:
    """Return cluster size and block size, which width and datawidth tie together."""
    width = reader.integer("width")
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


def _contradiction(reader: _Reader, width: int, block: int, cluster: int, word_bits: int) -> SpecError:
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


def _check_no_width(leaf: Leaf, word_bits: int) -> None:
    """Raise a SpecError where an attribute that nobody reads could be the width under another name."""
    for name, span in unknown_attributes(leaf).items():
        value = leaf.attributes[name].value
        if isinstance(value, int) and not isinstance(value, bool) and value > 0 and value % word_bits == 0:
            hint = "write `width`, or `block_size: 1` if an access moves one word"
            message = f"storage `{leaf.name}` lacks `width`, and no storage has an attribute `{name}`"
            raise SpecError(message, span, hint=hint)


def _capacity(reader: _Reader, word_bits: int, block_size: int) -> int | None:
    """Return the words of one instance, None when unlimited."""
    capacities: dict[str, int] = {}
    depth = reader.integer("depth")
    if depth is not None:
        capacities["depth"] = depth * block_size
    entries = reader.integer("entries")
    if entries is not None:
        capacities["entries"] = entries
    kilobytes = reader.fraction("sizeKB")
    if kilobytes is not None:
        capacities["sizeKB"] = int(kilobytes * BITS_PER_KIBIBYTE / word_bits)
    if not capacities:
        if _is_dram(reader.leaf):
            return None
        raise _lacking(reader.leaf, "`depth`; only a DRAM may be unlimited")
    (name, words), *others = capacities.items()
    for other, other_words in others:
        if other_words != words:
            message = f"`{other}` gives {other_words} words, but `{name}` {words}"
            raise SpecError(message, reader.place(other), ((reader.place(name), f"`{name}`"),))
    if words < 1:
        raise SpecError(f"`{name}` leaves room for no word", reader.place(name))
    return words


def _bandwidth(reader: _Reader, name: str) -> Fraction | None:
    value = reader.fraction(name)
    if value is not None and value <= 0:
        raise SpecError(f"`{name}` must be positive (words per cycle)", reader.place(name))
    return value


def _port_bandwidth(reader: _Reader, name: str) -> Fraction | None:
    """Return the bandwidth of one kind of access: its own, or half of the old ``bandwidth`` of both."""
    of_port = _bandwidth(reader, name)
    both = _bandwidth(reader, "bandwidth")
    return of_port if of_port is not None or both is None else both / 2


def _note_bandwidth(reader: _Reader, context: Context) -> None:
    if reader.node("bandwidth") is None:
        return
    sentence = (
        "`bandwidth` of `{}` counts half for reads and half for writes, as in Timeloop; "
        "`read_bandwidth` and `write_bandwidth` go before it"
    )
    context.note(note_at(reader.place("bandwidth"), sentence, reader.leaf.name))


def _within(
    reader: _Reader, name: str, default: Fraction, lowest: Fraction, highest: Fraction | None = None
) -> Fraction:
    value = reader.fraction(name)
    if value is None:
        return default
    if value < lowest or (highest is not None and value > highest):
        limits = f"at least {lowest}" if highest is None else f"between {lowest} and {highest}"
        raise SpecError(f"`{name}` must be {limits}", reader.place(name))
    return value


def _scales(reader: _Reader, context: Context) -> tuple[tuple[str, Fraction], ...]:
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


def _gating_fanouts(reader: _Reader, fanouts: frozenset[Leaf], context: Context) -> int | None:
    """Return the number of fanouts above the gate of this level's power, None if it gates itself."""
    leaf = reader.leaf
    gate = leaf.gate
    at = reader.find("power_gated_at")
    if at is not None:
        name_node = at[1].node
        gate = known_name(name_node, context.leaves, "level")
        if gate == leaf.name and leaf.gate in (None, gate):
            sentence = (
                "power_gated_at of `{}` names the level itself and changes nothing: no node above gates it"
            )
            context.note(note_at(reader.place("power_gated_at"), sentence, leaf.name))
    if gate is None or gate == leaf.name:
        return None
    if POWER_GATING in leaf.own_attributes and reader.flag(POWER_GATING):
        return None
    leaves = context.tree.leaves
    above = leaves[: leaves.index(leaf)]
    if all(other.name != gate for other in above):
        message = f"`{leaf.name}` cannot be gated at `{gate}`, which does not lie above it"
        raise SpecError(message, reader.place("power_gated_at"))
    upto = next(place for place, other in enumerate(above) if other.name == gate)
    return sum(other in fanouts for other in above[: upto + 1])
