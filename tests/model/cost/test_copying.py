"""Copies between levels, against figures computed by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Direction, Fanout, Packing, StorageLevel
from model.cost import evaluate
from model.cost.copying import CopyMove, Transfer, backing_levels, least_transfer, transfer_of
from model.mapping import FanoutMapping, Loop, Mapping, StorageMapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term

DRAM = StorageLevel(
    "DRAM", block_size=8, read_bandwidth=Fraction(4), energy=AccessEnergy(read=100, fill=90, update=80)
)
BUFFER = StorageLevel(
    "buffer",
    size_words=100,
    block_size=4,
    shared_bandwidth=Fraction(3, 2),
    energy=AccessEnergy(read=7, fill=5, update=3, leak_per_cycle=2),
)
SPAD = StorageLevel("spad", size_words=8, energy=AccessEnergy(1, 1, 1, leak_per_cycle=1), gating_fanouts=0)

# 6 x 5 = 30 words of the input, 5 x 6 = 30 of `B`, 6 words of `C`.
PROBLEM = Problem(
    "copy",
    ("m", "k"),
    (6, 5),
    (
        Dataspace("A", ((Term("m"),), (Term("k"),))),
        Dataspace("B", ((Term("k"),), (Term("m"),)), read_write=True),
        Dataspace("C", ((Term("m"),),), read_write=True),
    ),
)


def mapspace(*bypass: str, levels: tuple[StorageLevel, ...] = (DRAM, BUFFER, SPAD)) -> Mapspace:
    """Return a mapspace whose levels bypass the dataspaces that the letters of each text name."""
    first, second, third = levels
    architecture = Architecture("a", (first, second, Fanout("PEs", 4), third), Compute("mac", 50))
    keep = tuple(KeepRules(bypass=frozenset(text)) for text in bypass)
    return Mapspace(PROBLEM, architecture, (TemporalRules(),) * 3, (SpatialRules(),), keep)


def test_a_tensor_is_stored_at_the_outermost_level_that_does_not_bypass_it():
    assert backing_levels(mapspace("B", "", "")) == {"A": 0, "B": 1, "C": 0}
    assert backing_levels(mapspace("ABC", "A", "")) == {"A": 2, "B": 1, "C": 1}


@pytest.mark.parametrize("bypass", [("", "", ""), ("ABC", "", "")])
def test_nothing_moves_within_a_level(bypass: tuple[str, ...]):
    assert transfer_of(mapspace(*bypass)) is None


def test_a_copy_into_a_level_farther_in():
    # 30 words are 4 vectors of 8 to read, and 8 of 4 to fill; the buffer takes 1.5 words a cycle. Its
    # one instance leaks 2 in each of the 20 cycles, and the four spads that nothing gates off 1 each.
    found = transfer_of(mapspace("B", "", ""))
    assert found is not None
    moves = CopyMove(0, "A", 30, reads=30), CopyMove(0, "C", 6), CopyMove(1, "B", 30, fills=30)
    assert sorted(found.moves, key=lambda move: (move.level, move.dataspace)) == list(moves)
    energy = 4 * 100 + 8 * 5 + 20 * (2 + 4)
    assert replace(found, moves=()) == Transfer("DRAM", ("buffer",), energy, 20, "buffer")


def test_the_words_are_those_of_a_tensor_that_a_level_takes_over_as_a_whole():
    whole = Mapping(
        (
            StorageMapping(keep=frozenset("ABC")),
            StorageMapping((Loop("k", 5), Loop("m", 6)), frozenset("A")),
            FanoutMapping(),
            StorageMapping(),
        )
    )
    cost = evaluate(PROBLEM, mapspace("", "", "").architecture, whole)
    outer, inner = (cost.level(name).dataspace("A") for name in ("DRAM", "buffer"))
    quiet = replace(BUFFER, energy=AccessEnergy(read=7, fill=5))
    found = transfer_of(mapspace("B", "", "", levels=(DRAM, quiet, replace(SPAD, energy=AccessEnergy()))))
    assert found is not None
    assert (outer.reads, inner.fills) == (30, 30)
    assert found.energy == outer.energy + 5 * -(-inner.fills // quiet.block_size)


def test_a_copy_into_a_level_farther_out():
    # `B` stays with the input; 6 words are one vector of 8. Reading 30 from the buffer takes 20 cycles.
    found = transfer_of(mapspace("AB", "", ""))
    assert found is not None
    expected = Transfer("buffer", ("DRAM",), 8 * 7 + 1 * 80 + 20 * 6, 20, "buffer")
    assert replace(found, moves=()) == expected


def test_two_copies_at_two_levels_are_read_once():
    single = replace(SPAD, size_words=None)
    found = transfer_of(mapspace("BC", "C", "", levels=(DRAM, BUFFER, single)))
    assert found is not None
    assert found.targets == ("buffer", "spad")
    assert found.energy == 4 * 100 + 8 * 5 + 6 * 1 + 20 * 6


DIRECTIONS: list[tuple[Direction, str, tuple[int, int]]] = [
    ("down", "B", (30, 0)),
    ("up", "B", (0, 0)),
    ("both", "B", (30, 0)),
    ("down", "AB", (0, 0)),
    ("up", "AB", (0, 6)),
    ("both", "AB", (0, 6)),
]


@pytest.mark.parametrize(("direction", "bypass", "paid"), DIRECTIONS)
def test_each_word_pays_the_toll_between_once(direction: Direction, bypass: str, paid: tuple[int, int]):
    """As the input on its way inwards, and as the output outwards: `B` inwards, or `C` outwards."""
    toll = StorageLevel(
        "toll",
        energy=AccessEnergy(11, 0, 13, leak_per_cycle=1),
        shared_bandwidth=Fraction(1),
        tolls=tuple((name, direction) for name in "ABC"),
    )
    plain = mapspace(bypass, "", "")
    inner = tuple(replace(own, energy=replace(own.energy, leak_per_cycle=0)) for own in (BUFFER, SPAD))
    architecture = Architecture("a", (DRAM, toll, *inner), Compute("mac", 50))
    keep = (plain.keep[0], KeepRules(), *plain.keep[1:])
    found = transfer_of(Mapspace(PROBLEM, architecture, (TemporalRules(),) * 4, (), keep))
    assert found is not None
    there = [move for move in found.moves if move.level == 1]
    assert (sum(own.reads for own in there), sum(own.updates for own in there)) == paid
    assert not any(own.stored or own.fills for own in there)
    moved = 4 * 100 + 8 * 5 if bypass == "B" else 8 * 7 + 80
    assert found.cycles == max(20, sum(paid))
    assert found.energy == moved + 11 * paid[0] + 13 * paid[1] + found.cycles


def test_copies_on_both_sides_of_a_toll_pass_it_once():
    """Words for the spad pass; what stays in the buffer does not pay besides."""
    toll = StorageLevel("toll", energy=AccessEnergy(11, 0, 13), tolls=(("A", "both"), ("B", "both")))
    quiet = tuple(replace(own, energy=replace(own.energy, leak_per_cycle=0)) for own in (BUFFER, SPAD))
    architecture = Architecture("a", (DRAM, quiet[0], toll, quiet[1]), Compute("mac", 50))
    keep = tuple(KeepRules(bypass=frozenset(text)) for text in ("BC", "C", "C", ""))
    found = transfer_of(Mapspace(PROBLEM, architecture, (TemporalRules(),) * 4, (), keep))
    assert found is not None
    there = [(own.dataspace, own.reads, own.updates) for own in found.moves if own.level == 2]
    assert there == [("A", 30, 0)]


def test_without_limited_bandwidths_a_copy_takes_no_time():
    free = tuple(
        replace(own, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None)
        for own in (DRAM, BUFFER, SPAD)
    )
    found = transfer_of(mapspace("B", "", "", levels=free))
    assert found is not None
    assert replace(found, moves=()) == Transfer("DRAM", ("buffer",), 4 * 100 + 8 * 5, 0, None)


def test_a_level_that_does_not_hold_its_tensors():
    found = transfer_of(mapspace("B", "", "", levels=(DRAM, replace(BUFFER, size_words=29), SPAD)))
    assert found is not None
    assert [(own.node, own.demand, own.limit) for own in found.violations] == [("buffer", 30, 29)]


def test_values_of_two_sizes():
    # In the buffer a row holds 4 values of `B`, each of which takes 2 of the level's words.
    packed = replace(
        BUFFER,
        packing=(Packing("B", 4, 2, 1),),
        bandwidth_scale=(("B", Fraction(2)),),
        size_words=59,
    )
    found = transfer_of(mapspace("B", "", "", levels=(DRAM, packed, SPAD)))
    assert found is not None
    assert found.cycles == 40
    assert found.energy == 4 * 100 + 8 * 5 + 40 * 6
    assert [(own.demand, own.limit) for own in found.violations] == [(60, 59)]


def spread_over(children: int, **spad: object) -> tuple[int, int]:
    """Energy and cycles of a copy from the buffer into so many of four registers, each with its share."""
    inner = replace(SPAD, gating_fanouts=None, **spad)
    copied = mapspace("AB", "B", "", levels=(DRAM, BUFFER, inner))
    found = transfer_of(copied, {"A": 1, "B": 2, "C": 1}, {0: children})
    assert found is not None
    assert {(move.level, move.instances) for move in found.moves} == {(1, 1), (2, children)}
    return found.energy, found.cycles


def test_instances_move_equal_shares():
    # The buffer reads 30 words as 8 vectors of 4, in 20 cycles in which it leaks 2 and each spad 1.
    assert spread_over(1) == (8 * 7 + 30 + 20 * 3, 20)
    assert spread_over(3) == (8 * 7 + 30 + 20 * 5, 20)
    # Four spads take their shares of 8 words at once, the last of which is not full: 2 vectors of 4 each.
    slow = {"write_bandwidth": Fraction(1, 4), "block_size": 4}
    assert spread_over(1, **slow) == (8 * 7 + 8 + 120 * 3, 120)
    assert spread_over(4, **slow) == (8 * 7 + 8 + 32 * 6, 32)
    # Those of a cluster share their accesses.
    assert spread_over(4, cluster_size=2) == (8 * 7 + 2 * 8 + 20 * 6, 20)


@pytest.mark.parametrize("block_size, cluster_size", [(1, 1), (4, 1), (4, 4), (8, 2)])
def test_a_copy_costs_at_least_what_is_known_while_its_spread_is_open(block_size: int, cluster_size: int):
    slow = {"write_bandwidth": Fraction(1, 4), "block_size": block_size, "cluster_size": cluster_size}
    inner = replace(SPAD, gating_fanouts=None, **slow)
    copied = mapspace("AB", "B", "", levels=(DRAM, BUFFER, inner))
    energy, cycles = least_transfer(copied, {"A": 1, "B": 2, "C": 1}, {}, {0: 4})
    costs = [spread_over(children, **slow) for children in (1, 2, 3, 4)]
    assert energy <= min(own for own, _ in costs)
    assert cycles == min(own for _, own in costs)
    known = least_transfer(copied, {"A": 1, "B": 2, "C": 1}, {0: 3}, {})
    assert known == costs[2]
