"""Mapspaces on which a bound of the search once exceeded the cost of an allowed mapping."""

from fractions import Fraction

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Status
from solver.search import map_by_bounds
from tests.bruteforce import optimum


def space(name: str, *ranks: str, read_write: bool = False) -> Dataspace:
    return Dataspace(name, tuple(tuple(Term(dim) for dim in rank) for rank in ranks), read_write)


def exactly(**factors: int) -> TemporalRules:
    return TemporalRules(tuple(FactorRule(dim, "=", factor) for dim, factor in factors.items()))


def test_a_window_may_slide_along_a_dimension_of_all_dataspaces():
    """Only R leaves a dataspace (O) in place, but the loop over P inside of R lets I slide the farthest."""
    spaces = (space("W", "P", "R"), space("I", "PR"), space("O", "P", read_write=True))
    port = StorageLevel("port", energy=AccessEnergy(read=1))
    everything, only_inputs = KeepRules(frozenset("WIO")), KeepRules(frozenset("I"), frozenset("WO"))
    mapspace = Mapspace(
        Problem("local", ("P", "R"), (8, 6), spaces),
        Architecture("a", (StorageLevel("dram"), port, StorageLevel("buffer", size_words=7)), Compute("mac")),
        (exactly(P=1, R=1), TemporalRules(), TemporalRules()),
        (),
        (everything, only_inputs, everything),
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    result = map_by_bounds(mapspace, Options(("energy",)))
    assert (result.status, result.value) == (Status.OPTIMAL, best[0])


def test_a_level_without_temporal_reuse_is_charged_once():
    """A stays in place through slots 2 and 3 and part of slot 1, past a level that forgets it."""
    spaces = (space("A", "M"), space("B", "N"), space("Z", "M", "N", read_write=True))
    forgets = StorageLevel("forgets", energy=AccessEnergy(fill=10), no_temporal_reuse=frozenset("A"))
    innermost = StorageLevel("innermost", energy=AccessEnergy(fill=3))
    nodes = (*(StorageLevel(f"buffer{i}") for i in range(3)), forgets, innermost)
    one = exactly(M=1, N=1)
    mapspace = Mapspace(
        Problem("outer", ("M", "N"), (4, 8), spaces),
        Architecture("a", nodes, Compute("mac")),
        (exactly(M=1, N=2), exactly(M=4, N=2), exactly(M=1, N=2), one, one),
        (),
        (*[KeepRules(frozenset("ABZ"))] * 2, *[KeepRules(frozenset("A"), frozenset("BZ"))] * 3),
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    value = best[0]
    assert isinstance(value, int)
    assert map_by_bounds(mapspace, Options(("energy",))).value == value


def test_one_dataspace_may_end_where_another_goes_on():
    """The loop over N leaves P and Q in place, that over K outside of it only Q."""
    spaces = (space("P", "K", "M"), space("Q", "M"), space("Z", "K", "N", "M", read_write=True))
    priced = [StorageLevel(name, energy=AccessEnergy(fill=1)) for name in ("holds Q", "holds P")]
    nodes = (StorageLevel("dram"), StorageLevel("passes"), *priced)
    mapspace = Mapspace(
        Problem("nested", ("K", "N", "M"), (5, 4, 2), spaces),
        Architecture("a", nodes, Compute("mac")),
        (exactly(K=5, N=1, M=1), exactly(K=1, N=4, M=1), exactly(K=1, N=1, M=1), exactly(K=1, N=1, M=2)),
        (),
        (
            KeepRules(frozenset("PQZ")),
            KeepRules(frozenset(), frozenset("PQZ")),
            KeepRules(frozenset("Q"), frozenset("PZ")),
            KeepRules(frozenset("P"), frozenset("QZ")),
        ),
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    assert best[0] == 2 + 2 * 5
    assert map_by_bounds(mapspace, Options(("energy",))).value == best[0]


def test_reuse_may_end_in_a_slot_outside_of_the_loops_that_made_it():
    """The loop over K leaves I in place; it is the one over P, a slot farther out, that moves it."""
    window = (Term("P", 3), Term("R", -1))
    spaces = (
        space("W", "K", "R", "S"),
        Dataspace("I", (window, (Term("S"),))),
        space("O", "K", "P", read_write=True),
    )
    dram = StorageLevel("dram", block_size=4, energy=AccessEnergy(read=141274, fill=141274, update=141274))
    energy = AccessEnergy(read=12971, fill=10594, update=16851)
    buffer = StorageLevel("buffer", size_words=380, block_size=2, energy=energy)
    register = StorageLevel("register", size_words=7, energy=AccessEnergy(read=452, fill=452, update=452))
    array = Fanout("array", 4, 1)
    split = SpatialRules((FactorRule("K", "=", 1), FactorRule("P", "=", 1)), outer=("S", "R"))
    mapspace = Mapspace(
        Problem("late", ("K", "P", "R", "S"), (2, 4, 2, 2), spaces),
        Architecture("a", (dram, array, buffer, register), Compute("mac")),
        (TemporalRules(), exactly(K=2, P=1), TemporalRules()),
        (split,),
        (KeepRules(frozenset("WIO")),) * 3,
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    assert map_by_bounds(mapspace, Options(("energy",))).value == best[0]


def test_a_loop_may_leave_less_in_place_than_any_class():
    """P and Q move all three dataspaces, outside of an empty slot; R and S leave one or two in place."""
    spaces = (
        Dataspace("A", ((Term("Q", -2), Term("P", -2)),)),
        Dataspace("B", ((Term("P", 3),), (Term("Q", 4),), (Term("Q"), Term("R")))),
        Dataspace("Z", ((Term("P", -1),), (Term("S", -1),), (Term("Q", -1), Term("R"))), read_write=True),
    )
    dram = StorageLevel("dram", block_size=2, energy=AccessEnergy(79766, 122129, 29836))
    buffer = StorageLevel("buffer", size_words=124, energy=AccessEnergy(2887, 2808, 3553))
    inner = StorageLevel("inner", size_words=1390, block_size=2, energy=AccessEnergy(8415, 9499, 17741))
    nodes = (dram, Fanout("rows", 4, 2), Fanout("columns", 2, 3, frozenset("Z")), buffer, inner)
    mapspace = Mapspace(
        Problem("both ways", ("P", "Q", "R", "S"), (5, 5, 3, 2), spaces),
        Architecture("a", nodes, Compute("mac")),
        (TemporalRules(), TemporalRules(), TemporalRules((FactorRule("P", "<=", 2),))),
        (SpatialRules(), SpatialRules()),
        (KeepRules(frozenset("ABZ")),) * 3,
        min_parallelism=Fraction(2),
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    result = map_by_bounds(mapspace, Options(("energy",)))
    assert (result.status, result.value) == (Status.OPTIMAL, best[0])


def test_classes_of_two_stages_may_look_alike_and_unroll_different_dimensions():
    """No dataspace tells B from M: the outer fanout unrolls one of them, the inner one the other."""
    spaces = (space("A", "B", "M", "K"), space("W", "K"), space("Z", "B", "M", read_write=True))
    buffer = StorageLevel("buffer", energy=AccessEnergy(1, 1, 1))
    nodes = (StorageLevel("dram"), Fanout("outer", 2), StorageLevel("middle"), Fanout("inner", 2), buffer)
    only_b, only_m = exactly(M=1, K=1).factors, exactly(B=1, K=1).factors
    nothing = exactly(B=1, M=1, K=1)
    mapspace = Mapspace(
        Problem("alike", ("B", "M", "K"), (2, 2, 2), spaces),
        Architecture("a", nodes, Compute("mac", 1)),
        (nothing, nothing, exactly(B=1)),
        (SpatialRules(only_b), SpatialRules(only_m)),
        (KeepRules(frozenset("AWZ")),) * 3,
        min_parallelism=Fraction(2),
    )
    best = optimum(mapspace, "energy")
    assert best is not None
    result = map_by_bounds(mapspace, Options(("energy",)))
    assert (result.status, result.value) == (Status.OPTIMAL, best[0])
