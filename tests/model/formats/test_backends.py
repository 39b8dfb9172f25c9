"""Tiling backends: shipped ones, files, and what is wrong with them."""

import pytest

from model.formats.backends import backend_directory, load_backend
from model.text.source import SpecError
from model.tiling.tilings import DEFAULT_ORDER, Strategy

TEXT = """\
backend:
  name: mine
  num_pes: 4
  num_maccs_per_pe: 16
  vector_size: 4
  spad_bytes: 16 * 1024
  element_bytes: 4
  alignment: 0
"""


def _load(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_backend(str(path))


def test_all_shipped_backends_load():
    names = [path.stem for path in backend_directory().glob("*.yaml")]
    assert "smv" in names
    assert [load_backend(name).name for name in names] == names


def test_smv():
    smv = load_backend("smv")
    sizes = (smv.num_pes, smv.num_maccs_per_pe, smv.vector_size, smv.alignment)
    assert (*sizes, smv.capacity) == (8, 32, 8, 8, 16384)
    assert smv.order("convolution") == DEFAULT_ORDER


def test_a_file(tmp_path):
    backend = _load(tmp_path, TEXT)
    assert (backend.name, backend.capacity, backend.alignment) == ("mine", 4096, 1)
    assert backend.order("pooling") == DEFAULT_ORDER


def test_an_order_of_preference_for_one_operator(tmp_path):
    text = TEXT + "  preference: {pooling: [None, DimN, DimNH], default: [None]}\n"
    backend = _load(tmp_path, text)
    assert backend.order("pooling") == (Strategy.NONE, Strategy.N, Strategy.NH)
    assert backend.order("convolution") == (Strategy.NONE,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  num_pes: 4\n", "", "is missing the key `num_pes`"),
        ("num_pes: 4", "num_pes: 0", "`num_pes` must be at least 1"),
        ("alignment: 0", "alignment: -1", "`alignment` must be at least 0"),
        ("num_pes", "num_pe", "unknown key `num_pe`"),
        ("alignment: 0", "alignment: 8\n  preference: {pooling: []}", "at least one strategy"),
        ("alignment: 0", "alignment: 8\n  preference: {pooling: [DimN, DimN]}", "listed twice"),
        ("alignment: 0", "alignment: 8\n  preference: {pooling: [DimHW]}", "unknown strategy `DimHW`"),
        ("alignment: 0", "alignment: 8\n  preference: {softmax: [DimN]}", "unknown key `softmax`"),
        ("spad_bytes: 16 * 1024", "spad_bytes: 2", "holds no element of 4"),
        ("backend:", "backends:", "unknown key `backends`"),
    ],
)
def test_wrong_files(tmp_path, old, new, message):
    with pytest.raises(SpecError, match=message):
        _load(tmp_path, TEXT.replace(old, new))


def test_unknown_names_get_a_suggestion():
    with pytest.raises(SpecError, match="unknown backend `smw`") as caught:
        load_backend("smw")
    assert caught.value.hint == "did you mean `smv`?"
    with pytest.raises(SpecError, match=r"no file nowhere\.yaml"):
        load_backend("nowhere.yaml")
