"""The command ``tile``: what it prints, its JSON, its exit codes."""

import json

import pytest

from solver.__main__ import main
from solver.cli.output import NO_MAPPING
from tests.conftest import REPOSITORY
from tests.solver.golden import assert_golden

CONVOLUTION = (
    "tile --operator convolution --input 1,32,32,8 --kernel 5,5 --ofmaps 8 --stride 1 --padding same"
)
KEYS = {
    "version",
    "status",
    "reason",
    "operator",
    "backend",
    "spad_elements",
    "strategies",
    "tiles",
    "total_elements",
    "notes",
    "mapping",
}


def _run(command: str, capsys, *more: str):
    code = main([*command.split(), *more])
    return code, capsys.readouterr().out


def _document(command: str, capsys):
    code, out = _run(command, capsys, "--json", "-")
    document = json.loads(out)
    assert set(document) == KEYS
    return code, document


def test_what_it_prints(capsys):
    code, text = _run(CONVOLUTION.replace("32,32,8", "32,64,16"), capsys)
    assert code == 0
    assert_golden("tiling.txt", text)


def test_json(capsys):
    code, document = _document(CONVOLUTION, capsys)
    assert code == 0
    assert document["strategies"] == {"inputs": "None", "weights": "None", "outputs": "None"}
    assert document["tiles"]["weights"] == {
        "tensor": [8, 5, 5, 8],
        "shape": [8, 5, 5, 8],
        "count": 1,
        "first": [8, 5, 5, 8],
        "last": [8, 5, 5, 8],
        "elements": 1600,
        "scheduled": 1,
    }
    assert (document["total_elements"], document["spad_elements"], document["status"]) == (
        17984,
        16384,
        "TILED",
    )


@pytest.mark.parametrize(
    ("command", "strategies", "last"),
    [
        ("inner_product --input 1,4096 --ofmaps 128", ["None", "DimNC", "None"], [1, 128]),
        ("inner_product --input 1,4096 --outputs 128", ["None", "DimNC", "None"], [1, 128]),
        ("pooling --input 1,68,68,32 --kernel 2 --stride 2", ["DimNH", "DimNCH"], [1, 1, 34, 32]),
        ("pooling --input 1,68,68,32 --pool 2,2", ["DimNH", "DimNCH"], [1, 1, 34, 32]),
        ("batch_norm --input 1,64,512,512", ["DimNCW", "None", "DimNCW"], [1, 64, 32, 8]),
        ("batch_norm --input 1,1000", ["None", "None", "None"], [1, 1000]),
        ("unary --input 2,16,32,24", [None, None], [1, 8192]),
        ("eltwise --input 2,12288", [None, None, None], [1, 8192]),
        ("softmax --input 100,1001", ["DimN", "DimN"], [4, 1001]),
        (
            "convolution --input 1,64,64,32 --kernel 3 --ofmaps 16 --stride 2,2",
            ["DimNH", "None", "DimNH"],
            [1, 1, 31, 16],
        ),
    ],
)
def test_all_operators(command, strategies, last, capsys):
    code, document = _document(f"tile --operator {command}", capsys)
    assert code == 0
    assert list(document["strategies"].values()) == strategies
    assert list(document["tiles"]) == list(document["strategies"])
    assert document["tiles"]["outputs"]["last"] == last


def test_a_backend_of_ones_own(tmp_path, capsys):
    path = tmp_path / "small.yaml"
    sizes = "num_pes: 8, num_maccs_per_pe: 32, vector_size: 8, spad_bytes: 32768, alignment: 8"
    path.write_text(f"backend: {{name: small, {sizes}, element_bytes: 4}}\n", encoding="utf-8")
    code, document = _document(f"{CONVOLUTION} --backend {path}", capsys)
    assert (code, document["backend"], document["spad_elements"]) == (0, "small", 8192)


