"""Times AccelForge's cases beside its own mapper: architectures and workloads as they stand, by its own rule.

    python scripts/bench_accelforge.py DIRECTORY --only nvdla --time-limit 20

DIRECTORY has AccelForge's files and what its mapper answered: `accelforge_arches/` with architectures, a
table `costs.yaml` and `results.jsonl`, a line per run (architecture, workload, options, metric, cpu_s,
energy_j, latency_s, edp), `workloads/`, and `fused/cases.jsonl`, a line per run on a small cascade, with the
texts of both files (workload, arch, metric, unfused, energy, latency, cpu). Prints the value and the gap,
AccelForge's value, and the processor seconds of both, those of AccelForge without its imports and ours
without reading files; of several runs of one case the shortest counts on either side. Ratios above 1 are in
our favour. Nothing here is a test: the figures are those of the machines that they were taken on.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from model.cascade import Layer
from model.formats.cascade import load_network
from model.formats.fused import load_cascade
from model.formats.timeloop import AccelForgeOptions, FileOptions, LoadOptions
from model.formats.timeloop.overrides import parse_setting
from model.fused.cascade import Cascade
from model.objective import EDP, ENERGY, LATENCY
from model.text.source import SpecError
from solver.fusion import FusedResult, fuse_cascade
from solver.report.figures import percent
from solver.result import Options, Result
from solver.stages import map_einsum

OBJECTIVES = {"EDP": (EDP, "edp"), "ENERGY": (ENERGY, "energy_j"), "LATENCY": (LATENCY, "latency_s")}
"""Our objective, and the entry of a result, by AccelForge's metric; runs for several metrics are left out."""

WORKLOADS = {
    "matmuls": "basic/matmuls.yaml",
    "three_matmuls": "basic/three_matmuls_annotated.yaml",
    "gpt3_6.7B": "transformers/gpt/gpt3_6.7B.yaml",
    "mobilenet_28": "cnns/mobilenet/mobilenet_28.yaml",
    "resnet18": "compute_in_memory/resnet18.yaml",
    "vgg16": "compute_in_memory/vgg16.yaml",
}
VARIABLES: dict[str, dict[str, object]] = {
    "gpt3_6.7B": {"BATCH_SIZE": 1, "DECODE": False, "N_NEW_TOKENS": 2048},
    "resnet18": {"BATCH_SIZE": 1},
    "vgg16": {"BATCH_SIZE": 1},
}
"""What runs of a workload have set that do not say so."""

REPEATS, REPEATED_S = 3, 1.0
"""Runs of a case that takes so many seconds together, at most."""

COLUMNS = ("architecture", "workload", "objective", "value", "gap", "AccelForge", "ratio")


@dataclass(frozen=True)
class Case:
    """One search, and what AccelForge's mapper answered.

    Parameters
    ----------
    einsum
        None for all of them together.
    fused
        Whether intermediates may stay on chip.
    ruled
        Whether the least use of fanouts counts.
    value, energy_j, cpu_s
        Of the metric, in joules and seconds; and the fewest processor seconds of all runs.
    """

    architecture: str
    workload: str
    variables: tuple[tuple[str, object], ...]
    einsum: str | None
    metric: str
    fused: bool
    ruled: bool
    value: float
    energy_j: float
    cpu_s: float

    @property
    def key(self) -> tuple[object, ...]:
        """All that makes it the same search as another one."""
        asked = (self.architecture, self.workload, self.variables, self.einsum, self.metric)
        return (*asked, self.fused, self.ruled)

    @property
    def name(self) -> str:
        """For people."""
        words = [self.workload, self.einsum or "", *(f"{n}={v}" for n, v in self.variables)]
        words += ["min_usage=0"] * (not self.ruled)
        words += ["fused"] * (self.fused and self.einsum is None and self.workload != "matmuls")
        return " ".join(filter(None, words))


def read_cases(results: Path) -> Iterator[Case]:
    """Yield the runs in a file that are about the plain mapper and one metric."""
    for line in results.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        words = dict(word.split("=", 1) for word in row.get("options", "").split())
        if row.get("set") or row["metric"] not in OBJECTIVES or "mfl" in words:
            continue
        # Its mapper has restrictions on even places that are not ours.
        case = None if words.get("even") == "1" else _case(row, words)
        if case is not None:
            yield case


