"""Write specs/networks/ from tables of published networks.

    python scripts/generate_networks.py [DIRECTORY]

The files are shipped; this script documents where their numbers come from.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NETWORKS = Path(__file__).resolve().parent.parent / "specs" / "networks"

INCEPTION_MODULES = {
    # Name: input channels, positions a side, 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
    "3a": (192, 28, 64, 96, 128, 16, 32, 32),
    "3b": (256, 28, 128, 128, 192, 32, 96, 64),
    "4a": (480, 14, 192, 96, 208, 16, 48, 64),
    "4b": (512, 14, 160, 112, 224, 24, 64, 64),
    "4c": (512, 14, 128, 128, 256, 24, 64, 64),
    "4d": (512, 14, 112, 144, 288, 32, 64, 64),
    "4e": (528, 14, 256, 160, 320, 32, 128, 128),
    "5a": (832, 7, 256, 160, 320, 32, 128, 128),
    "5b": (832, 7, 384, 192, 384, 48, 128, 128),
}


@dataclass
class Graph:
    """A network as lines of YAML."""

    name: str
    comment: str
    model: Mapping[str, str]
    layers: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def conv(
        self,
        name: str,
        channels: Sequence[int],
        side: int,
        kernel: int = 1,
        stride: int = 1,
        after: str = "",
    ) -> str:
        """Add a square convolution with `side` x `side` results, behind the layer `after`."""
        sizes = {"in_channels": channels[0], "out_channels": channels[1], "height": side, "width": side}
        sizes |= {"kernel": kernel} if kernel > 1 else {}
        sizes |= {"stride": stride} if stride > 1 else {}
        return self._layer(name, "conv", sizes, after)

    def tensor(self, name: str, channels: int, side: int, after: str = "") -> str:
        """Add a tensor of `side` x `side` positions, behind the layer `after`."""
        return self._layer(name, "tensor", {"channels": channels, "height": side, "width": side}, after)

    def _layer(self, name: str, kind: str, sizes: Mapping[str, int], after: str) -> str:
        self.layers.append(f"{{name: {name}, {kind}: {_flow(sizes)}}}")
        if after:
            self.edge(after, name)
        return name

    def edge(self, source: str, target: str, channels: int | None = None) -> None:
        """Add an edge that carries `channels` (None: all that the target takes)."""
        carried = "" if channels is None else f", channels: {channels}"
        self.edges.append(f"{{from: {source}, to: {target}{carried}}}")

    def text(self) -> str:
        """The network as a file."""
        lines = [*(f"# {line}" for line in self.comment.splitlines()), "network:", f"  name: {self.name}"]
        lines += [
            "  unit: ms",
            "  cost_model:",
            *(f"    {key}: {value}" for key, value in self.model.items()),
        ]
        lines += ["  layers:", *(f"  - {layer}" for layer in self.layers)]
        lines += ["  edges:", *(f"  - {edge}" for edge in self.edges)] if self.edges else ["  edges: chain"]
        return "\n".join(lines) + "\n"


def _flow(sizes: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in sizes.items()) + "}"


def systolic(
    rows: int, columns: int, cycles_per_ms: str, kernel_tiles: str, **further: str
) -> dict[str, str]:
    """The section `cost_model`: 64 bytes a nanosecond, words of a byte, F(2x2, 3x3)."""
    return {
        "name": "systolic_array",
        "rows": str(rows),
        "columns": str(columns),
        "cycles_per_ms": cycles_per_ms,
        "bytes_per_ms": "64.0e+6",
        "element_bytes": "1",
        "winograd": f"{{m: 2, r: 3, kernel_tiles: {kernel_tiles}}}",
        **further,
    }


def add_module(graph: Graph, name: str, before: str, carries_branch: bool) -> str:
    """Add an inception module behind the layer `before`; return its concatenation.

    `carries_branch` says that an edge into the concatenation carries its branch only.
    """
    inputs, side, one, reduce3, three, reduce5, five, pool = INCEPTION_MODULES[name]
    ends = {
        graph.conv(f"{name}_1x1", (inputs, one), side, after=before): one,
        graph.conv(
            f"{name}_3x3",
            (reduce3, three),
            side,
            3,
            after=graph.conv(f"{name}_3x3_reduce", (inputs, reduce3), side, after=before),
        ): three,
        graph.conv(
            f"{name}_5x5",
            (reduce5, five),
            side,
            5,
            after=graph.conv(f"{name}_5x5_reduce", (inputs, reduce5), side, after=before),
        ): five,
        graph.conv(f"{name}_pool_proj", (inputs, pool), side, after=before): pool,
    }
    whole = sum(ends.values())
    concat = graph.tensor(f"{name}_concat", whole, side)
    for branch, channels in ends.items():
        graph.edge(branch, concat, channels if carries_branch else whole)
    return concat


def inception_3a() -> Graph:
    """The published instance of one module, which counts the whole concatenation on every edge into it."""
    graph = Graph(
        "inception_3a",
        "Inception module 3a of GoogLeNet, as the published method counts it (DYNAMAP, FPGA 2021): every\n"
        "edge into the concatenation carries all of its 256 channels. The least total is 0.156556 ms.",
        systolic(92, 64, "200.0e+3", "fractional", dataflows="[non_stationary, weight_stationary]"),
    )
    fork = graph.tensor("fork", 192, 28, after=graph.tensor("input", 192, 28))
    add_module(graph, "3a", fork, carries_branch=False)
    return graph


def googlenet() -> Graph:
    """Szegedy et al. 2015, table 1; no auxiliary classifiers. Pooling is done in passing."""
    graph = Graph(
        "googlenet",
        "GoogLeNet (Szegedy et al. 2015): 57 convolutions, nine modules, one fully connected layer.",
        systolic(92, 66, "300.0e+3", "whole"),
    )
    before = graph.conv("conv1", (3, 64), 112, 7, 2)
    before = graph.conv("conv2_reduce", (64, 64), 56, after=before)
    before = graph.conv("conv2", (64, 192), 56, 3, after=before)
    for name in INCEPTION_MODULES:
        before = add_module(graph, name, before, carries_branch=True)
    graph.conv("fc", (1024, 1000), 1, after=before)
    return graph


def add_residual_block(
    graph: Graph,
    name: str,
    before: str,
    channels: tuple[int, ...],
    side: int,
    kernels: Sequence[int],
    stride: int,
) -> str:
    """Add convolutions behind the layer `before`, the first with `stride`; return their sum with a shortcut.

    `channels` are those of the input and of each convolution's results. The shortcut is a projection
    where the size changes.
    """
    last = before
    for place, (letter, kernel) in enumerate(zip("abc", kernels, strict=False)):
        steps = stride if place == 0 else 1
        last = graph.conv(f"{name}_{letter}", channels[place : place + 2], side, kernel, steps, after=last)
    ends = (channels[0], channels[-1])
    shortcut = before
    if stride > 1 or ends[0] != ends[1]:
        shortcut = graph.conv(f"{name}_shortcut", ends, side, 1, stride, after=before)
    total = graph.tensor(f"{name}_sum", ends[1], side, after=last)
    graph.edge(shortcut, total)
    return total


def add_residual_stages(
    graph: Graph, before: str, blocks: Sequence[int], kernels: Sequence[int], expansion: int
) -> str:
    """Add four stages of so many blocks; the last convolution of a block has `expansion` times the width."""
    inputs = 64
    for stage, count in enumerate(blocks, start=2):
        width, side = 64 << (stage - 2), 56 >> (stage - 2)
        for block in range(1, count + 1):
            channels = (inputs, *(width for _ in kernels[1:]), expansion * width)
            stride = 2 if block == 1 and stage > 2 else 1
            before = add_residual_block(
                graph, f"conv{stage}_{block}", before, channels, side, kernels, stride
            )
            inputs = expansion * width
    return before


def resnet18() -> Graph:
    """He et al. 2015, table 1, with projections where the size changes."""
    graph = Graph(
        "resnet18",
        "ResNet-18 (He et al. 2015): 20 convolutions, 8 sums with a shortcut, one fully connected layer.",
        systolic(92, 66, "300.0e+3", "whole"),
    )
    before = graph.conv("conv1", (3, 64), 112, 7, 2, after=graph.tensor("image", 3, 224))
    before = add_residual_stages(graph, before, (2, 2, 2, 2), kernels=(3, 3), expansion=1)
    graph.conv("fc", (512, 1000), 1, after=before)
    return graph


def resnet50() -> Graph:
    """He et al. 2015, table 1, with projections where the size changes and strides in the first 1x1."""
    graph = Graph(
        "resnet50",
        "ResNet-50 (He et al. 2015): 53 convolutions, 16 sums with a shortcut, one fully connected layer.",
        systolic(92, 66, "300.0e+3", "whole"),
    )
    before = graph.conv("conv1", (3, 64), 112, 7, 2)
    before = add_residual_stages(graph, before, (3, 4, 6, 3), kernels=(1, 3, 1), expansion=4)
    graph.conv("fc", (2048, 1000), 1, after=before)
    return graph


def chain_1000() -> Graph:
    """A plain network of 1,000 layers: ten stages of 100, filters of 3, 1, 3 and 5 in turn."""
    graph = Graph(
        "chain_1000",
        "A plain chain of 1,000 convolutions in ten stages, to see how the assignment scales.",
        systolic(92, 66, "300.0e+3", "whole"),
    )
    stages = (
        (112, 32),
        (56, 48),
        (56, 64),
        (28, 96),
        (28, 128),
        (28, 160),
        (14, 192),
        (14, 256),
        (7, 320),
        (7, 384),
    )
    inputs = 3
    for number in range(1000):
        side, outputs = stages[number // 100]
        graph.conv(f"conv{number + 1:04}", (inputs, outputs), side, (3, 1, 3, 5)[number % 4])
        inputs = outputs
    return graph


def network_files() -> dict[str, str]:
    """Text of every network file by its name."""
    graphs: Iterator[Graph] = (build() for build in (inception_3a, googlenet, resnet18, resnet50, chain_1000))
    return {f"{graph.name}.yaml": graph.text() for graph in graphs}


def main(directory: Path = NETWORKS) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in network_files().items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the shipped networks.")
    parser.add_argument("directory", nargs="?", type=Path, default=NETWORKS, help="default: specs/networks")
    main(parser.parse_args().directory)
