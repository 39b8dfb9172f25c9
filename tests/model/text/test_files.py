"""Which files are read, and the errors for bad ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from model.text.files import SHIPPED_SPECS, display_name, include_roots
from model.text.limits import Limits
from model.text.reader import read_files
from model.text.source import MappingNode, SpecError, to_plain

Write = Callable[..., Path]


def message_of(*paths: str | Path, **options: object) -> str:
    with pytest.raises(SpecError) as caught:
        read_files(paths, **options)
    return caught.value.render()


def test_no_file():
    assert message_of() == "error: no spec file is given"


def test_a_missing_file_names_its_neighbour(write: Write):
    write("specs/arch.yaml", "a: 1\n")
    assert message_of("specs/arhc.yaml").splitlines() == [
        "error: there is no file specs/arhc.yaml",
        "help: did you mean `specs/arch.yaml`?",
    ]


def test_stdin_is_no_file():
    assert message_of("-").splitlines() == [
        "error: there is no file -",
        "help: specs are read from files, not from stdin",
    ]


def test_a_missing_file_of_the_shipped_specs_tells_where_they_lie(write: Write):
    shipped = "specs/architectures/eyeriss_like.yaml"
    _, help_line = message_of(shipped).splitlines()
    assert help_line.startswith("help: the shipped one is ")
    assert (SHIPPED_SPECS.parent / shipped).samefile(help_line.removeprefix("help: the shipped one is "))
    for other in ("specs/absent.yaml", "specs/../pyproject.toml", "other/architectures/eyeriss_like.yaml"):
        assert "shipped" not in message_of(other)


def test_a_directory(write: Write):
    write("specs/arch.yaml", "a: 1\n")
    assert message_of("specs").splitlines() == [
        "error: specs is a directory, not a spec file",
        "help: the command `network` maps the layers in a directory",
    ]


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file(write: Write, text: str):
    assert message_of(write("a.yaml", text)) == "error: a.yaml is empty"


def test_a_file_of_comments(write: Write):
    assert message_of(write("a.yaml", "# to do\n")).startswith("error: a.yaml contains nothing but comments")


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "12\n"])
def test_a_file_that_is_no_mapping(write: Write, text: str):
    assert "is a mapping of sections" in message_of(write("a.yaml", text))


def test_a_file_that_is_not_utf8(write: Write):
    path = write("a.yaml", b"a: 1\nb: \xe4\n")
    assert message_of(path) == "error: a.yaml is not UTF-8 text: byte 0xe4 in line 2"


def test_a_byte_order_mark_is_no_content(write: Write):
    assert to_plain(read_files([write("a.yaml", b"\xef\xbb\xbfa: 1\n")])) == {"a": 1}


def test_a_large_file(write: Write):
    path = write("a.yaml", "a: 1\n" * 10)
    message = message_of(path, limits=Limits(file_bytes=20))
    assert message == "error: a.yaml is larger than 20 bytes\nhelp: `--limit file_bytes=N` allows more"


def test_many_files_are_too_much_together(write: Write):
    paths = [write(f"{number}.yaml", f"k{number}: 1\n") for number in range(5)]
    assert "20 bytes in total" in message_of(*paths, limits=Limits(total_bytes=20))


def test_a_pipe_is_not_waited_for(write: Write, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert message_of("pipe") == "error: pipe is not a regular file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file(write: Write):
    path = write("a.yaml", "a: 1\n")
    path.chmod(0)
    assert message_of(path) == "error: cannot read a.yaml: Permission denied"


def test_a_name_that_no_file_can_have(write: Write):
    write("a.yaml", 'a: !include "x\\0y"\n')
    assert "cannot read" in message_of("a.yaml")
    assert "cannot read" in message_of("x\0y")


def test_an_include_is_replaced_and_keeps_its_places(write: Write):
    write("parts/problem.yaml", "instance: {C: 1}\n")
    spec = read_files([write("top.yaml", "problem: !include parts/problem.yaml\n")])
    problem = spec.get("problem")
    assert isinstance(problem, MappingNode)
    assert problem.require("instance").span.file == str(Path("parts/problem.yaml"))


def test_an_error_in_an_include_tells_the_way_there(write: Write):
    write("inner.yaml", "a: [\n")
    write("outer.yaml", "b: !include inner.yaml\n")
    rendered = message_of(write("top.yaml", "x: 1\nc: !include outer.yaml\n"))
    assert [line for line in rendered.splitlines() if "-->" in line][-2:] == [
        " --> outer.yaml:1:4",
        " --> top.yaml:2:4",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "!include ./a.yaml\n!include ./b.yaml\n\n\narchitecture:\n  version: 0.4\n",
        "!include ./a.yaml\n!include ./b.yaml\n",
        "!include ./a.yaml\n\narchitecture:\n  version: 0.4\n",
        "x: !include ./a.yaml !include ./b.yaml\n",
        "x: !includedir ./a.yaml\n  ./b.yaml\n",
    ],
)
def test_two_includes_below_one_another(write: Write, text: str):
    write("a.yaml", "a: 1\n")
    lines = message_of(write("spec.yaml", text)).splitlines()
    assert "takes one path, but more text follows `./a.yaml`" in lines[0]
    assert lines[1].startswith(" --> spec.yaml:1:")
    assert "write one include per key, as in `name: !include" in lines[-1]
    assert "`{{ include_text('./a.yaml') }}`" in lines[-1]


def test_an_include_needs_a_path(write: Write):
    assert "`!include` needs a path" in message_of(write("spec.yaml", "a: !include\nb: 1\n"))


def test_the_path_of_an_include_may_have_blanks_or_a_line_of_its_own(write: Write):
    write("a b.yaml", "a: 1\n")
    write("c.yaml", "c: 1\n")
    spec = read_files([write("spec.yaml", "x: !include a b.yaml\ny: !include\n  c.yaml\n")])
    assert to_plain(spec) == {"x": {"a": 1}, "y": {"c": 1}}


def test_includes_in_a_circle(write: Write):
    write("b.yaml", "x: !include a.yaml\n")
    assert "files include one another: a.yaml -> b.yaml -> a.yaml" in message_of(
        write("a.yaml", "x: !include b.yaml\n")
    )


def test_includes_nested_too_deep(write: Write):
    for number in range(30):
        write(f"{number}.yaml", f"x: !include {number + 1}.yaml\n")
    assert "nested more than 20 deep" in message_of("0.yaml")


def test_too_many_includes(write: Write):
    write("one.yaml", "1\n")
    top = write("top.yaml", "a: [" + "!include one.yaml , " * 12 + "]\n")
    assert "more than 10 files" in message_of(top, limits=Limits(includes=10))


def test_included_trees_count_against_the_limits(write: Write):
    write("big.yaml", "[" + "1, " * 40 + "]\n")
    top = write("top.yaml", "a: [" + "!include big.yaml , " * 4 + "]\n")
    assert "more than 100 values" in message_of(top, limits=Limits(nodes=100))
    write("deep.yaml", "[" * 8 + "]" * 8 + "\n")
    top = write("top.yaml", "a: [[[[!include deep.yaml ]]]]\n")
    assert "nested more than 10 deep" in message_of(top, limits=Limits(depth=10))


class TestIncludeRoots:
    """Only the trees of the spec files, and what the user named, may be included from."""

    @pytest.fixture(autouse=True)
    def files(self, write: Write):
        write("secret.yaml", "secret: 1\n")
        write("layers/base.yaml", "base: 1\n")
        write("layers/net/01.yaml", "layer: !include ../base.yaml\n")
        write("design/parts/part.yaml", "part: 1\n")
        self.write = write

    def top(self, included: str) -> Path:
        return self.write("design/top.yaml", f"a: !include {included}\n")

    def test_below_the_spec_file(self):
        assert to_plain(read_files([self.top("parts/part.yaml")])) == {"a": {"part": 1}}
        assert to_plain(read_files([self.top("parts/../parts/part.yaml")])) == {"a": {"part": 1}}

    @pytest.mark.parametrize("name", ["../secret.yaml", "parts/../../secret.yaml", "../layers/base.yaml"])
    def test_above_the_spec_file(self, name: str):
        message = message_of(self.top(name))
        assert "lies outside the directories of the spec files" in message
        assert "--allow-include" in message

    def test_an_absolute_path(self, tmp_path: Path):
        assert "lies outside" in message_of(self.top(str(tmp_path / "secret.yaml")))

    def test_a_symbolic_link_out_of_the_tree(self, tmp_path: Path):
        (tmp_path / "design" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
        (tmp_path / "design" / "up").symlink_to(tmp_path)
        assert "lies outside" in message_of(self.top("link.yaml"))
        assert "lies outside" in message_of(self.top("up/secret.yaml"))

    def test_the_tree_of_another_spec_file(self):
        assert to_plain(read_files([self.top("../layers/base.yaml"), "layers/base.yaml"])) == {
            "a": {"base": 1},
            "base": 1,
        }

    def test_a_directory_that_the_user_allows(self):
        spec = read_files([self.top("../secret.yaml")], allow_include=["."])
        assert to_plain(spec) == {"a": {"secret": 1}}

    @pytest.mark.parametrize("named", ["layers/net/01.yaml", "../layers/net/01.yaml"])
    def test_a_variable_that_names_a_file_allows_its_surroundings(self, named: str):
        top = self.top("../layers/net/01.yaml")
        assert to_plain(read_files([top], {"problem": named})) == {"a": {"layer": {"base": 1}}}

    def test_a_variable_allows_no_more_than_that(self):
        assert "lies outside" in message_of(self.top("../secret.yaml"), variables={"p": "layers/net/01.yaml"})
        assert "lies outside" in message_of(self.top("../secret.yaml"), variables={"p": "layers"})
        assert "lies outside" in message_of(self.top("../secret.yaml"), variables={"p": "no\0file", "q": ""})

    def test_the_root_of_the_file_system_is_never_allowed_by_the_way(self):
        roots = include_roots([Path("/spec.yaml")], {"hosts": "/etc/passwd"}, [])
        assert Path("/") not in roots.directories
        assert Path("/etc").resolve() in roots.directories

    def test_the_shipped_specs_may_always_be_included(self):
        assert include_roots([], {}, []).permits(SHIPPED_SPECS / "problem-shapes" / "gemm.yaml")


def test_files_are_named_by_the_shorter_path(write: Write, tmp_path: Path):
    write("a.yaml", "a: 1\n")
    assert display_name(tmp_path / "a.yaml") == "a.yaml"
    assert display_name(Path("/x")) == "/x"


def test_an_include_with_too_long_a_name_is_refused(working_directory):
    folder = working_directory / "workloads" / "basic"
    folder.mkdir(parents=True)
    (folder / "w.yaml").write_text(f"workload: !include ../{'x' * 300}.yaml\n", encoding="utf-8")
    with pytest.raises(SpecError):
        read_files([folder / "w.yaml"], levels_above=2)
