"""Pages of sparse data: what limits the cycles agrees with the cycles themselves."""

import pytest

from solver.notebook import load, map_einsum
from solver.report.document import headed
from solver.report.pages import report_html
from solver.report.reading import as_value
from solver.result import Options
from tests.conftest import REPOSITORY

PROBLEM = {
    "problem": {
        "version": 0.4,
        "shape": "cnn-layer",
        "instance": {"R": 3, "S": 1, "P": 4, "Q": 1, "C": 8, "K": 8, "N": 1},
        "densities": {"Inputs": 0.5, "Weights": 0.5},
    }
}


@pytest.fixture(scope="module")
def document():
    spec = load(str(REPOSITORY / "specs" / "sparse" / "eyeriss_gating.yaml"), PROBLEM)
    result = map_einsum(spec, Options(gap=0.9))  # a page needs no proof
    return headed(result.document())


def test_bandwidths_in_use_explain_the_cycles(document):
    busy = max(level["cycles"] for level in document["levels"])
    assert document["cycles"] == busy
    for level in document["levels"]:
        shares = [slack["used"] / slack["limit"] for slack in level["slack"].values()]
        assert all(share <= 1 for share in shares)
        if level["cycles"] > document["compute_cycles"]:
            # The words of the scarcest bandwidth take the level's cycles, rounded up.
            assert level["cycles"] - 1 < max(shares) * busy <= level["cycles"]


def test_the_page_shows_them(document):
    text = report_html(as_value(document))
    assert "Latency bottleneck" in text and ">Roofline<" in text and ">Array</h2>" in text
