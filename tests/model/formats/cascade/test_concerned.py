"""Errors in an architecture name the Einsums or layers for which they occur."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.formats.cascade.layers import MOST_COMPARED, Reader, read_all
from model.text.source import Span, SpecError
from tests.conftest import REPOSITORY
from tests.model.formats.cascade.architecture import ARCHITECTURE

THERE = Span("arch.yaml", 3, 1, 3, 2)


def reader(name: str, message: str = "", span: Span | None = THERE) -> Reader[str]:
    place = Span("workload.yaml", ord(name[0]), 1, 1, 2)

    def read() -> str:
        if message:
            raise SpecError(message, place if span is None else span)
        return name

    return Reader(name, read, place, f"{name}.yaml")


@pytest.mark.parametrize(
    ("readers", "message"),
    [
        ([reader("a", "bad"), reader("b", "bad"), reader("c", "bad")], "bad"),
        ([reader("a", "bad", None), reader("b", "bad", None)], "bad"),
        ([reader("a", "bad")], "bad"),
        ([reader("a", "bad"), reader("b")], "Einsum `a`: bad"),
        ([reader("a", "bad"), reader("b", "worse"), reader("c", "bad")], "Einsums `a` and `c`: bad"),
        ([reader("a"), reader("b", "bad"), reader("c", "bad")], "Einsums `b` and `c`: bad"),
        ([reader("a"), reader("b", "bad"), reader("c", "bad", None)], "Einsum `b`: bad"),
        ([reader("a"), reader("b", "of Einsum `b`")], "of Einsum `b`"),
        ([reader("a"), reader("b", "bad", Span("b.yaml", 1, 1, 1, 2))], "bad"),
        ([reader("a", "bad") for _ in range(2 * MOST_COMPARED)], "bad"),
    ],
)
def test_those_that_meet_an_error_are_named_unless_all_do(readers: list[Reader[str]], message: str):
    with pytest.raises(SpecError) as caught:
        read_all(readers, "Einsum")
    assert caught.value.message == message


def test_what_all_meet_points_at_none_of_them():
    for span, place in ((None, None), (THERE, THERE)):
        with pytest.raises(SpecError) as caught:
            read_all([reader("a", "bad", span), reader("b", "bad", span)], "Einsum")
        assert caught.value.span == place
    assert read_all([reader("a"), reader("b")], "Einsum") == ("a", "b")


LAYERS = REPOSITORY / "specs" / "layers" / "resnet18"


def test_an_error_of_some_layers_names_them(tmp_path: Path):
    path = tmp_path / "arch.yaml"
    text = ARCHITECTURE.replace("DRAM_ATTRIBUTES", "").replace("constraints: CONSTRAINTS", "")
    path.write_text(text.replace("SPATIAL", "{spatial: {permutation: [C, K], split: 5}}"), encoding="utf-8")
    layers = [LAYERS / f"{name}.yaml" for name in ("01_conv1", "02_conv2_block1_a", "21_fc")]
    with pytest.raises(SpecError) as caught:
        load_network([*layers, path])
    assert caught.value.message.startswith("layer `21_fc`: split 5 lies beyond the permutation")
    path.write_text(text.replace("SPATIAL", "{spatial: {factors: [X=2]}}"), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_network([*layers, path])
    assert caught.value.message == "unknown dimension `X`"
