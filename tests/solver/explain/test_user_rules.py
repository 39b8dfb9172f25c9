"""Rules of the user's own in explanations: blamed where nothing fits, priced where something does."""

from dataclasses import replace

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.mapspace import Mapspace
from solver.explain import Verdict, constraint_costs, diagnose, explain_infeasible
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace, matmul

MAPSPACE = free_mapspace(
    matmul(4, 4, 4),
    StorageLevel("DRAM", energy=AccessEnergy(64, 64, 64)),
    StorageLevel("buffer", size_words=24, energy=AccessEnergy(4, 4, 4)),
    Fanout("PE", 2, 2),
)


def blamed(mapspace: Mapspace) -> list[str]:
    (reason,) = explain_infeasible(mapspace)
    assert reason.irreducible
    assert len(reason.levers) == len(reason.constraints)
    return [statement.text for statement in reason.constraints]


def test_rules_that_conflict_are_blamed_and_no_others():
    assert blamed(MAPSPACE.where("tile(buffer, M) >= 2", "tile(buffer, K) % 3 == 0")) == [
        "tile(buffer, K) % 3 == 0"
    ]
    pair = ["tile(buffer, M) * tile(buffer, N) >= 8", "tile(buffer, M) == tile(buffer, N)"]
    full = "words(buffer, A) >= 8"
    together = MAPSPACE.where("instances(PE) >= 2", *pair, full)
    assert optimum(together, "energy") is None
    found = blamed(together)
    assert set(found) <= {*pair, full}
    for rule in found:
        assert optimum(MAPSPACE.where(*(other for other in found if other != rule)), "energy") is not None


def test_a_conflict_without_rules_is_explained_as_ever():
    tiny = free_mapspace(matmul(4, 4, 4), StorageLevel("DRAM"), StorageLevel("buffer", size_words=2))
    result = map_einsum(tiny.where("tile(buffer, M) == 2"), Options(objectives=("energy",)))
    assert result.status is Status.INFEASIBLE
    assert "buffer" in result.reasons[0].text
    assert diagnose(tiny.where("tile(buffer, M) == 2")).verdict is Verdict.INFEASIBLE


def test_a_diagnosis_claims_no_mapping_that_breaks_a_rule():
    broken = diagnose(MAPSPACE.where("tile(buffer, K) % 3 == 0"))
    assert (broken.verdict, broken.witness) == (Verdict.UNKNOWN, None)
    fine = diagnose(MAPSPACE.where("tile(DRAM, K) == 4"))
    assert fine.verdict is Verdict.FEASIBLE


def test_rules_have_costs_and_stay_when_a_capacity_is_lifted():
    words, few = "words(buffer, A) <= 0.25 * capacity(buffer)", "instances(PE) <= 2"
    report = constraint_costs(MAPSPACE.where(words, few), Options(objectives=("energy",)), map_einsum)
    costs = {cost.statement.text: cost for cost in report.clauses}
    unlimited = replace(MAPSPACE.architecture.levels[1], size_words=None)
    nodes = (MAPSPACE.architecture.nodes[0], unlimited, MAPSPACE.architecture.nodes[2])
    roomy = replace(MAPSPACE, architecture=replace(MAPSPACE.architecture, nodes=nodes))
    expected = {
        words: MAPSPACE.where(few),
        few: MAPSPACE.where(words),
        "`buffer` holds 24 words": roomy.where("words(buffer, A) <= 6", few),
    }
    for text, mapspace in expected.items():
        assert costs[text].proven
        assert costs[text].result.value == optimum(mapspace, "energy")[0]
