"""Which word sizes count where a workload and an architecture say different things."""

import pytest

from model.formats.cascade.loader import load_network
from solver.network.run import NetworkResult
from solver.report.network import network_document
from solver.report.pages import report_html
from solver.report.reading import as_value
from tests.conftest import REPOSITORY

EYERISS = REPOSITORY / "specs/architectures/eyeriss_like.yaml"
BOTH = "the sizes of the values count"
WORDS = "values have 16 bits, the sizes of the architecture's words, unless a problem has `bitwidths`"


def notes(*paths, **variables):
    return [str(note) for note in load_network(paths, variables).notes]


def test_a_workload_says_which_bits_count():
    (note,) = [own for own in notes(REPOSITORY / "specs/workloads/resnet18.yaml", EYERISS) if BOTH in own]
    said = "values have 8 bits in the workload, and words have 16 bits in the architecture"
    assert note.startswith(said)


def test_layers_have_the_words_of_the_architecture():
    assert WORDS in notes(REPOSITORY / "specs/layers/resnet18/21_fc.yaml", EYERISS)


@pytest.mark.parametrize("path", ["specs/workloads/resnet18.yaml", "specs/layers/resnet18"])
def test_pages_and_documents_say_it(path):
    network = load_network([REPOSITORY / path, EYERISS])
    document = network_document(NetworkResult(network, (), 0.0))
    assert sum(BOTH in note or note == WORDS for note in document["notes"]) == 1
    page = report_html(as_value(document))
    assert "count, so a row" in page or "unless a problem has" in page


def test_equal_sizes_need_no_note(tmp_path):
    text = (REPOSITORY / "specs/workloads/three_matmuls.yaml").read_text(encoding="utf-8")
    for bits, count in ((16, 0), (4, 1)):
        path = tmp_path / f"bits{bits}.yaml"
        path.write_text(text.replace("{All: 8}", f"{{All: {bits}}}"), encoding="utf-8")
        assert sum(BOTH in own for own in notes(path, EYERISS)) == count