def test_what_cannot_be_tiled_ends_with_four(capsys):
    command = "tile --operator convolution --input 1,128,128,96 --kernel 5 --ofmaps 32"
    code, text = _run(command, capsys)
    assert code == 4
    assert "It cannot be tiled: no strategy cuts the inputs [1, 128, 128, 96] into tiles of at most" in text
    code, document = _document(command, capsys)
    assert (code, document["status"], document["strategies"], document["tiles"]) == (
        4,
        "CANNOT_TILE",
        None,
        None,
    )
    assert document["reason"] in text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "give either --operator and --input, or --onto"),
        ("--operator convolution --input 1,2,3,4 --kernel 1", "convolution needs --ofmaps"),
        ("--operator unary --input 1,2 --stride 1", "--stride does not apply to unary"),
        ("--operator pooling --input 1,8,8,8 --kernel 2 --padding same", "pooling has no padding"),
        ("--operator pooling --input 1,8,8,8 --kernel 9", "a window of 9 rows does not fit into 8"),
        ("--operator softmax --input 1,8,8,8", "softmax takes inputs N,C, not 4 numbers"),
        ("--operator unary --input 1x4", "'1x4' separates its numbers with `x`; use commas"),
        ("--operator unary --input 1,x", "'x' is not a positive integer"),
        ("--operator unary --input 1,0", "'0' is not a positive integer"),
        ("--operator pooling --input 1,8,8,8 --kernel 1,2,3", "has more than two numbers"),
        ("--operator unary --input 1,2 --mapping m.yaml", "--mapping needs --onto"),
        ("--operator unary --input 1,2 --mapped-spec m.yaml", "--mapped-spec needs --onto"),
        ("--operator unary --input 1,2 --set a=1", "--set needs --onto"),
        ("--operator unary --input 1,2 --ignore-sparse", "--ignore-sparse needs --onto"),
        ("--onto a.yaml --operator unary", "--operator does not apply with --onto"),
        ("--operator depthwise --input 1,2", "is not one of convolution"),
    ],
)
def test_wrong_arguments_end_with_two(command, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["tile", *command.split()])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_no_result_takes_the_place_of_the_backend(tmp_path, capsys):
    path = tmp_path / "own.yaml"
    path.write_text("backend: {name: small}\n", encoding="utf-8")
    words = ["--operator", "unary", "--input", "1,2", "--backend", str(path), "--json", str(path)]
    assert main(["tile", *words]) == 2
    assert "it is one of the inputs" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "backend: {name: small}\n"


def test_a_wrong_backend_ends_with_two(capsys):
    assert main(["tile", "--operator", "unary", "--input", "1,2", "--backend", "smw"]) == 2
    assert "did you mean `smv`?" in capsys.readouterr().err


def _onto(architecture: str) -> str:
    layer = REPOSITORY / "specs" / "layers" / "vgg16" / "10_conv4_3.yaml"
    return (
        f"tile --onto {REPOSITORY / 'specs' / 'architectures' / architecture}.yaml {layer} --factors perfect"
    )


def test_onto_an_architecture(tmp_path, capsys):
    path = tmp_path / "mapping.yaml"
    code, text = _run(_onto("smv_like"), capsys, "--mapping", str(path))
    assert code == 0
    assert "note: Outputs: 7 of P instead of 12 in a tile" in text
    assert "VALID the mapping respects every limit of the hardware" in text
    specs = _onto("smv_like").split()[2:]
    assert main(["evaluate", *specs, "--mapping", str(path)]) == 0
    evaluated = capsys.readouterr().out
    assert evaluated.split("Totals")[1].split("VALID")[0] in text


@pytest.mark.parametrize("architecture", ["smv_like", "tpu_like"])
def test_the_specs_with_the_mapping_price_the_same(architecture, tmp_path, capsys):
    """Also where the mapping breaks constraints: those that it meets are not in the file."""
    path = tmp_path / "mapped.yaml"
    code, text = _run(_onto(architecture), capsys, "--mapped-spec", str(path))
    assert code == 0
    main(["evaluate", str(path)])
    assert capsys.readouterr().out.split("Totals")[1].split("VALID")[0] in text


def test_onto_an_architecture_as_json(capsys):
    code, document = _document(_onto("smv_like"), capsys)
    assert code == 0
    assert document["mapping"][0]["target"] == "DRAM"
    assert any("12 does not divide 28" in note for note in document["notes"])


def test_specs_are_read_as_other_commands_read_them(capsys):
    words = f"{_onto('smv_like')} --set height=3"
    code, text = _run(words, capsys)
    assert code == 0
    assert "`height`" in text.split("note: ", 1)[1]
    assert any("`height`" in note for note in _document(words, capsys)[1]["notes"])
    assert _run(f"{_onto('smv_like')} --limit nodes=10", capsys)[0] == 2


def test_a_mapping_that_the_spec_does_not_allow_is_said(capsys):
    code, text = _run(_onto("tpu_like"), capsys)
    assert code == 0
    assert "note: the spec does not allow this mapping: it violates" in text


def test_onto_an_architecture_of_another_kind(capsys):
    code, text = _run(_onto("simba_like"), capsys)
    assert code == 4
    assert "below a fanout; SMAUG needs two levels of tiles above it" in text


def test_a_mapping_that_there_is_none_of_is_not_written(tmp_path, capsys):
    path = tmp_path / "mapping.yaml"
    assert main([*_onto("simba_like").split(), "--mapping", str(path)]) == 4
    assert capsys.readouterr().err == NO_MAPPING
    assert not path.exists()
