"""Rows of the table of a network."""

from dataclasses import replace
from io import StringIO

import pytest

from model.cascade import Layer, Network
from solver.network.run import LayerResult, NetworkResult
from solver.report.console import ReportConsole, print_page
from solver.report.network import bottleneck, network_document
from solver.report.pages import page_of
from solver.report.reading import as_value
from solver.result import Termination
from tests.solver.examples import EVALUATION, FEASIBLE, INFEASIBLE, MAPSPACE
from tests.solver.golden import reported


@pytest.mark.parametrize(("more", "name"), [(0, "compute"), (1, "buffer")])
def test_what_limits_a_layer_is_the_computes_unless_a_level_is_slower(more, name):
    slow = replace(EVALUATION.level("buffer"), cycles=EVALUATION.compute_cycles + more)
    others = [replace(level, cycles=1) for level in EVALUATION.levels if level.name != "buffer"]
    assert bottleneck(replace(EVALUATION, levels=(*others, slow))) == name


@pytest.mark.parametrize(
    ("termination", "words"),
    [
        (Termination.TIME_LIMIT, "1 stopped by the time limit (`--time-limit`)"),
        (Termination.MEMORY_LIMIT, "1 stopped by the memory limit (`--memory-limit`)"),
    ],
)
def test_the_status_tells_which_limit_stopped_searches(termination, words):
    layer = Layer("one", MAPSPACE)
    answer = LayerResult(layer, replace(FEASIBLE, termination=termination), "searched")
    result = NetworkResult(Network("net", (layer,)), (answer,), 1.0)
    assert reported(network_document(result)).splitlines()[0] == f"FEASIBLE 0 of 1 Einsums proven; {words}"


def test_conflicts_of_the_same_lines_are_told_once():
    (reason,) = INFEASIBLE.reasons
    other = replace(INFEASIBLE, reasons=(replace(reason, text="Weights needs 20 words"),))
    answers = {"one": INFEASIBLE, "two": other}
    layers = tuple(LayerResult(Layer(name, MAPSPACE), own, "searched") for name, own in answers.items())
    network = Network("net", tuple(own.layer for own in layers))
    text = reported(network_document(NetworkResult(network, layers, 1.0)))
    assert text.count("No mapping of") == text.count("Conflict:") == 1
    assert "Likewise `two`\n  Weights needs 20 words\n" in text


@pytest.mark.parametrize("bound", [FEASIBLE.value, FEASIBLE.bound])
def test_a_bound_is_shown_where_it_differs_from_the_value(bound):
    layer = Layer("one", MAPSPACE)
    outcome = LayerResult(layer, replace(FEASIBLE, bound=bound), "searched")
    text = reported(network_document(NetworkResult(Network("net", (layer,)), (outcome,), 1.0)))
    assert (" Bound " in text) == (bound != FEASIBLE.value)


def test_names_of_layers_cannot_forge_rows(monkeypatch):
    layer = Layer("\x1b[31mEVIL\n[red]OPTIMAL", MAPSPACE)
    result = NetworkResult(Network("net\x07", (layer,)), (LayerResult(layer, INFEASIBLE, "searched"),), 1.0)
    stream = StringIO()
    print_page(ReportConsole(stream, on_terminal=False), page_of(as_value(network_document(result))))
    text = stream.getvalue()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert text.count("\ufffd[31mEVIL\ufffd[red]OPTIMAL") == 3
    assert network_document(result)["layers"][0]["name"] == layer.name