def _case(row: Mapping[str, object], words: dict[str, str]) -> Case | None:
    workload, _, sizes = str(row["workload"]).partition(":")
    variables: dict[str, object] = dict(VARIABLES.get(workload, {}))
    if workload == "matmul" and sizes:
        size, other = sizes.split(",")
        workload, variables = "matmuls", {"N_EINSUMS": 1, "M": int(size), "KN": int(other)}
    if workload not in WORKLOADS:
        return None
    for name in ("N_EINSUMS", "M", "KN", "BATCH_SIZE", "N_NEW_TOKENS", "N_CACHED_TOKENS", "DECODE"):
        if name in words:
            variables[name] = words[name] == "True" if words[name] in ("True", "False") else int(words[name])
    einsum = str(row.get("einsum") or words.get("einsums") or "all")
    return Case(
        architecture=str(row["arch"]),
        workload=workload,
        variables=tuple(sorted(variables.items())),
        einsum=None if einsum == "all" else einsum,
        metric=str(row["metric"]),
        fused=not (row.get("unfused") or words.get("unfused") == "1"),
        ruled=words.get("minuse") != "0",
        value=float(str(row[OBJECTIVES[str(row["metric"])][1]])),
        energy_j=float(str(row["energy_j"])),
        cpu_s=float(str(row["cpu_s"])),
    )


def shortest(cases: Iterable[Case]) -> list[Case]:
    """Return each search once, with the fewest seconds that it took."""
    known: dict[tuple[object, ...], Case] = {}
    for case in cases:
        if case.key not in known or case.cpu_s < known[case.key].cpu_s:
            known[case.key] = case
    return list(known.values())


def load(case: Case, directory: Path) -> list[Layer]:
    """Read the Einsums of a case; a SpecError if it leaves fusion open, or is not searched."""
    files = [
        directory / "workloads" / WORKLOADS[case.workload],
        directory / "accelforge_arches" / f"{case.architecture}.yaml",
    ]
    options = LoadOptions(
        accelforge=AccelForgeOptions(
            costs=directory / "accelforge_arches" / "costs.yaml",
            stored_outside=not case.fused,
            einsum=case.einsum,
        ),
        factors="perfect",
        refuse_unsearchable=case.ruled,
    )
    variables = dict(case.variables)
    network = load_network(files, variables, options)
    if not case.ruled:
        names = {fanout.name for layer in network.layers for fanout in layer.mapspace.architecture.fanouts}
        settings = tuple(s for name in sorted(names) for s in parse_setting(f"{name}.min_usage=0"))
        network = load_network(
            files, variables, replace(options, files=FileOptions(settings=settings), refuse_unsearchable=True)
        )
    return [layer for layer in network.layers if case.einsum in (None, layer.name) and not layer.is_copy]


@dataclass(frozen=True)
class Answer:
    """What our search found, in joules and seconds; the bound is on the same value."""

    value: float
    gap: float | None
    cpu_s: float


def search(layers: Sequence[Layer], objective: str, time_limit_s: float) -> Answer:
    """Map each Einsum; values of several are those of their sums."""
    options = Options(objectives=(objective,), time_limit_s=time_limit_s)
    best, spent = math.inf, 0.0
    for _ in range(REPEATS):
        start = time.process_time()
        results = [map_einsum(layer.mapspace, options) for layer in layers]
        cpu_s = time.process_time() - start
        best, spent = min(best, cpu_s), spent + cpu_s
        if spent > REPEATED_S:
            break
    counts = [layer.n_instances for layer in layers]
    gaps = [result.gap for result in results]
    gap = None if any(own is None for own in gaps) else max(own for own in gaps if own is not None)
    return Answer(_value(results, counts, objective), gap, best)


