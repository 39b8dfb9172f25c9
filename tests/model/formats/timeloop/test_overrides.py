"""Attributes set from outside: the same result as in the file, and what is refused."""

from pathlib import Path
from time import process_time

import pytest

from model.formats.timeloop import FileOptions, LoadOptions, load_timeloop
from model.formats.timeloop.overrides import parse_setting
from model.text.source import SpecError

SPEC = """
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {type: LPDDR4, datawidth: 8, width: 64}
  - !Container
    name: chip
    attributes: {technology: 45nm, BASE: 64}
  - !Hierarchical
    nodes:
    - !Component
      name: buffer
      class: SRAM
      attributes: &sram {datawidth: 8, width: 16, depth: 256, n_banks: 1}
    - !Container
      name: PE
      spatial: {meshX: 4}
    - !Component {name: pad, class: SRAM, attributes: *sram}
    - !Component {name: mac, class: intmac, attributes: {multiplier_width: 8, adder_width: 8}}
problem:
  shape:
    dimensions: [M, N]
    data_spaces:
    - {name: A, projection: [[[M]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 8, N: 8}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def loaded(path: Path, *texts: str):
    settings = tuple(setting for text in texts for setting in parse_setting(text))
    return load_timeloop([path], options=LoadOptions(files=FileOptions(settings=settings))).mapspace


@pytest.mark.parametrize(
    ("setting", "old", "new"),
    [
        ("chip.technology=65nm", "45nm", "65nm"),
        ("PE.meshX=16", "meshX: 4", "meshX: 16"),
        ("PE.meshY=3", "{meshX: 4}", "{meshX: 4, meshY: 3}"),
        ("mac.adder_width=32", "adder_width: 8", "adder_width: 32"),
        ("DRAM.shared_bandwidth=2.5", "width: 64}", "width: 64, shared_bandwidth: 2.5}"),
        ("pad.depth=32", "attributes: *sram", "attributes: {datawidth: 8, width: 16, depth: 32, n_banks: 1}"),
        ("buffer.depth=BASE * 8", "depth: 256, n_banks: 1}", "depth: 512, n_banks: 1}"),
    ],
)
def test_a_setting_is_as_if_the_file_said_so(spec: Path, setting: str, old: str, new: str):
    written = spec.with_name("written.yaml")
    text = SPEC.replace(old, new)
    if setting.startswith("buffer"):
        text = text.replace("*sram", "{datawidth: 8, width: 16, depth: 256, n_banks: 1}")
    assert text != SPEC
    written.write_text(text, encoding="utf-8")
    assert loaded(spec, setting).architecture == loaded(written).architecture
    assert loaded(spec, setting).architecture != loaded(spec).architecture


def test_estimated_energies_follow_and_given_ones_stay(spec: Path):
    def reads(path: Path, depth: int) -> float:
        architecture = loaded(path, f"buffer.depth={depth}").architecture
        return architecture.levels[1].energy.read / architecture.units_per_pj

    assert reads(spec, 128) < reads(spec, 4096)
    spec.write_text(SPEC.replace("name: buffer", "name: buffer\n      energy: {read: 3, write: 3}"))
    assert reads(spec, 128) == reads(spec, 4096) == 3


def test_settings_of_several_attributes_hold_at_once(spec: Path):
    architecture = loaded(spec, "buffer.depth=128", "pad.depth=64", "PE.meshX=2").architecture
    assert [level.size_words for level in architecture.levels] == [None, 256, 128]
    assert architecture.fanouts[0].mesh_x == 2


def test_values_are_read_as_in_a_file():
    settings = parse_setting("a.b.depth=0x10, 1.5,65nm,true")
    assert [setting.value.value for setting in settings] == [16, 1.5, "65nm", True]
    assert {(setting.node, setting.attribute) for setting in settings} == {("a.b", "depth")}


def test_functions_keep_their_arguments():
    texts = [setting.value.text for setting in parse_setting("a.depth=min(width, 8),max(1, (2)),4")]
    assert texts == ["min(width, 8)", "max(1, (2))", "4"]
    assert parse_setting("a.depth=min(1, 2),7")[1].value.span.column == 19


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("bufer.depth=1", "no node `bufer`", "did you mean `buffer`?"),
        ("chip.depht=1", "`chip` does not set the attribute `depht`", "it sets `technology` and `BASE`"),
        ("buffer.n_bank=1", "`buffer` does not set the attribute `n_bank`", "did you mean `n_banks`?"),
        ("buffer.technology=65nm", "`buffer` does not set the attribute `technology`", None),
        ("PE.depth=4", "`PE` does not set the attribute `depth`", "it sets none"),
    ],
)
def test_what_is_not_there_cannot_be_set(spec: Path, setting: str, message: str, hint: str | None):
    with pytest.raises(SpecError, match=message) as raised:
        loaded(spec, setting)
    assert raised.value.span.file == f"setting {setting.partition('=')[0]}"
    assert hint is None or raised.value.hint == hint


@pytest.mark.parametrize("setting", ["buffer.depth=-1", "buffer.depth=many", "PE.meshX=0"])
def test_a_wrong_value_is_shown_where_it_is_given(spec: Path, setting: str):
    with pytest.raises(SpecError) as raised:
        loaded(spec, setting)
    assert setting in raised.value.render()


@pytest.mark.parametrize("text", ["depth=1", "buffer.depth", ".depth=1", "buffer.=1", "", "="])
def test_other_forms_are_refused(text: str):
    with pytest.raises(SpecError, match="does not set an attribute"):
        parse_setting(text)


@pytest.mark.parametrize("text", ["a.b=", "a.b=1,", "a.b=1,,2", "a.b= ,1"])
def test_empty_values_are_refused(text: str):
    with pytest.raises(SpecError, match="is empty"):
        parse_setting(text)


def test_many_values_take_linear_time():
    start = process_time()
    assert len(parse_setting(f"buffer.depth={','.join(map(str, range(20_000)))}")) == 20_000
    assert process_time() - start < 8


def test_a_value_given_twice_is_refused():
    with pytest.raises(SpecError, match="gets the value 0x10 twice"):
        parse_setting("a.b=16,0x10")
