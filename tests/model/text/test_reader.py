"""Whole specs: random input to the reader, and files that users have on disk."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.text.limits import Limits
from model.text.reader import read_files
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError, to_plain
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs"

fragments = st.sampled_from(
    [
        *(
            "a",
            "b: ",
            "- ",
            ": ",
            "\n",
            "\n  ",
            "\n    ",
            "\t",
            "#",
            "'",
            '"',
            "|",
            ">",
            "{",
            "}",
            "[",
            "]",
            ",",
            "?",
        ),
        *(
            "&x ",
            "*x",
            "<<: ",
            "<<<: ",
            "!t ",
            "!!int ",
            "!include ",
            "!included 0",
            "---\n",
            "...\n",
            "%YAML 1.1\n",
        ),
        *("1e-9", "0x1F", ".inf", "~", "on", "\\x00", "\x00", "\x85", "\u2028", "\ufeff", "\r\n", "\r", "é"),
        *(
            "{{ ",
            " }}",
            "{% ",
            " %}",
            "{# ",
            " #}",
            "for i in range(3)",
            "endfor",
            "if x",
            "else",
            "endif",
            "x",
        ),
        *(
            "set x = ",
            "include('spec.yaml')",
            "include_text('.')",
            "cwd()",
            "''.__class__",
            "-%}",
            "{%- ",
            "~ ",
            "* ",
        ),
    ]
)
contents = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(fragments, max_size=25).map(lambda parts: "".join(parts).encode()),
    st.lists(fragments, max_size=15).map(lambda parts: ("a: 1\n" + "".join(parts)).encode()),
)


def walk(node: Node) -> None:
    """Check a tree: places lie in a file, and keys are found again."""
    assert node.span.line >= 1
    assert node.span.column >= 1
    children: list[Node] = []
    if isinstance(node, MappingNode):
        assert all(node.get(key.text) is value for key, value in node.entries)
        children = [part for entry in node.entries for part in entry]
    elif isinstance(node, SequenceNode):
        children = list(node.items)
    for child in children:
        walk(child)


@given(contents)
@settings(
    max_examples=250,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_content_is_a_mapping_or_a_spec_error(tmp_path: Path, content: bytes):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    try:
        spec = read_files([path], {"x": 1}, Limits(seconds=1.0))
    except SpecError as error:
        assert error.render().startswith("error: ")
    else:
        assert isinstance(spec, MappingNode)
        walk(spec)


def design_files() -> list[Path]:
    return sorted(path for path in DESIGNS.rglob("*.yaml") if path.is_file())


@pytest.mark.skipif(not DESIGNS.exists(), reason="the reference designs in ../shared are absent")
class TestDesigns:
    """The example designs that Timeloop's users have on disk load as they stand."""

    @pytest.mark.parametrize("path", design_files(), ids=lambda path: str(path.relative_to(DESIGNS)))
    def test_every_file_loads(self, path: Path):
        is_layer = "layer_shapes" in path.parts
        spec = read_files([path], allow_include=[DESIGNS / "layer_shapes"] if is_layer else [])
        assert spec.entries
        walk(spec)

    @pytest.mark.parametrize("architecture", ["eyeriss_like", "simple_output_stationary"])
    @pytest.mark.parametrize("layer", ["resnet18/01.yaml", "alexnet/0.yaml", "vgg16/06.yaml"])
    def test_the_command_line_of_the_designs(self, architecture: str, layer: str):
        examples = DESIGNS / "example_designs"
        variables = {"architecture": architecture, "problem": f"../layer_shapes/{layer}"}
        spec = read_files([examples / "top.yaml.jinja2", examples / architecture / "ERT.yaml"], variables)
        assert {"globals", "problem", "architecture", "variables", "components", "mapper", "ERT"} <= {
            *spec.keys()
        }
        problem = to_plain(spec.require("problem"))
        assert problem["instance"]["N"] == 1
        assert problem["instance"]["C"] > 1
        assert problem["shape"]["dimensions"] == ["C", "M", "R", "S", "N", "P", "Q", "G"]
        classes = spec.require("components").get("classes")
        assert [entry["name"] for entry in to_plain(classes)] == [
            *(
                "intmac",
                "regfile",
                "regfile_metadata",
                "smartbuffer_RF",
                "smartbuffer_SRAM",
                "smartbuffer_metadata",
            )
        ]

    def test_places_in_included_files(self):
        examples = DESIGNS / "example_designs"
        variables = {"architecture": "eyeriss_like", "problem": "../layer_shapes/resnet18/01.yaml"}
        spec = read_files([examples / "top.yaml.jinja2"], variables)
        instance = spec.require("problem").get("instance")
        assert isinstance(instance, MappingNode)
        assert (Path(instance.key("C").span.file).name, instance.key("C").span.line) == ("01.yaml", 4)
        assert (Path(instance.key("N").span.file).name, instance.key("N").span.line) == (
            "problem_base.yaml",
            4,
        )
        technology = spec.require("variables").get("technology")
        assert isinstance(technology, ScalarNode)
        assert (Path(technology.span.file).name, technology.span.line) == ("top.yaml.jinja2", 52)


def test_plain_files_are_read_without_the_template_engine(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text("a: 1\n")
    code = (
        "import sys\nfrom model.text.reader import read_files\n"
        f"read_files([{str(path)!r}])\nprint([m for m in ('jinja2', 'numpy', 'ortools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
