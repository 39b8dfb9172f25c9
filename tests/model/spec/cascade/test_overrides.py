"""Attribute values from outside."""

import pytest

from model.spec.cascade import load_network
from model.spec.cascade.overrides import Override
from model.spec.source import SpecError
from tests.conftest import REPOSITORY

SPECS = REPOSITORY / "specs"
FILES = [SPECS / "layers" / "gemm" / "1024.yaml", SPECS / "architectures" / "eyeriss_like.yaml"]


def level(name: str, *overrides: str) -> object:
    network = load_network(FILES, overrides=[Override.of(text) for text in overrides])
    levels = network.layers[0].mapspace.architecture.levels
    return next(own for own in levels if own.name == name)


def test_a_value_takes_the_place_of_the_one_in_the_file():
    assert level("global_buffer").size_words == 12800 * 4
    assert level("global_buffer", "global_buffer.depth=100").size_words == 400
    assert level("global_buffer", "global_buffer.depth=2*50", "global_buffer.width=32").size_words == 200
    assert level("psum_spad", "global_buffer.depth=100").size_words == level("psum_spad").size_words


def test_an_attribute_that_the_file_lacks_is_added():
    assert level("psum_spad", "psum_spad.shared_bandwidth=3").shared_bandwidth == 3


def test_a_lower_price_for_a_smaller_level():
    larger, smaller = level("global_buffer"), level("global_buffer", "global_buffer.depth=400")
    assert smaller.energy.read < larger.energy.read


@pytest.mark.parametrize("text", ["depth=3", "a.b", "a.b=", ".b=3", "a.b c=3", "=3"])
def test_what_sets_no_attribute(text: str):
    with pytest.raises(SpecError, match="does not set an attribute"):
        Override.of(text)


def test_an_unknown_component():
    with pytest.raises(SpecError, match="the architecture has no `global_bufer`") as caught:
        level("DRAM", "global_bufer.depth=3")
    assert caught.value.hint == "did you mean `global_buffer`?"


def test_a_bad_value_names_the_override():
    with pytest.raises(SpecError, match="must be at least 1") as caught:
        level("DRAM", "global_buffer.depth=0")
    assert "global_buffer.depth=0" in caught.value.render()
