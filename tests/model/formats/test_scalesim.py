"""Topologies of SCALE-Sim as networks."""

import math
from pathlib import Path

import pytest

from model.formats.cascade import read_network
from model.formats.scalesim import load_topology
from model.text.files import SHIPPED_SPECS
from model.text.limits import DEFAULT_LIMITS
from model.text.source import SpecError
from model.workload import Einsum

HEADER = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
)


def layers(tmp_path: Path, text: str, **variables: object) -> tuple[Einsum, ...]:
    path = tmp_path / "net.csv"
    path.write_text(text, encoding="utf-8")
    return load_topology(path, variables, DEFAULT_LIMITS).workload.einsums


def failure(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        layers(tmp_path, text)
    return caught.value.message.replace(f"{tmp_path / 'net.csv'}", "net.csv")


def test_a_convolution(tmp_path: Path):
    (conv,) = layers(tmp_path, HEADER + "Conv1, 227, 227, 11, 11, 3, 96, 4,\n")
    assert conv.bounds == {"N": 1, "K": 96, "C": 3, "P": 55, "R": 11, "Q": 55, "S": 11}
    # What SCALE-Sim counts of this layer.
    assert math.prod(conv.bounds.values()) == 105_415_200
    image, weights, outputs = conv.accesses
    assert [conv.size_values(access) for access in (image, weights, outputs)] == [
        3 * 227**2,
        96 * 363,
        96 * 55**2,
    ]
    assert [access.bits_per_value for access in conv.accesses] == [8, 8, 8]


@pytest.mark.parametrize(
    ("row", "rows", "columns"),
    [
        ("a, 8, 9, 3, 3, 2, 4, 2,", 4, 4),  # the last window of 8 rows reaches beyond them, as in SCALE-Sim
        ("a,8,9,3,3,2,4,2", 4, 4),
        ("a\t8\t9\t3\t3\t2\t4\t2\t", 4, 4),
        ("a, 8, 9, 3, 3, 2, 4, 1, 2,", 6, 4),
        ("a, 8, 9, 3, 3, 2, 4, 1, 1:2,", 6, 7),
    ],
)
def test_rows_in_all_their_forms(tmp_path: Path, row: str, rows: int, columns: int):
    (conv,) = layers(tmp_path, f"{HEADER}{row}\n")
    assert (conv.bounds["P"], conv.bounds["Q"]) == (rows, columns)


def test_columns_that_are_no_strides(tmp_path: Path):
    header = HEADER.strip() + ",Eh,Ew,\n"
    (conv,) = layers(tmp_path, header + "a, 8, 8, 3, 3, 2, 4, 1, 5, 6,\n")
    assert (conv.bounds["P"], conv.bounds["Q"]) == (6, 6)


def test_matrix_products_by_their_header(tmp_path: Path):
    first, second = layers(tmp_path, "Layer, M, N, K,\nqk, 4, 5, 6,\nqk, 1, 2, 3,\n")
    assert (first.name, second.name) == ("qk", "qk#2")
    assert first.bounds == {"P": 4, "C": 6, "K": 5}
    (third,) = layers(tmp_path, "Layer, K, M, N,\na, 6, 4, 5,\n")
    assert third.bounds == first.bounds


def test_depthwise_layers_have_a_group_per_channel(tmp_path: Path):
    (conv,) = layers(tmp_path, HEADER + "Conv2DP, 8, 8, 3, 3, 16, 1, 1,\n")
    assert conv.bounds == {"N": 1, "G": 16, "K": 1, "P": 6, "R": 3, "Q": 6, "S": 3}


def test_headings_and_blank_rows_are_passed_over(tmp_path: Path):
    text = f"\ufeff{HEADER}\nResnet,,,\na, 8, 8, 3, 3, 2, 4, 1,\n\n"
    assert [einsum.name for einsum in layers(tmp_path, text)] == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "net.csv has no layers below its header"),
        (HEADER + "a, 8, 8,\n", "net.csv:2: a layer has 7 sizes"),
        (HEADER + "a, 8, x, 3, 3, 2, 4, 1,\n", "net.csv:2: the input width `x` is not a whole number"),
        (HEADER + "a, 8, 0, 3, 3, 2, 4, 1,\n", "net.csv:2: the input width `0` is not a whole number"),
        (HEADER + "a, 8, 8, 3, 3, 2, 4, 0,\n", "net.csv:2: the stride `0` is not"),
        (HEADER + "a, 2, 8, 3, 3, 2, 4, 1,\n", "net.csv:2: a filter of 3 is larger than its input of 2"),
        ("Layer, M, N, K,\na, 1, 2,\n", "net.csv:2: a layer has 3 sizes (M, N, K)"),
        (HEADER + "a, 8, 8, 3, 3, 2, 4, 1,\n" * 10_001, "net.csv has more than 10,000 layers"),
    ],
)
def test_what_is_no_topology(tmp_path: Path, text: str, message: str):
    assert failure(tmp_path, text).startswith(message)


def test_a_topology_is_a_network(tmp_path: Path):
    path = tmp_path / "net.csv"
    path.write_text(HEADER + "a, 16, 16, 3, 3, 8, 16, 1,\nb, 14, 14, 3, 3, 16, 16, 1,\n", encoding="utf-8")
    architecture = SHIPPED_SPECS / "architectures" / "tpu_like.yaml"
    network = read_network([path, architecture]).network
    assert [layer.name for layer in network.layers] == ["a", "b"]
    assert network.name == "net"
    assert any("all values have 8 bits" in note.text for note in network.notes)
    wide = read_network([path, architecture], {"BITS": 4}).network
    assert not any("all values have 8 bits" in note.text for note in wide.notes)
    with pytest.raises(SpecError, match="too small for a value of 32 bits") as caught:
        read_network([path, architecture], {"BITS": 32})
    assert caught.value.hint == "`--set BITS=8` takes all values as 8 bits wide"
