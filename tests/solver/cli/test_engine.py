"""`map --engine`, `map --export-model` and `prove --engine`."""

import json
from pathlib import Path

import pytest

from solver import stages
from solver.cli.main import main
from solver.result import CP_SAT, ContradictionError
from tests.solver.examples import INFEASIBLE

SPEC = str(Path(__file__).parent / "data" / "row.yaml")
PERFECT = ("--factors", "perfect")  # with remainders CP-SAT takes minutes


def document(path: Path) -> dict[str, object]:
    return json.loads(path.read_text())


def test_both_engines_find_the_same(tmp_path: Path):
    found = {}
    for engine in ("auto", "bounds", "cp-sat"):
        out = tmp_path / f"{engine}.json"
        assert main(["map", SPEC, "--engine", engine, "--quiet", "--json", str(out)]) == 0
        found[engine] = document(out)
    values = {engine: own["value"] for engine, own in found.items()}
    assert len(set(map(str, values.values()))) == 1
    assert found["cp-sat"]["statistics"]["core_calls"] > 0
    assert found["bounds"]["statistics"]["core_calls"] == 0
    engines = {name: {own["engine"] for own in run["statistics"]["stages"]} for name, run in found.items()}
    assert engines["bounds"] == {"bounds", "cost model"}
    assert engines["cp-sat"] == {"cp-sat", "cost model"}


@pytest.mark.slow
def test_both_engines_search_remainders(tmp_path: Path):
    ruby = tmp_path / "ruby.yaml"
    ruby.write_text("mapspace: {version: 0.4, template: ruby}\n")
    out = tmp_path / "out.json"
    small = tmp_path / "small.yaml"
    sized = Path(SPEC).read_text().replace("R: 3, P: 4, C: 4, M: 6", "R: 3, P: 1, C: 1, M: 5")
    small.write_text(sized)
    values = []
    for engine in ("bounds", "cp-sat"):
        assert main(["map", str(small), str(ruby), "--engine", engine, "--quiet", "--json", str(out)]) == 0
        assert document(out)["status"] == "OPTIMAL"
        values.append(document(out)["value"])
    assert values[0] == values[1]


def test_prove_asks_cp_sat_as_a_further_witness(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    small = tmp_path / "small.yaml"
    small.write_text(Path(SPEC).read_text().replace("R: 3, P: 4, C: 4, M: 6", "R: 3, P: 2, C: 2, M: 2"))
    assert (
        main(["prove", str(small), *PERFECT, "--engine", "cp-sat", "--objective", "energy", "--quiet"]) == 0
    )
    out = capsys.readouterr().out
    assert "OPTIMAL by the optimizer" in out
    assert "OPTIMAL by CP-SAT alone" in out
    assert "VALID" in out


def test_a_disagreement_is_a_defect(monkeypatch: pytest.MonkeyPatch):
    searched = stages.map_einsum

    def wrong_by_cp_sat(mapspace, options, *further):
        return INFEASIBLE if options.engine == CP_SAT else searched(mapspace, options, *further)

    monkeypatch.setattr(stages, "map_einsum", wrong_by_cp_sat)
    with pytest.raises(ContradictionError, match="disagree"):
        main(["prove", SPEC, *PERFECT, "--engine", "cp-sat", "--objective", "energy", "--quiet"])


@pytest.mark.parametrize("suffix", ["pb", "mps", "fzn"])
def test_models_are_exported(suffix: str, tmp_path: Path):
    model = tmp_path / f"model.{suffix}"
    assert (
        main(["map", SPEC, *PERFECT, "--objective", "energy", "--export-model", str(model), "--quiet"]) == 0
    )
    assert model.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--export-model", "x.mps", "--objective", "edp"], "not their product"),
        (["--export-model", "x.lp"], "does not end in"),
        (["--engine", "cp-sat", "--sensitivity"], "--sensitivity needs many searches by bounds"),
        (["--engine", "cp-sat", "--pareto"], "--pareto uses bounds"),
        (["--engine", "cp-sat", "--counting", "timeloop"], "does not support this"),
        (["--engine", "guess"], "invalid choice"),
    ],
)
def test_what_does_not_go_together(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["map", SPEC, *options])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tight = tmp_path / "tight.yaml"
    busy = "class: intmac\n      constraints: {min_parallelism: 0.9}"
    text = Path(SPEC).read_text().replace("meshX: 4", "meshX: 5").replace("class: intmac", busy)
    text = text.replace("R: 3, P: 4, C: 4, M: 6", "R: 3, P: 2, C: 2, M: 2")
    tight.write_text(text)
    assert main(["map", str(tight), *PERFECT, "--engine", "cp-sat"]) == 4
    assert "Conflict" in capsys.readouterr().out
