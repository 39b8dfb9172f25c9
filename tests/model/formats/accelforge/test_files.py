"""Whole workload files: those that ship, and those that AccelForge's users have."""

from pathlib import Path

import pytest
import yaml

from model.formats.accelforge import load_workload
from model.text.source import SpecError
from model.workload import Einsum
from tests.conftest import REPOSITORY, SHARED
from tests.reference import EINSUMS, FED_FROM_OUTSIDE, WORKLOADS, workload_file

SHIPPED = REPOSITORY / "specs" / "workloads"
SEED = SHARED / "seeds" / "001_51ed3bb135d857ca.txt"

VARIABLES = {
    "BATCH_SIZE": 2,
    "N_NEW_TOKENS": 128,
    "N_HEADS": 8,
    "N_Q_HEADS_PER_KV_HEAD": 4,
    "N_EMB_PER_HEAD": 64,
    "N_HIDDEN_DIMS": 512,
    "N_FF_DIMS": 2048,
    "CHUNK_SIZE": 100,
    "N_V_DIMS": 32,
    "N_Q_LATENT": 96,
    "N_KV_LATENT": 48,
    "N_EXPERTS": 8,
    "N_EXPERTS_PER_TOKEN": 2,
    "N_SHARED_FF_DIMS": 256,
    "N_EINSUMS": 3,
}

WITHOUT_A_WORKLOAD = (
    "_renames_default.yaml",
    "transformers/_attention_decode_types/_max_tokens_assert.yaml",
)


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("name", EINSUMS)
def test_files_of_accelforge_load_as_they_stand(name: str, decode: bool):
    extra = {"DECODE": decode, "N_CACHED_TOKENS": 1024}
    variables = {**VARIABLES, **extra, **({"N_NEW_TOKENS": 1} if decode else {})}
    workload = load_workload([workload_file(name)], variables).workload
    assert workload.einsums[0].bounds
    assert len(workload.einsums) == EINSUMS[name]


@pytest.mark.parametrize("name", FED_FROM_OUTSIDE)
def test_feedforward_fragments_load_behind_what_feeds_them(name: str, tmp_path: Path):
    fragment = workload_file(f"transformers/_feedforward_types/{name}")
    top = tmp_path / "top.yaml"
    top.write_text(
        f'{{{{include_text("{WORKLOADS / "_renames_default.yaml"}")}}}}\n'
        f'{{% set FF = include("{fragment}", "") %}}\n'
        "workload:\n"
        "  rank_sizes:\n    <<<: [{{FF}}.workload.rank_sizes]\n    F: 3\n"
        "  bits_per_value: {All: 8}\n"
        "  persistent_tensors: weight - Intermediates\n"
        "  einsums:\n"
        '  - {einsum: "Z[b, m, g] = AV[b, m, f] * WZ[f, g]", renames: {input: AV}}\n'
        "  - {{FF}}.workload.einsums\n",
        encoding="utf-8",
    )
    workload = load_workload([top], VARIABLES, allow_include=[WORKLOADS]).workload
    assert workload.einsums[0].name == "Z"
    assert any("FFB" in einsum.outputs for einsum in workload.einsums)


def test_the_list_of_files_is_complete():
    if not WORKLOADS.exists():
        pytest.skip("../shared is absent")
    files = {path.relative_to(WORKLOADS).as_posix() for path in WORKLOADS.rglob("*.yaml")}
    assert files == {*EINSUMS, *WITHOUT_A_WORKLOAD}


@pytest.mark.parametrize("name", FED_FROM_OUTSIDE)
def test_a_fragment_alone_has_the_sets_of_the_whole(name: str):
    path = workload_file(f"transformers/_feedforward_types/{name}")
    loaded = load_workload([path], {**VARIABLES, "DECODE": False})
    expected = FED_FROM_OUTSIDE[name]
    assert [e.name for e in loaded.workload.einsums if "Z" in e.inputs and len(e.tensors) == 3] == expected
    for einsum in map(loaded.workload.einsum, expected):
        (weight,) = (tensor for tensor in einsum.inputs if tensor != "Z")
        assert dict(einsum.tensor_renames) == {"input": ("Z",), "weight": (weight,), "output": einsum.outputs}
        assert {access.tensor for access in einsum.accesses if access.persistent} == {weight}
    notes = [note for note in loaded.notes if "`Z` counts as an intermediate" in note.text]
    assert [name for name in expected if any(f"`{name}`" in note.text for note in notes)] == expected


