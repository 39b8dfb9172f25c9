"""Reference cases of SMAUG's tiling, as operators and what is expected of them."""

import json
from typing import Any

import yaml

from model.tiling.operators import BatchNorm, Convolution, InnerProduct, Operator, Pooling, Unary
from tests.conftest import SHARED

FOLDER = SHARED / "reference" / "smaug"
Case = dict[str, Any]


def oracle_cases() -> list[Case]:
    """Answers of SMAUG's code; none where the folder is absent."""
    path = FOLDER / "oracle.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def unit_test_cases() -> list[Case]:
    """Facts from SMAUG's unit tests; none where the folder is absent."""
    path = FOLDER / "unit_test_cases.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []


def oracle_operator(case: Case) -> Operator:
    """The operator of a line of ``oracle.jsonl``."""
    shape, kind = tuple(case["input"]), case["op"]
    if kind == "conv":
        stride = (case["stride"], case["stride"])
        return Convolution(shape, tuple(case["kernel"]), case["ofmaps"], stride, case["padding"])
    if kind == "fc":
        return InnerProduct(shape, case["outputs"])
    if kind == "pool":
        return Pooling(shape, (case["pool"], case["pool"]), (case["stride"], case["stride"]))
    assert kind in ("bn2", "bn4")
    return BatchNorm(shape)


def unit_test_operator(case: Case) -> Operator:
    """The operator of an entry of ``unit_test_cases.yaml``."""
    shape, kind, given = tuple(case["input"]), case["operator"], case["params"]
    if kind == "convolution":
        kernel = (given["kernel_rows"], given["kernel_cols"])
        stride = (given["row_stride"], given["col_stride"])
        return Convolution(shape, kernel, given["num_ofmaps"], stride, given["padding"])
    if kind == "inner_product":
        return InnerProduct(shape, given["num_outputs"])
    if kind == "max_pooling":
        pool = (given["pool_rows"], given["pool_cols"])
        return Pooling(shape, pool, (given["row_stride"], given["col_stride"]))
    if kind == "batch_norm":
        return BatchNorm(shape)
    assert kind == "unary(relu)"
    return Unary(shape)
