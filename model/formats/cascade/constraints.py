"""An architecture's constraints in terms of one Einsum: its tensors and rank variables for their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from model.formats.timeloop.constraints import factor_texts, order_words, split_factor
from model.note import Note
from model.problem import Dataspace, Problem, Term
from model.text.fields import as_mapping, as_scalar
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, note_at
from model.wording import listing, suggestion
from model.workload import Einsum, Workload

CONVENTIONAL = {"Weights": "weight", "Inputs": "input", "Outputs": "output"}
"""Dataspaces of Timeloop's usual shapes, and the renames that workloads have in their place."""


def dataspace_names(einsum: Einsum) -> tuple[str, ...]:
    """Return a name per access: the tensor's, with a number where it is accessed again."""
    taken = set(einsum.tensors)
    names: list[str] = []
    for access in einsum.accesses:
        name, number = access.tensor, 1
        while name in names:
            number += 1
            candidate = f"{access.tensor}_{number}"
            name = name if candidate in taken else candidate
        names.append(name)
    return tuple(names)


def problem_of(einsum: Einsum, further_dims: Iterable[str] = ()) -> Problem:
    """Return an Einsum as a canonical problem over the box of its rank variables.

    Rank variables become dimensions and tensor accesses dataspaces; the outputs are read-write. An
    index that does not change has no rank, and offsets do not matter.
    """
    spaces = tuple(
        Dataspace(
            name=name,
            ranks=tuple(
                tuple(Term(term.dim, term.coefficient) for term in index.terms)
                for index in access.indices
                if index.terms
            ),
            read_write=access.output,
        )
        for name, access in zip(dataspace_names(einsum), einsum.accesses, strict=True)
    )
    further = tuple(further_dims)
    bounds = (*einsum.bounds.values(), *(1 for _ in further))
    return Problem(einsum.name, (*einsum.rank_variables, *further), bounds, spaces)


def place_of(einsum: Einsum) -> Span:
    """Return where an Einsum is written; without a source a place in a file of the Einsum's name."""
    source = einsum.source
    if source is None:
        return Span(einsum.name, 1, 1, 1, 2)
    return Span(source.file, source.line, source.column, source.line, source.column + 1)


