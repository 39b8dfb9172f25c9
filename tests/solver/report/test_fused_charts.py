"""Charts of fused mappings: the order of visits, and that sums are those of the document."""

import pytest

from solver.report.document import headed
from solver.report.fused import fused_result_document
from solver.report.fused_charts import (
    MOST_VISITS,
    all_runs,
    savings_table,
    shown_visits,
    tensor_inks,
    timeline_caption,
)
from solver.report.mapped import shown_mapping
from solver.report.reading import Value, as_value
from tests.solver.report.test_pages import attended


def leaf(name):
    return {"einsum": name, "held": [], "waits": []}


def group(trips, *children):
    return {"loops": [{"trips": trip, "tile": 1, "dims": {}} for trip in trips], "children": list(children)}


def visits(*tree):
    return shown_visits(Value(list(tree)).entries())


def test_visits_come_in_the_order_of_the_loops():
    shown = visits(leaf("A"), group((2,), leaf("B"), group((2,), leaf("C"), leaf("D"))), leaf("E"))
    assert "".join(name for name, _ in shown) == "ABCDCDBCDCDE"


@pytest.mark.parametrize("trips", [(1000,), (10, 100)])
def test_of_many_rounds_the_first_are_shown(trips):
    shown = visits(group(trips, leaf("A"), leaf("B")), leaf("C"))
    names = [name for name, left_out in shown if not left_out]
    assert names == [*"AB" * ((MOST_VISITS - 1) // 2), "C"]
    assert shown[-2] == ("", 1000 - (MOST_VISITS - 1) // 2)


def test_every_einsum_is_shown_however_many_there_are():
    shown = visits(group((9,), *map(leaf, "ABCDEFGH" * 10)))
    assert "".join(name for name, _ in shown) == "ABCDEFGH" * 10


@pytest.fixture(scope="module")
def document():
    return as_value(headed(fused_result_document(attended(), ())))


def test_energies_by_tensor_add_up(document):
    _, fused = all_runs(document["einsums"].entries())
    _, unfused = all_runs(document["unfused"]["einsums"].entries())
    assert sum(fused.values()) == pytest.approx(document["energy_pj"].number())
    assert sum(unfused.values()) == pytest.approx(document["unfused"]["energy_pj"].number())


def test_what_stays_on_chip_saves_its_traffic(document):
    before, now = (all_runs(each["einsums"].entries()) for each in (document["unfused"], document))
    stored = {each["tensor"].text() for each in document["stored"].entries()}
    assert stored
    assert all(not now[0][tensor] and before[0][tensor] for tensor in stored)
    saved = {row[0]: row[3][0] for row in savings_table("Main", now, before).rows}
    assert all(saved[tensor] == "100.00 %" for tensor in stored)


def test_a_visit_has_the_tiles_and_colours_of_the_page(document):
    einsums = document["einsums"].entries()
    inks = tensor_inks(einsums)
    assert len(set(inks.values())) == len(inks)
    for einsum in einsums:
        own = {space: inks[tensor.text()] for space, tensor in einsum["tensors"].items()}
        kinds = einsum["kinds"].entries()
        assert sum(kind["visits"].count() for kind in kinds) == einsum["visits"].count()
        for kind in kinds:
            shown = shown_mapping(kind, own)
            assert {tile.dataspace for node in shown.nodes for tile in node.tiles} == set(own)
            assert all(shown.inks[space] == ink for space, ink in own.items())


def test_the_caption_counts_visits(document):
    tree, einsums = document["tree"].entries(), document["einsums"].entries()
    drawn = sum(not left_out for _, left_out in shown_visits(tree))
    every = sum(each["visits"].count() for each in einsums)
    assert ("visits" in timeline_caption(tree, einsums)) == (drawn < every)
