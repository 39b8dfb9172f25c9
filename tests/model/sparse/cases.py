"""Reads the cases in ../shared/reference/sparse: flattened specs with the figures that Timeloop printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from model.counting import TIMELOOP
from model.formats.timeloop import LoadedSpec, LoadOptions, TimeloopOptions, load_timeloop
from tests.conftest import SHARED

CASES = SHARED / "reference" / "sparse"
Json = dict[str, Any]


def case_names() -> list[str]:
    """Return the names of the cases; none where they are absent."""
    return sorted(path.parent.name for path in CASES.glob("*/stats.json"))


def statistics(name: str) -> Json:
    """Return what Timeloop printed."""
    stats: Json = json.loads((CASES / name / "stats.json").read_text())
    return stats


def load_case(name: str, directory: Path | None) -> LoadedSpec:
    """Read a case by Timeloop's counting rule.

    It is written out in version 0.4 with `nodes` in a directory, or read as it stands where that is None.
    """
    path = CASES / name / "spec.yaml"
    if directory is not None:
        text = nested_text(yaml.safe_load(path.read_text()))
        path = directory / f"{name}.yaml"
        path.write_text(text)
    options = LoadOptions(
        timeloop=TimeloopOptions(require_mapping=True), model_sparse=True, counting=TIMELOOP
    )
    return load_timeloop([path, CASES / name / "ERT.yaml"], options=options)


def nested_text(flat: Json) -> str:
    """Return a flattened spec with a list of nodes: fanouts become containers."""
    components = flat["architecture"]["subtree"][0]["local"]
    nodes: list[str] = []
    fanouts: dict[str, str] = {}
    dummies: set[str] = set()
    for component, inner in zip(components, [*components[1:], None], strict=True):
        name = re.sub(r"\[.*\]", "", component["name"])
        attributes = dict(component["attributes"])
        mesh = [attributes.pop("meshX"), attributes.pop("meshY")]
        attributes.pop("instances", None)
        below = mesh if inner is None else [inner["attributes"][axis] for axis in ("meshX", "meshY")]
        fanout = [many // few for many, few in zip(below, mesh, strict=True)]
        if component["class"] == "dummy_storage":
            dummies.add(name)
            fanouts[name] = name
        else:
            nodes.append(_component(name, component, attributes))
            fanouts[name] = f"below_{name}"
        if fanout != [1, 1] or name in dummies:
            spatial = {"meshX": fanout[0], "meshY": fanout[1]}
            nodes.append(f"  - !Container {json.dumps({'name': fanouts[name], 'spatial': spatial})}\n")
    targets = [_target(target, fanouts) for target in flat["mapping"] if _stays(target, dummies)]
    sections = {"problem": flat["problem"], "mapping": targets}
    if "sparse_optimizations" in flat:
        sections["sparse_optimizations"] = flat["sparse_optimizations"]
    text = "architecture:\n  version: 0.4\n  nodes:\n" + "".join(nodes)
    return text + yaml.safe_dump(sections, sort_keys=False)


def _component(name: str, component: Json, attributes: Json) -> str:
    kept = {key: value for key, value in attributes.items() if value is not None}
    node = {"name": name, "class": component["class"], "attributes": kept}
    if "subclass" in component:
        node["subclass"] = component["subclass"]
    return f"  - !Component {json.dumps(node)}\n"


def _stays(target: Json, dummies: set[str]) -> bool:
    return target["type"] == "spatial" or target["target"] not in dummies


def _target(target: Json, fanouts: dict[str, str]) -> Json:
    return {**target, "target": fanouts[target["target"]]} if target["type"] == "spatial" else target
