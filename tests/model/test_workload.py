"""Properties of the tensors of an Einsum."""

from model.problem import Term
from model.workload import Einsum, RankIndex, TensorAccess


def test_tensors_are_named_once_however_often_they_are_accessed():
    index = (RankIndex("I", (Term("i"),)),)
    later = (RankIndex("I", (Term("i"),), offset=1),)
    accesses = [TensorAccess(name, own, name == "B") for name in "AB" for own in (index, later)]
    einsum = Einsum("e", ("i",), (range(4),), tuple(accesses))
    assert (einsum.inputs, einsum.outputs, einsum.tensors) == (("A",), ("B",), ("A", "B"))


def test_an_index_that_falls_spans_from_its_least_value_to_its_greatest():
    einsum = Einsum("e", ("i", "j"), (range(4), range(1, 3)), ())
    index = RankIndex("I", (Term("i", -2), Term("j")), offset=1)
    assert einsum.extent(index) == range(-4, 4)
    assert einsum.size_values(TensorAccess("A", (index,))) == 8