def _value(results: Sequence[Result], counts: Sequence[int], objective: str) -> float:
    energy_j = latency_s = 0.0
    for result, count in zip(results, counts, strict=True):
        if result.evaluation is None:
            return math.inf
        energy_j += result.evaluation.energy_j * count
        latency_s += float(result.evaluation.latency_s or 0) * count
    return {ENERGY: energy_j, LATENCY: latency_s, EDP: energy_j * latency_s}[objective]


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per case, then geometric means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="AccelForge's files and answers, see above")
    parser.add_argument("--only", action="append", default=[], help="cases whose row has this text")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="of each Einsum")
    arguments = parser.parse_args(argv)
    table, left_out = Table(*COLUMNS, "s", "its s", "faster"), defaultdict[str, list[str]](list)
    factors: dict[str, list[float]] = defaultdict(list)
    for case in shortest(read_cases(arguments.directory / "accelforge_arches" / "results.jsonl")):
        label = f"{case.architecture} {case.name} {case.metric}"
        if not all(text in label for text in arguments.only):
            continue
        try:
            layers = load(case, arguments.directory)
        except SpecError as error:
            left_out[_reason(error)].append(label)
            continue
        # Where nothing takes time, energy is all that there is.
        timed = all(layer.mapspace.architecture.cycle_s for layer in layers)
        objective = OBJECTIVES[case.metric][0] if timed else ENERGY
        if not timed and case.metric == "LATENCY":
            left_out["nothing takes time"].append(label)
            continue
        answer = search(layers, objective, arguments.time_limit)
        table.add_row(*_cells(case, answer, timed))
        kind = "single Einsums" if case.einsum or len(layers) == 1 else "unfused networks"
        for group in (kind, f"{kind} on {case.architecture}"):
            factors[group].append(case.cpu_s / answer.cpu_s)
    for name, metric, answer, value, cpu_s in fused_cascades(arguments.directory, arguments):
        gap = "-" if answer.gap is None else percent(answer.gap)
        figures = (f"{answer.value:.6g}", gap, f"{value:.6g}", f"{value / answer.value:.6f}")
        table.add_row("its own", name, metric, *figures, *_seconds(answer.cpu_s, cpu_s))
        factors["fused cascades"].append(cpu_s / answer.cpu_s)
    console = Console(width=160)
    console.print(table)
    for group, own in sorted(factors.items()):
        mean = math.exp(sum(map(math.log, own)) / len(own))
        console.print(f"{group}: {mean:.1f} times less processor time in the geometric mean of {len(own)}")
    for reason, labels in left_out.items():
        console.print(f"left out, as {reason}: {len(labels)}", highlight=False)
    return 0


def _reason(error: SpecError) -> str:
    return "intermediates may stay on chip" if "fused" in error.message else error.message


def _cells(case: Case, answer: Answer, timed: bool) -> Iterator[str]:
    known = case.value if timed else case.energy_j
    yield from (case.architecture, case.name, case.metric, f"{answer.value:.6g}")
    yield "-" if answer.gap is None else percent(answer.gap)
    yield from (f"{known:.6g}", f"{known / answer.value:.6f}" if known and answer.value else "-")
    yield from _seconds(answer.cpu_s, case.cpu_s)


def _seconds(own_s: float, other_s: float) -> tuple[str, str, str]:
    return f"{own_s:.2f}", f"{other_s:.2f}", f"{other_s / own_s:.1f}"


def fused_cascades(
    directory: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, str, Answer, float, float]]:
    """Yield name, metric, our answer, AccelForge's value and its seconds of each small fused cascade."""
    file = directory / "fused" / "cases.jsonl"
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines() if file.exists() else ()):
        label = f"fused {row['name']} {row['metric']}"
        windows = "conv" in row["name"]  # not searched by this rule
        if row["unfused"] or windows or not all(text in label for text in arguments.only):
            continue
        cascade, objective = _cascade(row), OBJECTIVES[row["metric"]][0]
        start = time.process_time()
        result = fuse_cascade(cascade, objective, Options(time_limit_s=arguments.time_limit))
        answer = Answer(_fused_value(result, objective), result.gap, time.process_time() - start)
        known = {ENERGY: row["energy"], LATENCY: row["latency"], EDP: row["energy"] * row["latency"]}
        yield row["name"], row["metric"], answer, known[objective], row["cpu"]


def _cascade(row: Mapping[str, str]) -> Cascade:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "workload.yaml", Path(folder) / "arch.yaml"]
        for path, key in zip(files, ("workload", "arch"), strict=True):
            path.write_text(row[key], encoding="utf-8")
        return load_cascade(files)[0]


def _fused_value(result: FusedResult, objective: str) -> float:
    if result.evaluation is None:
        return math.inf
    energy_j, latency_s = result.evaluation.energy_j, float(result.evaluation.latency_s or 0)
    return {ENERGY: energy_j, LATENCY: latency_s, EDP: energy_j * latency_s}[objective]


if __name__ == "__main__":
    raise SystemExit(main())
