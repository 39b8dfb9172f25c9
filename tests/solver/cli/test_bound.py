"""The command ``bound``: what it prints and writes, and what it refuses."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from solver.cli import bound
from solver.cli.main import main
from solver.curves.design import Design
from solver.curves.einsum import traffic_curve
from solver.curves.network import Part, network_curve
from solver.report.curves import COLUMNS
from solver.result import Status
from tests.conftest import REPOSITORY
from tests.mapspaces import matmul

PRODUCT = ("Z[m,n] = A[m,k] * B[k,n]", "m=12", "k=10", "n=8")
CHAIN = ("T[m,n] = A[m,k] * B[k,n]", "C[m,l] = T[m,n] * D[n,l]", "m=8", "k=4", "n=4", "l=4")


def document(capsys, *arguments: str, code: int = 0) -> dict:
    assert main(["bound", *arguments, "--json", "-"]) == code
    return json.loads(capsys.readouterr().out)


def test_every_breakpoint_is_in_json_and_csv(capsys, tmp_path):
    table = tmp_path / "curve.csv"
    (own,) = document(capsys, *PRODUCT, "--csv", str(table))["curves"]
    curve = traffic_curve(Design(matmul(12, 8, 10), {"A": 8, "B": 8, "Z": 8}))
    wanted = [(point.capacity, point.traffic) for point in curve.points]
    assert [(step["capacity_bytes"], step["traffic_bytes"]) for step in own["steps"]] == wanted
    (layer,) = own["layers"]
    assert [(each["capacity_words"], each["traffic_words"]) for each in layer["points"]] == wanted
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert tuple(rows[0]) == COLUMNS
    assert [(int(r["capacity_words"]), int(r["traffic_words"])) for r in rows if r["layer"]] == wanted


def test_a_mapping_says_what_is_kept_and_in_which_order(capsys):
    (own,) = document(capsys, *PRODUCT)["curves"]
    last = own["layers"][0]["points"][-1]
    assert last["keep"] == ["A", "B", "Z"]
    assert own["minimum"] == {
        "traffic_bytes": 12 * 10 + 10 * 8 + 12 * 8,
        "capacity_bytes": last["capacity_words"],
    }
    first = own["layers"][0]["points"][0]
    assert (first["capacity_words"], first["keep"]) == (0, [])


def test_the_report_has_table_chart_and_answers(capsys):
    assert (
        main(["bound", *PRODUCT, "--at", "64", "--traffic", "0.5k,10", "--bandwidth", "2", "--macs", "4"])
        == 0
    )
    text = capsys.readouterr().out
    assert text.startswith("OPTIMAL least traffic 296 B, reached with a buffer of ")
    assert any("\u2800" < letter <= "\u28ff" for letter in text)
    assert re.search(r"^ +64 B .* A, B, Z$", text, re.MULTILINE)
    assert re.search(r"Traffic of at most 500 B needs a buffer of \d+ B", text)
    assert "No buffer reduces the traffic to 10 B." in text
    assert re.search(r"At 2\.0000 MAC/byte, a buffer of at least .* makes it compute-bound", text)


def test_the_other_way_round_is_the_least_buffer(capsys):
    (own,) = document(capsys, *PRODUCT, "--traffic", "600,400")["curves"]
    for each in own["within"]:
        enough = [step for step in own["steps"] if step["traffic_bytes"] <= each["traffic_bytes"]]
        assert each["capacity_bytes"] == min(step["capacity_bytes"] for step in enough)


def test_a_roofline_is_met_where_traffic_takes_no_longer_than_arithmetic(capsys):
    (own,) = document(capsys, *PRODUCT, "--bandwidth", "1.5", "--macs", "3")["curves"]
    limit = 12 * 10 * 8 * 1.5 / 3
    met = [step["capacity_bytes"] for step in own["steps"] if step["traffic_bytes"] <= limit]
    assert own["roofline"]["capacity_bytes"] == met[0] > 0


def test_bits_of_values(capsys):
    (own,) = document(capsys, *PRODUCT, "--bits", "A=4,Z=32")["curves"]
    assert own["layers"][0]["bits"] == {"A": 4, "B": 8, "Z": 32}
    assert own["layers"][0]["word_bits"] == 4
    assert own["minimum"]["traffic_bytes"] == 120 / 2 + 80 + 96 * 4
    (own,) = document(capsys, *PRODUCT, "--bits", "16")["curves"]
    assert own["minimum"]["traffic_bytes"] == 2 * 296


def test_files_say_their_bits(capsys):
    (own,) = document(capsys, "specs/problems/gemm.yaml", "--factors", "perfect")["curves"]
    assert set(own["layers"][0]["bits"].values()) == {8}


def test_of_a_file_with_its_own_design_the_problem_counts(capsys, tmp_path):
    paths = []
    for kind, name in (("problems", "gemm"), ("workloads", "three_matmuls")):
        parts = (
            REPOSITORY / "specs" / kind / f"{name}.yaml",
            REPOSITORY / "specs/architectures/tpu_like.yaml",
        )
        paths.append(tmp_path / f"{name}.yaml")
        paths[-1].write_text("\n".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        options = ("--factors", "perfect", "--at", "1Ki")
        alone, beside = (document(capsys, str(path), *options) for path in (parts[0], paths[-1]))
        assert beside["curves"] == alone["curves"]
        assert alone["notes"] == []
        assert [note.split(": ", 1)[1] for note in beside["notes"]] == [
            "`architecture`: ignored, as only the problem is read"
        ]
    fused = document(capsys, str(paths[1]), *options, "--fuse", "--time-limit", "1", code=3)
    assert fused["curves"][0]["fused"]["points"]


def test_of_a_model_layers_are_not_fused(capsys, tmp_path):
    onnx, path = pytest.importorskip("onnx"), tmp_path / "product.onnx"
    known = onnx.helper
    tensors = [known.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in ("x", "w", "y")]
    node = known.make_node("MatMul", ["x", "w"], ["y"], name="one")
    graph = known.make_graph([node], "net", tensors[:2], tensors[2:])
    path.write_bytes(known.make_model(graph).SerializeToString())
    found = document(capsys, str(path))
    assert found["notes"] == []
    assert found["curves"][0]["layers"][0]["bits"] == {"x": 32, "w": 32, "y": 32}
    assert main(["bound", str(path), "--fuse"]) == 2
    assert "is an ONNX model: only the Einsums of a `workload` are fused" in capsys.readouterr().err


def test_a_single_operation_has_a_flat_curve(capsys):
    (own,) = document(capsys, PRODUCT[0], "m=1", "k=1", "n=1")["curves"]
    assert [(at["capacity_bytes"], at["traffic_bytes"]) for at in own["at"]] == [(0, 3)]
    assert main(["bound", PRODUCT[0], "m=1", "k=1", "n=1"]) == 0
    assert re.findall(r"^ *(\S+ B)? +\|", capsys.readouterr().out, re.MULTILINE).count("3 B") == 1


def test_the_ends_of_a_range_are_shown(capsys):
    (own,) = document(capsys, *PRODUCT)["curves"]
    places = [step["capacity_bytes"] for step in own["steps"]]
    (own,) = document(capsys, *PRODUCT, "--capacity", f"{places[4]}:{places[-3]}")["curves"]
    shown = [at["capacity_bytes"] for at in own["at"]]
    assert (shown[0], shown[-1]) == (places[4], places[-3])


def test_several_inputs_are_several_curves(capsys, tmp_path):
    picture, page = tmp_path / "curves.svg", tmp_path / "curves.html"
    two = ("Y[m] = A[m,k] * X[k]", *PRODUCT)
    files = ("--plot", str(picture), "--report", str(page))
    assert main(["bound", *two, *files]) == 0
    text = capsys.readouterr().out
    assert "a: Y\n" in text
    assert "b: Z\n" in text
    assert "At some sizes of Z" in text
    drawn = picture.read_text(encoding="utf-8")
    assert all(f"least {size} B" in drawn for size in (12 * 10 + 10 + 12, 296))
    assert "Least traffic by size of the buffer" in page.read_text(encoding="utf-8")


def test_layers_of_a_directory(capsys, working_directory: Path):
    layer = (REPOSITORY / "specs/problems/gemm.yaml").read_text(encoding="utf-8")
    small = re.sub(r"\b([MNK]): \d+", r"\1: 6", layer)
    Path("net").mkdir()
    for name in ("one", "two"):
        Path(f"net/{name}.yaml").write_text(small, encoding="utf-8")
    (own,) = document(capsys, "net")["curves"]
    first, second = own["layers"]
    assert (second["same_as"], second["points"]) == ("one", None)
    assert first["minimum"] == second["minimum"]
    assert own["minimum"]["traffic_bytes"] == 2 * 3 * 36
    assert main(["bound", "net"]) == 0
    assert re.search(r"^two +1 +108 B +\d+ B +one$", capsys.readouterr().out, re.MULTILINE)


def test_a_fused_chain_beside_its_einsums(capsys):
    (own,) = document(capsys, *CHAIN, "--fuse", "--at", "64,1Ki", "--factors", "perfect")["curves"]
    less, more = own["fused"]["points"]
    assert (less["status"], more["status"]) == ("OPTIMAL", "OPTIMAL")
    assert more["traffic_bytes"] == more["bound_bytes"] == 8 * 4 + 16 + 16 + 32
    assert more["unfused_bytes"] == own["minimum"]["traffic_bytes"] == more["traffic_bytes"] + 2 * 32
    assert less["unfused_bytes"] >= less["traffic_bytes"] >= more["traffic_bytes"]


def test_proven_points_of_a_chain_have_a_certificate(capsys, tmp_path, monkeypatch):
    path = tmp_path / "certificate.json"
    options = ("--fuse", "--factors", "perfect", "--at", "1,12", "--certificate", str(path))
    chain = (*CHAIN[:2], "m=2", "k=2", "n=2", "l=1")
    assert main(["bound", *chain, *options, "--check"]) == 0
    said = capsys.readouterr()
    assert "no mapping is below the curves: 2 with " in said.out
    assert "and 2 points of fused cascades" in said.out
    assert "note: the certificate leaves out" not in said.err
    assert main(["prove", str(path)]) == 0
    monkeypatch.setattr("solver.curves.fused.FusedPoint.status", Status.FEASIBLE)
    capsys.readouterr()
    assert main(["bound", *chain, *options]) == 3
    assert "note: the certificate leaves out Einsum, fused, at 12 B: not proven" in capsys.readouterr().err


def test_fused_points_are_within_the_picture(capsys, tmp_path):
    """Also those at sizes where no Einsum alone needs as much."""
    options = ("--fuse", "--factors", "perfect", "--quiet", "--plot")
    pictures = []
    for name, more in (("all", ()), ("range", ("--capacity", "16:128"))):
        pictures.append(tmp_path / f"{name}.svg")
        assert main(["bound", *CHAIN, "--at", "64,64Ki", *options, str(pictures[-1]), *more]) == 0
    texts = [path.read_text(encoding="utf-8") for path in pictures]
    assert ["64 KiB: " in text for text in texts] == [True, False]
    places = [float(x) for x in re.findall(r'circle cx="([\d.]+)"', texts[0])]
    assert max(places) < float(re.findall(r'width="([\d.]+)"', texts[0])[0]) - 30


def test_the_documentation_has_what_is_printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    text = (REPOSITORY / "docs" / "bound.md").read_text(encoding="utf-8")
    example = next(part for part in text.split("```") if "--fuse" in part and "tilewright" in part)
    command, printed = example.split("\n...\n")
    _, *arguments = shlex.split(command.replace("\\\n", " ").replace("$ tilewright", ""))
    assert main(["bound", *arguments]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in printed.splitlines() if line not in shown] == []


def test_all_keys_are_documented(capsys, tmp_path):
    found = document(
        capsys, *CHAIN, "--fuse", "--at", "1Ki", "--traffic", "1k", "--macs", "1", "--bandwidth", "1"
    )
    _, part = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8").split("## `bound`")
    (own,) = found["curves"]
    inside = (own["at"], own["within"], own["layers"], own["steps"], own["fused"]["points"])
    objects = [found, own, own["minimum"], own["roofline"], own["fused"], *(each[0] for each in inside)]
    objects.append(own["layers"][0]["points"][0])
    keys = {key for each in objects for key in each} - {"version", "kind", "run"}
    assert sorted(key for key in keys if f"`{key}`" not in part) == []


def test_a_time_limit_leaves_nothing_unsaid(capsys):
    found = document(capsys, *PRODUCT, "--time-limit", "0", code=5)
    assert (found["status"], found["termination"]) == ("UNKNOWN", "TIME_LIMIT")
    assert found["curves"][0]["missing"][0]["reason"] == "stopped"
    assert main(["bound", *PRODUCT, "--time-limit", "0"]) == 5
    assert capsys.readouterr().out.startswith("UNKNOWN 0 of 1 layer; stopped by the time limit")


def test_layers_that_are_done_are_shown(capsys, monkeypatch, working_directory: Path):
    def half(parts: list[Part], factors, should_stop, on_layer):
        done = network_curve(parts[:1], factors, should_stop, on_layer)
        return type(done)(done.layers, ((parts[0], "stopped"),))

    monkeypatch.setattr(bound, "network_curve", half)
    assert main(["bound", *PRODUCT]) == 5
    text = capsys.readouterr().out
    assert text.startswith("UNKNOWN least traffic 296 B")
    assert "1 of 2 layers" in text
    assert re.search(r"^Z +stopped$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((PRODUCT[0], "m=0", "k=1", "n=1"), "m=0: the size of m must be an integer from 1 to 999,999,999"),
        ((PRODUCT[0], "m=1000000000", "k=1", "n=1"), "m must be an integer from 1 to 999,999,999"),
        ((PRODUCT[0], "m=1.5", "k=1", "n=1"), "the size of m must be an integer"),
        ((PRODUCT[0], "m=4", "k=4"), "the size of `n` is not given"),
        ((*PRODUCT, "q=3"), "no Einsum has an index q; known indices are k, m, n"),
        ((*PRODUCT, "m=3"), "the size of m is given twice"),
        (("m=3",), "no Einsum is given as text"),
        (("Z[m = A[m]", "m=3"), "is not an Einsum, such as"),
        (("Z[m] = A[m*k] * B[k]", "m=3", "k=3"), "`m*k` is not a rank variable"),
        (("absent.yaml",), "there is no file absent.yaml"),
        ((*PRODUCT, "--macs", "3"), "--bandwidth and --macs must be given together"),
        ((*PRODUCT, "--bits", "Q=3"), "--bits: there is no tensor Q; known tensors are A, B, Z"),
        (
            ("specs/workloads/three_matmuls.yaml", "--fuse", "--bits", "4"),
            "--bits cannot be combined with --fuse",
        ),
        (("specs/problems/gemm.yaml", "--fuse"), "no workload is given"),
        ((PRODUCT[0], "m=4M", "k=4M", "n=4M"), "64 bits"),
        ((*PRODUCT, "--csv", "-", "--json", "-"), "two outputs have the same path"),
    ],
)
def test_what_is_wrong_is_said(arguments, message, capsys):
    assert main(["bound", *arguments]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert "/tmp" not in text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--capacity", "16Mi:256", "the lower end is not below the upper one"),
        ("--capacity", "16Mi", "is not LEAST:MOST"),
        ("--at", "0", "is not a positive number"),
        ("--at", "64K", "is not a positive number"),
        ("--at", "0.3", "is not a whole number of bits"),
        ("--bits", "0", "is not a positive integer"),
        ("--bits", "A=8,A=4", "names a tensor twice"),
        ("--traffic", "much", "is not a positive number"),
    ],
)
def test_nonsense_in_options_is_refused(option, value, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bound", *PRODUCT, option, value])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