@pytest.mark.parametrize("name", WITHOUT_A_WORKLOAD)
def test_a_file_without_a_workload_goes_with_others(name: str):
    part, whole = workload_file(name), workload_file("transformers/gpt/gpt3_6.7B.yaml")
    variables = {**VARIABLES, "DECODE": False, "MAX_N_TOKENS": 128}
    together = load_workload([part, whole], variables).workload
    assert together.name == "gpt3_6.7B"
    assert together.einsums == load_workload([whole], variables).workload.einsums
    with pytest.raises(SpecError, match=r"without a `workload`|no `workload` is given"):
        load_workload([part], variables)


def test_an_assertion_of_a_fragment_reaches_the_user():
    path = workload_file("transformers/gpt/gpt3_6.7B.yaml")
    with pytest.raises(SpecError, match="exceeds MAX_N_TOKENS"):
        load_workload([path], {**VARIABLES, "DECODE": False, "N_NEW_TOKENS": 4096})


@pytest.mark.parametrize("name", ["three_matmuls", "gpt3_block"])
def test_shipped_files_are_the_documents_word_for_word(name: str):
    if not SEED.exists():
        pytest.skip("../shared is absent")
    text = (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.strip() in SEED.read_text(encoding="utf-8")


def test_the_three_matmuls():
    workload = load_workload([SHIPPED / "three_matmuls.yaml"]).workload
    assert [dict(e.tensor_renames) for e in workload.einsums] == [
        {"input": ("T0",), "output": ("T1",), "weight": ("W0",)},
        {"input": ("T1",), "output": ("T2",), "weight": ("W1",)},
        {"input": ("T2",), "output": ("T3",), "weight": ("W2",)},
    ]
    assert workload.intermediates == {"T1", "T2"}


@pytest.mark.parametrize(("variables", "tokens"), [({}, 8192), ({"N_TOKENS": 4096}, 4096)])
def test_the_gpt3_block(variables: dict[str, object], tokens: int):
    workload = load_workload([SHIPPED / "gpt3_block.yaml"], variables).workload
    names = [einsum.name for einsum in workload.einsums]
    assert names == ["I", "V", "K", "Q", "QK", "QK_softmax", "AV", "Z", "FFA", "FFB"]
    assert [e.name for e in workload.einsums if e.is_copy_operation] == ["I"]
    qk = workload.einsum("QK")
    assert qk.bounds == {"b": 1, "m": tokens, "h": 32, "e": 128, "p": tokens}
    assert dict(qk.tensor_renames) == {"weight": ("K",), "input": ("Q",), "output": ("QK",)}
    assert dict(workload.einsum("QK_softmax").tensor_renames)["weight"] == ()
    persistent = {a.tensor for e in workload.einsums for a in e.accesses if a.persistent}
    assert persistent == {"WV", "WK", "WQ", "WZ", "WFFA", "WFFB"}


def layer_instances(folder: str) -> list[dict[str, int]]:
    paths = sorted((REPOSITORY / "specs" / "layers" / folder).glob("*.yaml"))
    return [yaml.safe_load(path.read_text(encoding="utf-8"))["problem"]["instance"] for path in paths]


def named_bounds(einsum: Einsum) -> dict[str, int]:
    return {name: einsum.bounds[variables[0]] for name, variables in einsum.rank_variable_renames}


@pytest.mark.parametrize("network", ["resnet18", "mobilenet_v2"])
def test_networks_have_the_bounds_of_the_layer_files(network: str):
    einsums = load_workload([SHIPPED / f"{network}.yaml"]).workload.einsums
    strides = ("Wstride", "Hstride")
    layers = [{k: v for k, v in layer.items() if k not in strides} for layer in layer_instances(network)]
    assert [named_bounds(einsum) for einsum in einsums] == layers
    for einsum, layer in zip(einsums, layer_instances(network), strict=True):
        rows = next(i for i in einsum.accesses[0].indices if len(i.terms) == 2)
        assert rows.terms[0].coefficient == layer.get("Wstride", 1)
        padding = (layer["R"] - 1) // 2
        assert rows.offset == -padding


def test_attention():
    workload = load_workload([SHIPPED / "attention.yaml"], {"N_TOKENS": 64, "N_CONTEXT": 256}).workload
    assert [e.name for e in workload.einsums] == ["QK", "QK_softmax", "AV"]
    assert workload.einsum("AV").bounds == {"b": 1, "h": 16, "m": 64, "p": 256, "f": 64}
