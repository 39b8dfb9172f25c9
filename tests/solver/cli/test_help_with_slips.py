"""Slips on the command line: each is refused before the run, with what was meant."""

from datetime import datetime

import pytest

from model.text.files import Limits, read_text
from model.text.reader import parse_assignments
from model.text.source import SpecError
from solver.cli.main import main
from solver.cli.searches import pace_text
from solver.network.run import NetworkProgress
from tests.conftest import REPOSITORY

LAYER = "specs/layers/resnet18/21_fc.yaml"
TPU = "specs/architectures/tpu_like.yaml"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("specs/architectures/tpu_lik.yaml", TPU),
        ("specs/architecture/tpu_like.yaml", TPU),
        ("spec/architecturs/tpu_like.yml", TPU),
        ("specs/layers/resnet-18/21_fc.yaml", LAYER),
        ("mine/arch.yml", "mine/arch.yaml"),
    ],
)
def test_slips_in_paths(written, meant, working_directory, capsys):
    (working_directory / "mine").mkdir()
    (working_directory / "mine/arch.yaml").write_text("a: 1", encoding="utf-8")
    assert main(["map", written, LAYER]) == 2
    assert f"did you mean `{meant}`?" in capsys.readouterr().err


def test_absolute_paths_have_suggestions_too(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/buffer.yaml").write_text("a: 1", encoding="utf-8")
    with pytest.raises(SpecError) as raised:
        read_text(tmp_path / "foldr/bufer.yaml", Limits())
    assert raised.value.hint == f"did you mean `{tmp_path}/folder/buffer.yaml`?"
    with pytest.raises(SpecError) as raised:
        read_text(tmp_path / "zzqx.yaml", Limits())
    assert raised.value.hint is None


@pytest.mark.parametrize("text", ["N_TOKEN=", "N_TOKEN= "])
def test_variables_have_values(text):
    with pytest.raises(SpecError, match="has no value"):
        parse_assignments([text])


@pytest.mark.parametrize(
    "option",
    ["--jobs", "--time-limit", "--memory-limit", "--gap"],
)
@pytest.mark.parametrize("value", ["-3", "-0.5"])
def test_options_must_not_be_negative(option, value, capsys):
    with pytest.raises(SystemExit):
        main(["map", TPU, LAYER, option, value])
    assert f"argument {option}: the value must not be negative, but is '{value}'" in capsys.readouterr().err


def test_evaluate_says_how_to_get_a_mapping(working_directory, capsys):
    assert main(["evaluate", TPU, LAYER]) == 2
    assert "`map SPEC... --mapping OUT.yaml` finds the best one" in capsys.readouterr().err


def test_figures_beyond_the_tables_are_extrapolated(working_directory, capsys):
    text = working_directory / "arch.yaml"
    written = (REPOSITORY / TPU).read_text(encoding="utf-8")
    for node, is_noted in (("3nm", True), ("7nm", False), ("150nm", True), ("45nm", False)):
        text.write_text(written.replace("28nm", node), encoding="utf-8")
        assert node in text.read_text(encoding="utf-8")
        main(["map", "arch.yaml", LAYER, "--factors", "perfect", "--time-limit", "0"])
        printed = capsys.readouterr()
        assert ("extrapolated" in printed.out + printed.err) == is_noted


def test_a_run_says_when_it_will_end():
    now = datetime(2026, 1, 2, 23, 59, 50)
    assert pace_text(None, 0, 3.0, now) == "elapsed 3.00 s"
    progress = NetworkProgress(3, 8, layer=None)
    assert pace_text(progress, 3, 3.0, now) == "elapsed 3.00 s"
    assert pace_text(progress, 1, 4.0, now) == "elapsed 4.00 s, remaining 10.00 s, ETA 00:00:00"
