"""Answers on disk, one file per canonical problem, so that a run can be killed and continued."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from model.cost import evaluate
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from solver.certificate.canonical import canonical, canonical_sha256
from solver.result import Evidence, MaskEvidence, Result, Statistics, Status, Termination
from solver.saving import SUFFIX, replacing

VERSION = version("tilewright")

PACKAGES = ("model", "solver")
ROOT = Path(__file__).parents[2]

LEFTOVER_S = 3600
"""Age at which a file that is being written belongs to no run that lives."""


def cache_key(mapspace: Mapspace, objectives: tuple[str, ...]) -> str:
    """Return the key of a question: the same problem under other names has the same one.

    That is the mapspace as the cost model sees it, the objectives, and the version of this program.
    """
    limit = mapspace.max_temporal_loops  # the canonical mapspace holds what searches know
    return canonical_sha256(
        {
            "version": VERSION,
            "objectives": list(objectives),
            "mapspace": canonical(mapspace, lists_sides=False),
            **({} if limit is None else {"max_temporal_loops": limit}),
        }
    )


@cache
def sources_digest() -> str:
    """Return a digest of what answers questions: the sources of this program, as they lie on disk.

    In a checkout they change from one version to the next; what was kept before is not asked again.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        root = ROOT / package
        for path in sorted(root.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


class ResultCache:
    """A directory of proven answers.

    Its names stand for questions, and for the sources of the program that answers them. A file is
    written beside its place and then moved there, so that it is whole or absent whenever the program
    is killed. It holds a checksum of its name and answer, and the mapping that is read
    is priced again: a file that is damaged or does not say the truth counts as absent.

    Parameters
    ----------
    directory
        Made where it is missing.

    Attributes
    ----------
    failure
        Why the first answer was not kept of those that were to be and are not; None if all are.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.failure: OSError | None = None

    def remove_leftovers(self) -> None:
        """Remove unfinished files of runs that were killed while they wrote."""
        for path in self.directory.glob(f".*{SUFFIX}"):
            with contextlib.suppress(OSError):
                _remove_if_left(path)

    def keep(self, key: str, result: Result) -> None:
        """Keep a proven answer; where that fails, remember the first failure, and go on without."""
        try:
            self.store(key, result)
        except OSError as error:
            self.failure = self.failure or error

    def store(self, key: str, result: Result) -> None:
        """Keep a proven answer; one that is not proven is passed over.

        Raises
        ------
        OSError
            It cannot be written.
        """
        if result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        answer = _document(result)
        text = json.dumps({"sha256": _checksum(key, answer), "answer": answer}, indent=1, allow_nan=False)
        with replacing(self.path_of(key), f".{key[:16]}-") as stream:
            stream.write(text.encode())

    def find(self, key: str, mapspace: Mapspace) -> Result | None:
        """Return the answer kept under a key, None where there is none that can be used.

        Parameters
        ----------
        key
            As of `cache_key`.
        mapspace
            That of the question, under the names under which the answer was kept: what its mapping is priced
            in.
        """
        path = self.path_of(key)
        if not path.is_file():  # nor a pipe, which would be waited for
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            answer = document["answer"]
            return _result(answer, mapspace) if document["sha256"] == _checksum(key, answer) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def path_of(self, key: str) -> Path:
        """Return the file of a question's answer."""
        return self.directory / f"{canonical_sha256([key, sources_digest()])}.json"


def _remove_if_left(path: Path) -> None:
    if time.time() - path.stat().st_mtime > LEFTOVER_S:
        path.unlink()


def _checksum(key: str, answer: object) -> str:
    """Return the checksum of a file under this name; under another name the same content has another one."""
    return canonical_sha256({"key": key, "answer": answer})


def _document(result: Result) -> Mapping[str, object]:
    return {
        "status": result.status.value,
        "objectives": list(result.objectives),
        "value": result.value,
        "later_bounds": list(result.later_bounds),
        "bound": result.bound,
        "mapping": None if result.mapping is None else [_node(node) for node in result.mapping.nodes],
        "statistics": asdict(result.statistics),
        "evidence": [asdict(evidence) for evidence in result.evidence],
    }


def _node(node: NodeMapping) -> Mapping[str, object]:
    if isinstance(node, FanoutMapping):
        return {"spatial": [[loop.dim, loop.bound, loop.axis] for loop in node.spatial]}
    return {"temporal": [[loop.dim, loop.bound] for loop in node.temporal], "keep": sorted(node.keep)}


def _result(document: dict[str, object], mapspace: Mapspace) -> Result:
    """Return a kept answer after its mapping is priced; ``ValueError`` where that contradicts it."""
    status = Status(document["status"])
    statistics: dict[str, float] = document["statistics"]  # type: ignore[assignment]
    objectives: list[str] = document["objectives"]  # type: ignore[assignment]
    later: list[int] = document["later_bounds"]  # type: ignore[assignment]
    evidence: list[dict[str, object]] = document["evidence"]  # type: ignore[assignment]
    common = Result(
        status=Status.INFEASIBLE,
        termination=Termination.PROVEN,
        objectives=tuple(objectives),
        units_per_pj=mapspace.architecture.units_per_pj,
        statistics=Statistics(**statistics),  # type: ignore[arg-type]
        evidence=tuple(map(_evidence, evidence)),
    )
    if status is Status.INFEASIBLE:
        return common
    nodes: list[dict[str, list[list[object]]]] = document["mapping"]  # type: ignore[assignment]
    mapping = LoopNest(tuple(_node_mapping(node) for node in nodes))
    evaluation = evaluate(mapspace.problem, mapspace.architecture, mapping)
    values = [evaluation.value(name) for name in objectives]
    known = [document["value"], *later]
    if not evaluation.valid or known != values:
        raise ValueError("the mapping does not have the value that is kept with it")
    return Result(
        status=Status.OPTIMAL,
        termination=Termination.PROVEN,
        objectives=common.objectives,
        units_per_pj=common.units_per_pj,
        value=values[0],
        bound=values[0],
        later_bounds=tuple(later),
        mapping=mapping,
        evaluation=evaluation,
        statistics=common.statistics,
        evidence=common.evidence,
    )


def _evidence(document: dict[str, object]) -> Evidence:
    masks: list[dict[str, object]] = document["masks"]  # type: ignore[assignment]
    return Evidence(str(document["objective"]), tuple(map(_mask_evidence, masks)))


def _mask_evidence(document: dict[str, object]) -> MaskEvidence:
    keep: list[list[int]] = document["keep"]  # type: ignore[assignment]
    tiles: list[int] = document["tiles_left"]  # type: ignore[assignment]
    lists = {"keep": tuple(map(tuple, keep)), "tiles_left": tuple(tiles)}
    return MaskEvidence(**{**document, **lists})  # type: ignore[arg-type]


def _node_mapping(node: dict[str, list[list[object]]]) -> NodeMapping:
    if "spatial" in node:
        return FanoutMapping(tuple(SpatialLoop(*loop) for loop in node["spatial"]))  # type: ignore[arg-type]
    keep: list[str] = node["keep"]  # type: ignore[assignment]
    loops = tuple(Loop(*loop) for loop in node["temporal"])  # type: ignore[arg-type]
    return StorageMapping(loops, frozenset(keep))
