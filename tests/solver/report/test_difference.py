"""``report A B``: what two results have in common, and what differs."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.report.difference import difference_document
from solver.report.reading import Value, as_value
from tests.small_network import write_specs
from tests.solver.explain.row import edited

DATA = Path(__file__).parents[1] / "cli" / "data"


def written(name: str, *words: str) -> Value:
    """Run a command, and return the document that it writes."""
    main([*words, "--json", name, "--jobs", "1"])
    return Value(json.loads(Path(name).read_text(encoding="utf-8")))


@pytest.fixture
def searched(working_directory):
    Path("row.yaml").write_text(edited(), encoding="utf-8")
    return written("best.json", "map", "row.yaml")


def test_energies_of_levels_add_up_to_the_difference(searched, capsys):
    given = ("evaluate", "row.yaml", "--mapping", str(DATA / "row_mapping.yaml"))
    main([*given, "--json", "given.json"])
    capsys.readouterr()
    assert main(["report", "given.json", "best.json", "--json", "difference.json", "--output", "d.html"]) == 0
    printed = capsys.readouterr().out
    document = json.loads(Path("difference.json").read_text(encoding="utf-8"))
    other = json.loads(Path("given.json").read_text(encoding="utf-8"))
    figures = {row["name"]: (row["before"], row["after"]) for row in document["figures"]}
    assert figures["energy_pj"] == (other["energy_pj"], searched["energy_pj"].raw)
    assert figures["cycles"] == (other["cycles"], searched["cycles"].raw)
    for side, total in (("before", other["energy_pj"]), ("after", searched["energy_pj"].raw)):
        assert sum(row[side] for row in document["energies_pj"]) == pytest.approx(total)
    changed = {row["name"] for row in document["mapping"]}
    assert changed and all(name in printed for name in changed)
    assert [own["path"] for own in document["run"]["inputs"]] == ["given.json", "best.json"]
    assert Path("d.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["report", "difference.json", "--output", "again.html"]) == 0


def test_a_result_is_the_same_as_itself(searched, capsys):
    capsys.readouterr()
    assert main(["report", "best.json", "best.json"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("SAME ") and "Both mappings are the same." in printed


def test_networks_are_compared_einsum_by_einsum(working_directory):
    write_specs()
    words = ("network", "w.yaml", "a.yaml", "--no-cache")
    least, fastest = (written(f"{name}.json", *words, "--objective", name) for name in ("energy", "latency"))
    document = difference_document(least, fastest, ("energy", "latency"))
    figures = {row["name"]: row for row in document["figures"]}
    for key in ("energy_pj", "cycles"):
        for side, of in (("before", least), ("after", fastest)):
            assert sum(row[key][side] for row in document["einsums"]) == pytest.approx(of[key].raw)
            assert figures[key][side] == of[key].raw
    parts = sum(row["before"] for row in document["energies_pj"])
    assert parts == pytest.approx(least["energy_pj"].raw)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["row.json", "net.json"], "kind: 'map' and 'network' are not compared"),
        (["row.json", "other.json"], "are compared, not 'assign'"),
        (["row.json", "absent.json"], "absent.json: cannot be read"),
        (["row.json", "row.json", "row.json"], "`report` compares two results, not 3"),
        (["row.json", "--json", "out.json"], "--json needs two results"),
        (["row.json", "net.json", "--output", "net.json"], "it is one of the inputs"),
    ],
)
def test_what_is_not_compared_is_refused(words, message, working_directory, capsys):
    for name, kind in (("row", "map"), ("net", "network"), ("other", "assign")):
        Path(f"{name}.json").write_text(json.dumps({"kind": kind}), encoding="utf-8")
    assert main(["report", *words]) == 2
    assert message in capsys.readouterr().err


def test_results_of_different_questions_say_so():
    sides = [
        as_value(
            {
                "kind": "map",
                "problem": "p",
                "status": "INFEASIBLE",
                "counting": "exact",
                "einsum": {"text": "Z[M] += A[M]", "dimensions": {"M": size}},
                "energy_pj": None,
                "cycles": None,
            }
        )
        for size in (3, 4)
    ]
    document = difference_document(*sides, ("a", "b"))
    assert document["notes"] == [
        "the results are of different Einsums: Z[M] += A[M] with M 3; Z[M] += A[M] with M 4",
        "the first result has no mapping",
        "the second result has no mapping",
    ]
    assert document["figures"] == document["energies_pj"] == document["mapping"] == []
