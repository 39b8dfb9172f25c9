"""Prices mappings here and with AccelForge, where it is installed, and lists where the figures differ.

    python scripts/agree_accelforge.py EXAMPLES --python ../accelforge/bin/python --only nvdla

EXAMPLES is the folder `examples` of AccelForge's sources, whose architectures and workloads are read as they
stand. Our search maps single Einsums and fused chains of matrix products on them; each mapping is written in
AccelForge's form, read and priced again here, and priced by AccelForge's `evaluate_mapping` under the
interpreter of --python. Prices have to agree to 1e-6. The exit code is 1 if some do not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.formats.cascade.loader import load_einsum
from model.formats.fused import accelforge_mapping, einsum_mapping, load_cascade, load_fused
from model.formats.timeloop import AccelForgeOptions, LoadOptions
from model.fused.cost import evaluate_fused
from model.objective import EDP, ENERGY, LATENCY
from model.text.source import SpecError
from solver.fusion import NotSearchedError, fuse_cascade
from solver.result import Options
from solver.stages import map_einsum

ARCHITECTURES = ("simple", "snowcat", "nvdla", "tpu_v4i")
FANOUTS = ("at_mac", "at_mac_with_constraints", "at_glb", "at_glb_with_fanout_node")
SIZES = ((1, 96, 60), (2, 32, 24), (3, 16, 24))
"""Products in a chain, rows, and columns of each."""

TOLERANCE = 1e-6

PRICING = """
import contextlib, io, json, sys, warnings
warnings.filterwarnings("ignore")
import pydot
pydot.core.Dot.create = lambda *arguments, **options: b"<svg></svg>"
from accelforge import Spec
for line in sys.stdin:
    files, variables = json.loads(line)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            priced = Spec.from_yaml(*files, jinja_parse_data=variables).evaluate_mapping()
            answer = [float(priced.energy()), float(priced.latency())]
    except Exception as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""
"""What runs under AccelForge's interpreter: a line of files and variables in, joules and seconds out."""


@dataclass(frozen=True)
class Case:
    """A chain of products on an architecture, and what is minimised."""

    architecture: Path
    products: int
    rows: int
    columns: int
    objective: str

    @property
    def name(self) -> str:
        """For people."""
        shape = f"{self.products} products of {self.rows} x {self.columns}"
        return f"{self.architecture.stem} {shape} {self.objective}"

    @property
    def variables(self) -> dict[str, object]:
        """Those of the workload's template."""
        return {"N_EINSUMS": self.products, "M": self.rows, "KN": self.columns}


def cases(examples: Path) -> Iterator[Case]:
    """Yield all cases."""
    arches = examples / "arches"
    files = [arches / f"{name}.yaml" for name in ARCHITECTURES]
    files += [arches / "fanout_variations" / f"{name}.yaml" for name in FANOUTS]
    for file in files:
        for products, rows, columns in SIZES:
            objectives = (ENERGY, LATENCY, EDP) if products == 1 else (ENERGY,)
            yield from (Case(file, products, rows, columns, objective) for objective in objectives)


def mapped(case: Case, workload: Path, time_limit_s: float) -> str | None:
    """Return the mapping that our search finds, as text, if it finds one."""
    files, options = [workload, case.architecture], Options((case.objective,), time_limit_s)
    if case.products == 1:
        outside = LoadOptions(accelforge=AccelForgeOptions(stored_outside=True), factors="perfect")
        mapspace = load_einsum(files, "Matmul0", case.variables, outside).mapspace
        nest = map_einsum(mapspace, options).mapping
        return None if nest is None else einsum_mapping(mapspace, "Matmul0", nest)
    cascade, _ = load_cascade(files, case.variables, LoadOptions(factors="perfect"))
    found = fuse_cascade(cascade, case.objective, options).mapping
    return None if found is None else accelforge_mapping(cascade, found)


def priced_here(case: Case, workload: Path, file: Path, time_limit_s: float) -> list[float] | str:
    """Write the mapping that our search finds, and price the file; or say why there is none."""
    try:
        text = mapped(case, workload, time_limit_s)
    except (SpecError, NotSearchedError) as error:
        return f"not searched: {error}"
    if text is None:
        return "no mapping found"
    file.write_text(text, encoding="utf-8")
    loaded = load_fused([workload, case.architecture], file, case.variables)
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    return [cost.energy_j, float(cost.latency_s or 0)]


def priced_there(other: subprocess.Popen[str], files: Sequence[Path], case: Case) -> list[float] | str:
    """Have AccelForge price a mapping; or what it says against that."""
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write(json.dumps([[str(file) for file in files], case.variables]) + "\n")
    other.stdin.flush()
    answer: list[float] | str = json.loads(other.stdout.readline())
    return answer


def are_equal(ours: list[float], theirs: list[float] | str) -> bool:
    """Whether energies and latencies agree."""
    if isinstance(theirs, str):
        return False
    return all(abs(own - their) <= TOLERANCE * abs(their) for own, their in zip(ours, theirs, strict=True))


def compared(arguments: argparse.Namespace, folder: Path, other: subprocess.Popen[str]) -> Iterator[bool]:
    """Print a line per case, and yield whether both agree."""
    workload = arguments.examples / "workloads" / "basic" / "matmuls.yaml"
    for case in (own for own in cases(arguments.examples) if arguments.only in own.name):
        file = folder / "mapping.yaml"
        ours = priced_here(case, workload, file, arguments.time_limit)
        if isinstance(ours, str):
            print(f"{case.name}: {ours}")
            continue
        theirs = priced_there(other, (workload, case.architecture, file), case)
        is_same = are_equal(ours, theirs)
        print(f"{case.name}: {ours[0]:.6g} J, {ours[1]:.6g} s{'' if is_same else f', AccelForge: {theirs}'}")
        yield is_same


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per case, and how many agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("examples", type=Path, help="the folder `examples` of AccelForge's sources")
    parser.add_argument("--python", required=True, help="an interpreter that has AccelForge")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="of each search")
    arguments = parser.parse_args(argv)
    command = [arguments.python, "-c", PRICING]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        agree = list(compared(arguments, Path(folder), other))
    print(f"{sum(agree)} agree, {len(agree) - sum(agree)} differ")
    return int(not all(agree))


if __name__ == "__main__":
    raise SystemExit(main())
