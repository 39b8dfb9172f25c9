"""A small mapspace with a mapping made by hand, and results of a search that never ran."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import (
    FactorRule,
    KeepRules,
    Mapspace,
    ParallelGroup,
    SpatialRules,
    TemporalRules,
)
from model.note import Note
from model.problem import Dataspace, Problem, Term
from model.source_ref import SourceRef
from solver.result import Lever, Reason, Result, Shortfall, Statement, Statistics, Status, Termination
from solver.stages import map_einsum

WEIGHTS = Dataspace("Weights", ((Term("C"),), (Term("M"),), (Term("R"),)))
INPUTS = Dataspace("Inputs", ((Term("C"),), (Term("R"), Term("P", 2))))
OUTPUTS = Dataspace("Outputs", ((Term("M"),), (Term("P"),)), read_write=True)
PROBLEM = Problem("conv1d", ("R", "P", "C", "M"), (3, 8, 4, 6), (WEIGHTS, INPUTS, OUTPUTS))

ARCHITECTURE = Architecture(
    "row",
    (
        StorageLevel(
            "DRAM", block_size=4, energy=AccessEnergy(512_000, 512_000, 512_000, 0, (("read", "ERT.yaml:7"),))
        ),
        StorageLevel(
            "buffer",
            size_words=256,
            read_bandwidth=Fraction(1),
            energy=AccessEnergy(
                6_250,
                7_125,
                7_125,
                40,
                (("read", "ERT.yaml:12"), ("fill", "ERT.yaml:15"), ("leak", "estimator (SRAM)")),
            ),
        ),
        Fanout("column", 4, 1),
        Fanout("PE", 1, 3),
        StorageLevel(
            "weight_spad", size_words=16, energy=AccessEnergy(900, 900, 900, 0, (("read", "given"),))
        ),
        StorageLevel(
            "output_spad", size_words=8, energy=AccessEnergy(800, 800, 800, 0, (("read", "given"),))
        ),
    ),
    Compute("mac", 1_150, "ERT.yaml:30"),
    units_per_pj=1000,
)

MAPSPACE = Mapspace(
    PROBLEM,
    ARCHITECTURE,
    temporal=(
        TemporalRules(),
        TemporalRules(inner=("P",), outer=("M",)),
        TemporalRules((FactorRule("P", "=", 1),)),
        TemporalRules((FactorRule("C", "=", 1), FactorRule("R", "<=", 2))),
    ),
    spatial=(
        SpatialRules((FactorRule("R", "=", 1),), inner=("C", "M"), uncounted=frozenset({"R"}), split=4),
        SpatialRules(split=0),
    ),
    keep=(
        KeepRules(frozenset({"Weights", "Inputs", "Outputs"})),
        KeepRules(frozenset({"Inputs", "Outputs"}), frozenset({"Weights"})),
        KeepRules(frozenset({"Weights"}), frozenset({"Inputs", "Outputs"})),
        KeepRules(frozenset({"Outputs"}), frozenset({"Inputs", "Weights"})),
    ),
    parallel=(ParallelGroup((2, 3), may_skip=True),),
    notes=(Note("mapper.timeout is not needed: the search is exact"),),
)

MAPPING = Mapping(
    (
        StorageMapping((Loop("M", 2),), frozenset({"Weights", "Inputs", "Outputs"})),
        StorageMapping((Loop("P", 8), Loop("C", 1)), frozenset({"Inputs", "Outputs"})),
        FanoutMapping((SpatialLoop("C", 4, "x"),)),
        FanoutMapping((SpatialLoop("R", 3, "y"),)),
        StorageMapping((), frozenset({"Weights"})),
        StorageMapping((Loop("M", 3),), frozenset({"Outputs"})),
    )
)

EVALUATION = evaluate(PROBLEM, ARCHITECTURE, MAPPING)

OPTIMAL = Result(
    Status.OPTIMAL,
    Termination.PROVEN,
    ("edp",),
    ARCHITECTURE.units_per_pj,
    value=EVALUATION.edp,
    bound=EVALUATION.edp,
    mapping=MAPPING,
    evaluation=EVALUATION,
    statistics=Statistics(seconds=1.25, states=12_345, mappings_priced=67),
)
FEASIBLE = replace(
    OPTIMAL,
    status=Status.FEASIBLE,
    termination=Termination.TIME_LIMIT,
    objectives=("energy", "latency"),
    value=EVALUATION.energy,
    bound=EVALUATION.energy - 2_000,
)
INFEASIBLE = Result(
    Status.INFEASIBLE,
    Termination.PROVEN,
    ("edp",),
    ARCHITECTURE.units_per_pj,
    reasons=(
        Reason(
            "Weights needs at least 12 words, `weight_spad` holds 8: 4 too few",
            (SourceRef("arch.yaml", 12, 9), SourceRef("arch.yaml", 14, 5)),
            constraints=(
                Statement("`weight_spad` keeps Weights", (SourceRef("arch.yaml", 12, 9),)),
                Statement("`weight_spad` holds 8 words", (SourceRef("arch.yaml", 14, 5),)),
            ),
            irreducible=True,
            shortfalls=(
                Shortfall(
                    "Weights needs at least 12 words, `weight_spad` holds 8: 4 too few", 12, 8, "words"
                ),
            ),
            levers=(
                Lever("`weight_spad` bypassing Weights", sources=(SourceRef("arch.yaml", 12, 9),)),
                Lever("`weight_spad` with 12 words instead of 8", 8, 12, (SourceRef("arch.yaml", 14, 5),)),
            ),
        ),
    ),
)
UNKNOWN = Result(Status.UNKNOWN, Termination.INTERRUPTED, ("latency",), ARCHITECTURE.units_per_pj, bound=48)


def unaided(mapspace, options, on_progress=None, should_stop=None, _known=None):
    """A search that makes nothing of a known mapping, and gives no reasons; remembered by its mapspace."""
    if on_progress is None and should_stop is None:
        return _alone(mapspace, options)
    return map_einsum(mapspace, options, on_progress, should_stop, reasons=False)


@cache
def _alone(mapspace, options):
    return map_einsum(mapspace, options, reasons=False)
