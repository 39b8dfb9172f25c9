"""Results on disk, one file per canonical problem, so that a run can be killed and continued."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.sparse import evaluate_totals
from solver.certificate.canonical import canonical, canonical_sha256, canonical_text
from solver.result import Evidence, MaskEvidence, Result, StageCost, Statistics, Status, Termination
from solver.saving import SUFFIX, replacing

VERSION = version("tilewright")

PACKAGES = ("model", "solver")
ROOT = Path(__file__).parents[2]

LEFTOVER_S = 3600
"""Age at which an unfinished file is taken to belong to no running program."""

MOST_BYTES = 1 << 24
"""Largest file that is written or read; a larger result is not kept."""

KEY_NAME = ".key"
KEY_BYTES = 32
HEAD = b'{"hmac_sha256": "%s", "result": '
TAIL = b"}\n"


def cache_key(mapspace: Mapspace, objectives: tuple[str, ...]) -> str:
    """Return the key of a question: the mapspace as the cost model sees it, the objectives, our version."""
    return canonical_sha256(
        {
            "version": VERSION,
            "objectives": list(objectives),
            "factors": mapspace.factors,
            "max_temporal_loops": mapspace.max_temporal_loops,  # not canonical: searches do not know it
            "mapspace": canonical(mapspace, lists_sides=False),
        }
    )


@cache
def sources_digest() -> str:
    """Return a digest of the sources of this program: what other sources answered is not used."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        root = ROOT / package
        for path in sorted(root.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


class ResultCache:
    """A directory of proven results, which believes only what the same user's runs have written.

    A file is named after the question and the sources of the program that answered it, and holds a keyed
    checksum (HMAC-SHA256) of its name and content. The key is in the directory, readable by its owner only,
    so nobody else can make a file that counts: a damaged or forged one counts as absent.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.failure: OSError | None = None  # the first error on keeping a result

    def remove_leftovers(self) -> None:
        """Remove unfinished files of runs that were killed while they wrote."""
        for path in self.directory.glob(f".*{SUFFIX}"):
            with contextlib.suppress(OSError):
                _remove_if_left(path)

    def keep(self, key: str, result: Result) -> None:
        """Keep a proven result; if that fails, remember the first failure, and go on without."""
        try:
            self.store(key, result)
        except OSError as error:
            self.failure = self.failure or error

    def store(self, key: str, result: Result) -> None:
        """Keep a proven result; others, those with orders of memories, and large ones are passed over."""
        if result.status not in (Status.OPTIMAL, Status.INFEASIBLE) or result.hardware_order is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        secret = _key_for(self.directory)
        name = _file_name(secret, key)
        content = json.dumps(_result_json(result), allow_nan=False).encode()
        whole = HEAD % _checksum(secret, name, content) + content + TAIL
        if len(whole) > MOST_BYTES:
            return
        with replacing(self.directory / name, f".{name[:16]}-") as stream:
            stream.write(whole)

    def find(self, key: str, mapspace: Mapspace) -> Result | None:
        """Return the result kept under a key, None if none counts; the mapspace has the names in it."""
        try:
            secret = _key_in(self.directory)
            name = _file_name(secret, key)
            whole = _read_file(self.directory / name, MOST_BYTES)
        except OSError:
            return None
        head = len(HEAD % _checksum(secret, name, b""))
        content = whole[head : -len(TAIL)]
        if not hmac.compare_digest(whole, HEAD % _checksum(secret, name, content) + content + TAIL):
            return None
        try:
            return _result(json.loads(content), mapspace)
        except ValueError:  # the cost model disagrees
            return None


def _read_file(path: Path, most_bytes: int, *, private: bool = False) -> bytes:
    """Return the content of a regular file; raise ``OSError`` if it is too large or not private."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if private and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)):
            raise OSError(errno.EPERM, "not private")
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, "too large")
    return content


def _key_in(directory: Path) -> bytes:
    """Return the key of a directory; ``OSError`` unless there is one that is private."""
    secret = _read_file(directory / KEY_NAME, KEY_BYTES, private=True)
    if len(secret) != KEY_BYTES:
        raise OSError(errno.EINVAL, "not a key")
    return secret


