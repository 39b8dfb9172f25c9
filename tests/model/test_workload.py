"""What an Einsum says of its tensors."""

from model.problem import Term
from model.workload import Einsum, RankIndex, TensorAccess


def test_tensors_are_named_once_however_often_they_are_accessed():
    index = (RankIndex("I", (Term("i"),)),)
    later = (RankIndex("I", (Term("i"),), offset=1),)
    accesses = [TensorAccess(name, own, name == "B") for name in "AB" for own in (index, later)]
    einsum = Einsum("e", ("i",), (range(4),), tuple(accesses))
    assert (einsum.inputs, einsum.outputs, einsum.tensors) == (("A",), ("B",), ("A", "B"))