@dataclass(frozen=True)
class Naming:
    """Names of one Einsum, beside those that only other Einsums of the workload have."""

    einsum: Einsum
    workload: Workload

    def tensors(self, name: str) -> tuple[str, ...] | None:
        """Return the dataspaces that a name means here, None for an unknown one.

        A rename of the Einsum takes precedence over a tensor, and this over the set of that name (``All``);
        ``Weights``, ``Inputs`` and ``Outputs`` mean the renames ``weight``, ``input`` and ``output``.
        """
        for spelling in (name, CONVENTIONAL.get(name, name)):
            if spelling in self._tensor_renames:
                return self._dataspaces(self._tensor_renames[spelling])
        if name in self.einsum.tensors:
            return self._dataspaces((name,))
        if name in self._sets:
            return self._dataspaces(self._sets[name])
        is_elsewhere = (
            name in self.workload.tensors or CONVENTIONAL.get(name, name) in self.workload.tensor_renames
        )
        return () if is_elsewhere else None

    def is_all_inputs(self, name: str) -> bool:
        """Whether `name` means several inputs, though renames of the workload tell weights from the input."""
        is_set = name == "Inputs" and "input" not in self._tensor_renames and name not in self.einsum.tensors
        others_tell = not self.workload.tensor_renames.isdisjoint(("weight", "input"))
        return is_set and others_tell and len(self.einsum.inputs) > 1

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the rank variables that `name` means here, none if it is no name of the Einsum's."""
        renames = dict(self.einsum.rank_variable_renames)
        if name in renames:
            return renames[name]
        return (name,) if name in self.einsum.rank_variables else ()

    def knows_dim(self, name: str) -> bool:
        """Whether some Einsum of the workload has a rank variable or a rename `name`."""
        return name in self.workload.dims

    def dim_in_other_case(self, name: str) -> str | None:
        """Return the rank variable or rename that differs from an unknown `name` by case only, if any."""
        return next((known for known in self.workload.dims if known.casefold() == name.casefold()), None)

    @property
    def known_tensor_names(self) -> tuple[str, ...]:
        """All names of tensors that an architecture can use for some Einsum of the workload."""
        tensors = (tensor for einsum in self.workload.einsums for tensor in einsum.tensors)
        return tuple(dict.fromkeys((*sorted(self.workload.tensor_renames), *tensors, *self._sets)))

    @cached_property
    def _tensor_renames(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.einsum.tensor_renames)

    @cached_property
    def _sets(self) -> Mapping[str, tuple[str, ...]]:
        all_tensors = self.einsum.tensors
        persistent = {access.tensor for access in self.einsum.accesses if access.persistent}
        return {
            "All": all_tensors,
            "Tensors": all_tensors,
            "Nothing": (),
            "Inputs": self.einsum.inputs,
            "Outputs": self.einsum.outputs,
            "Intermediates": tuple(name for name in all_tensors if name in self.workload.intermediates),
            "Shared": tuple(name for name in all_tensors if name in self.workload.shared),
            "Persistent": tuple(name for name in all_tensors if name in persistent),
        }

    def _dataspaces(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the dataspaces of tensors; one that is accessed twice has two."""
        wanted = frozenset(tensors)
        pairs = zip(dataspace_names(self.einsum), self.einsum.accesses, strict=True)
        return tuple(name for name, access in pairs if access.tensor in wanted)


TENSOR_LISTS = (
    "keep",
    "bypass",
    "keep_only",
    "bypass_only",
    "no_coalesce",
    "no_reuse",
    "no_temporal_reuse",
    "no_link_transfer",
    "rmw_first_update",
    "no_iteration_over_dataspaces",
    "must_iterate_over_dataspaces",
)
TENSOR_SCALES = "per_dataspace_bandwidth_consumption_scale"
FACTORS = ("factors", "factors_only")

_EVERYTHING = "*"
_OF_ALL = ("=1", "==1", "<=1", "=-1", "==-1")
"""Factors that may be asked of any number of dimensions at once: no loop, or any."""


@dataclass
class Resolver:
    """Rewrites nodes for one Einsum."""

    naming: Naming
    # Dimensions that the constraints name and the Einsum lacks, in order of appearance; their bound is 1.
    absent: dict[str, ScalarNode] = field(default_factory=dict)
    # Places of the name ``Inputs`` where it means weights as well.
    all_inputs: list[Span] = field(default_factory=list)

    def resolved(self, node: Node) -> Node:
        """Return a section with all names of tensors and dimensions in it replaced."""
        if isinstance(node, SequenceNode):
            return replace(node, items=tuple(self.resolved(item) for item in node.items))
        if isinstance(node, MappingNode):
            entries = tuple((key, self._entry(key.text, value)) for key, value in node.entries)
            return MappingNode(entries, node.span, node.tag)
        return node

    def unknown_note(self) -> Note | None:
        """Return a note on the dimensions that no Einsum of the workload has, None if there are none."""
        unknown = {name: node for name, node in self.absent.items() if not self.naming.knows_dim(name)}
        if not unknown:
            return None
        known = {name: self.naming.dim_in_other_case(name) for name in unknown}
        others = {name: other for name, other in known.items() if other}
        place = next(iter(unknown.values()))
        if len(others) == len(unknown):
            raise _misspelt(others, place)
        alike = ", ".join(f"`{name}` is not `{other}`" for name, other in others.items())
        case = f" (case matters: {alike})" if alike else ""
        sentence = "{}: no rank variable has this name{}; its bound is 1"
        return note_at(place.span, sentence, listing(unknown), case)

    def explained(self, error: SpecError) -> SpecError:
        """Return an error on what was resolved with a hint on what ``Inputs`` means at its places."""
        places = {error.span, *(place for place, _ in error.related)}
        if error.hint is not None or places.isdisjoint(self.all_inputs):
            return error
        name = self.naming.einsum.name
        hint = f"`Inputs` means all inputs of Einsum `{name}`; to exclude weights, give it a rename `input`"
        return type(error)(error.message, error.span, error.related, hint)

    def _entry(self, key: str, value: Node) -> Node:
        if key in TENSOR_LISTS:
            return self._tensors(value)
        if key == TENSOR_SCALES:
            return self._scales(value)
        if key in FACTORS:
            return self._factors(value)
        if key == "permutation":
            return self._order(value)
        if key == "maximize_dims":
            return self._groups(value)
        return self.resolved(value)

    def _tensors(self, node: Node) -> Node:
        items = node.items if isinstance(node, SequenceNode) else (node,)
        tensors: dict[str, Node] = {}
        for item in items:
            scalar = as_scalar(item, "a tensor")
            names = (_EVERYTHING,) if scalar.text == _EVERYTHING else self._dataspaces(scalar)
            for name in names:
                tensors.setdefault(name, _name_node(name, scalar))
        return SequenceNode(tuple(tensors.values()), node.span)

    def _dataspaces(self, scalar: ScalarNode) -> tuple[str, ...]:
        tensors = self.naming.tensors(scalar.text)
        if self.naming.is_all_inputs(scalar.text):
            self.all_inputs.append(scalar.span)
        if tensors is not None:
            return tensors
        names = self.naming.known_tensor_names
        hint = suggestion(scalar.text, names, "known names are")
        if scalar.text in CONVENTIONAL:
            rename = CONVENTIONAL[scalar.text]
            hint = (
                f"it means the rename `{rename}`; give each Einsum with one `renames: {{{rename}: TENSOR}}`"
            )
        raise SpecError(f"`{scalar.text}` is not a tensor or rename of the workload", scalar.span, hint=hint)

    def _scales(self, node: Node) -> Node:
        section = as_mapping(node, f"`{TENSOR_SCALES}`")
        entries = [
            (_name_node(name, key), value) for key, value in section.entries for name in self._dataspaces(key)
        ]
        return MappingNode(tuple(entries), node.span)

    def _factors(self, node: Node) -> Node:
        items: list[Node] = []
        for text, place in factor_texts(node):
            name, operator, value = split_factor(text)
            rest = f"{operator or '='}{value}" if operator or value else ""
            if not self.naming.dims(name) and self.naming.knows_dim(name):
                continue  # It speaks of the Einsums that have this dimension.
            written = node.key(name) if isinstance(node, MappingNode) and name in node else place
            dims = self._dims(name, written)
            of_all = rest in _OF_ALL
            meant = self.naming.dim_in_other_case(name) if name in self.absent else None
            if meant and not of_all:
                raise _misspelt({name: meant}, written)
            if len(dims) > 1 and not of_all:
                message = f"`{name}` means {listing(dims)} here; only factors of 1 and -1 hold for all"
                raise SpecError(message, written.span)
            items += [_name_node(f"{dim}{rest}", place) for dim in dims]
        return SequenceNode(tuple(items), node.span)

    def _order(self, node: Node) -> Node:
        items = [
            _name_node(dim, place)
            for name, place in _order_names(node, self._is_dim, self.naming.workload.dims)
            for dim in ((name,) if name == "_" else self._dims(name, place))
        ]
        return SequenceNode(tuple(items), node.span)

    def _groups(self, node: Node) -> Node:
        if not isinstance(node, SequenceNode):
            return node
        items: list[Node] = []
        for item in node.items:
            if isinstance(item, SequenceNode):
                items.append(self._groups(item))
                continue
            scalar = as_scalar(item, "a dimension")
            items += [_name_node(dim, scalar) for dim in self._dims(scalar.text, scalar)]
        return SequenceNode(tuple(items), node.span)

    def _is_dim(self, name: str) -> bool:
        return bool(self.naming.dims(name)) or name in self.absent or self.naming.knows_dim(name)

    def _dims(self, name: str, place: Node) -> tuple[str, ...]:
        """Return what a name means here; a name that means nothing becomes a dimension of bound 1."""
        dims = self.naming.dims(name)
        if dims or not name.isidentifier():
            return dims or (name,)
        self.absent.setdefault(name, _name_node(name, place))
        return (name,)


def _misspelt(names: Mapping[str, str], place: Node) -> SpecError:
    """Return the error for names that are rank variables but for their case, the first of them at `place`."""
    name, meant = next(iter(names.items()))
    renames = ", ".join(f"{name}: {other}" for name, other in names.items())
    hint = f"did you mean `{meant}`? The workload may rename: `rank_variables: {{{renames}}}`"
    return SpecError(f"no rank variable is named `{name}`; case matters", place.span, hint=hint)


def _order_names(
    node: Node, is_dim: Callable[[str], bool], known: Iterable[str]
) -> Iterator[tuple[str, Node]]:
    """Yield the names of a permutation; in a text without separators each character is one."""
    if isinstance(node, SequenceNode):
        yield from ((as_scalar(item, "a dimension").text, item) for item in node.items)
        return
    text = as_scalar(node, "`permutation`").text.strip()
    words = order_words(text, known)
    if len(words) == 1 and "," not in text and not is_dim(words[0]):
        words = list(words[0])
    yield from ((word, node) for word in words)


def _name_node(text: str, place: Node) -> ScalarNode:
    return ScalarNode(text, text, True, place.span)
