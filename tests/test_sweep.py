"""The sweep over networks, architectures and attribute values."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.solver.network.conftest import ARCHITECTURE, WORKLOAD

SWEEP = REPOSITORY / "scripts" / "sweep.py"


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "a.yaml").write_text(ARCHITECTURE, encoding="utf-8")
    (directory / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    command = [sys.executable, str(SWEEP), "--networks", "w.yaml", "--architectures", "a.yaml", *arguments]
    return subprocess.run(
        [*command, "--cache", "cache", "--jobs", "1"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_combination_is_mapped(tmp_path: Path):
    vary = ("--vary", "buffer.depth=12,24", "--vary", "DRAM.shared_bandwidth=4,8")
    done = run(tmp_path, *vary, "--json", "out.json", "--objective", "energy")
    assert done.returncode == 0, done.stderr
    points = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [point["overrides"] for point in points] == [
        [f"buffer.depth={depth}", f"DRAM.shared_bandwidth={width}"] for depth in (12, 24) for width in (4, 8)
    ]
    energies = [point["energy_pj"] for point in points]
    assert energies[2] <= energies[0]
    assert energies[0] == energies[1]
    assert all(point["status"] == "OPTIMAL" for point in points)
    assert "buffer.depth=24" in done.stdout


def test_a_picture(tmp_path: Path):
    pytest.importorskip("matplotlib")
    done = run(tmp_path, "--vary", "buffer.depth=12,24", "--picture", "out.svg")
    assert done.returncode == 0, done.stderr
    assert "energy" in (tmp_path / "out.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vary", "bufer.depth=3"), "did you mean `buffer`?"),
        (("--vary", "buffer=3"), "does not set an attribute"),
        (("--objective", "speed"), "unknown objective"),
        (("--picture", "out.txt"), "a picture's name ends in"),
    ],
)
def test_errors_of_users(tmp_path: Path, arguments: tuple[str, ...], message: str):
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