def _key_for(directory: Path) -> bytes:
    """Return the key of a directory, after making one if there is none that is private."""
    with contextlib.suppress(OSError):
        return _key_in(directory)
    name = directory / f".{secrets.token_hex(8)}{SUFFIX}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(secrets.token_bytes(KEY_BYTES))
    name.replace(directory / KEY_NAME)
    return _key_in(directory)


def _file_name(secret: bytes, key: str) -> str:
    """Return the file of a question, as the sources of this program answer it."""
    question = canonical_text([key, sources_digest()]).encode()
    return hmac.new(secret, question, hashlib.sha256).hexdigest() + ".json"


def _checksum(secret: bytes, name: str, content: bytes) -> bytes:
    """Return the keyed checksum of a file's content under its name."""
    return hmac.new(secret, name.encode() + content, hashlib.sha256).hexdigest().encode()


def _remove_if_left(path: Path) -> None:
    if time.time() - path.stat().st_mtime > LEFTOVER_S:
        path.unlink()


def _result_json(result: Result) -> Mapping[str, object]:
    return {
        "status": result.status.value,
        "objectives": list(result.objectives),
        "values": [] if result.value is None else [result.value, *result.later_bounds],
        "mapping": None if result.mapping is None else [_node_json(node) for node in result.mapping.nodes],
        "statistics": asdict(result.statistics),
        "evidence": [asdict(evidence) for evidence in result.evidence],
    }


def _node_json(node: NodeMapping) -> Mapping[str, object]:
    if isinstance(node, FanoutMapping):
        return {"spatial": [[loop.dim, loop.bound, loop.axis] for loop in node.spatial]}
    return {"temporal": [[loop.dim, loop.bound] for loop in node.temporal], "keep": sorted(node.keep)}


def _result(document: dict[str, Any], mapspace: Mapspace) -> Result:
    """Return a kept result, its mapping priced; ``ValueError`` where the cost model contradicts it."""
    objectives = tuple(document["objectives"])
    proven = Result(
        status=Status.INFEASIBLE,
        termination=Termination.PROVEN,
        objectives=objectives,
        units_per_pj=mapspace.architecture.units_per_pj,
        statistics=_statistics(document["statistics"]),
        evidence=tuple(map(_evidence, document["evidence"])),
    )
    if document["status"] == Status.INFEASIBLE.value:
        return proven
    mapping = LoopNest(tuple(map(_node_mapping, document["mapping"])))
    evaluation = evaluate_totals(mapspace, mapping)
    if evaluation is None:
        raise ValueError("the formats cannot represent the mapping")
    value, *later = (evaluation.value(name) for name in objectives)
    if not evaluation.valid or document["values"] != [value, *later]:
        raise ValueError("the mapping does not have the cached value")
    return replace(
        proven,
        status=Status.OPTIMAL,
        units_per_pj=evaluation.units_per_pj,
        value=value,
        bound=value,
        later_bounds=tuple(later),
        mapping=mapping,
        evaluation=evaluation,
    )


def _statistics(document: dict[str, Any]) -> Statistics:
    stages = tuple(StageCost(**own) for own in document["stages"])
    return Statistics(**{**document, "settled_by": tuple(document["settled_by"]), "stages": stages})


def _evidence(document: dict[str, Any]) -> Evidence:
    return Evidence(document["objective"], tuple(map(_mask_evidence, document["masks"])))


def _mask_evidence(document: dict[str, Any]) -> MaskEvidence:
    return MaskEvidence(**{**document, "keep": tuple(map(tuple, document["keep"]))})


def _node_mapping(node: dict[str, Any]) -> NodeMapping:
    if "spatial" in node:
        return FanoutMapping(tuple(SpatialLoop(*loop) for loop in node["spatial"]))
    return StorageMapping(tuple(Loop(*loop) for loop in node["temporal"]), frozenset(node["keep"]))
