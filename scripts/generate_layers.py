"""Write specs/layers/ from tables of published networks.

    python scripts/generate_layers.py [DIRECTORY]

The files are shipped; this script documents where their numbers come from.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LAYERS = Path(__file__).resolve().parent.parent / "specs" / "layers"


@dataclass(frozen=True)
class Layer:
    """One Einsum of a network: its file's name, what it is, and its problem."""

    name: str
    what: str
    shape: str
    instance: Mapping[str, int]

    def text(self, network: str) -> str:
        """The layer as a Timeloop problem file."""
        bounds = ", ".join(f"{key}: {value}" for key, value in self.instance.items())
        return (
            f"# {network}: {self.what}\n"
            "problem:\n"
            "  version: 0.4\n"
            f"  shape: {self.shape}\n"
            f"  instance: {{{bounds}}}\n"
        )


def convolution(
    name: str, channels: tuple[int, int], output: int, kernel: int, stride: int = 1, groups: int = 1
) -> Layer:
    """A square convolution from `channels[0]` to `channels[1]`, with `output` x `output` results."""
    inputs, outputs = channels
    what = f"{inputs} to {outputs} channels, {kernel}x{kernel} filter"
    what += f", stride {stride}" if stride > 1 else ""
    window = {"R": kernel, "S": kernel, "P": output, "Q": output}
    strides = {"Wstride": stride, "Hstride": stride} if stride > 1 else {}
    if groups == 1:
        sizes = {**window, "C": inputs, "K": outputs, "N": 1}
        return Layer(name, what, "cnn-layer", {**sizes, **strides})
    if groups == inputs == outputs:
        what = what.replace(f"{inputs} to {outputs} channels", f"{inputs} channels, depthwise")
        return Layer(name, what, "depthwise-cnn-layer", {**window, "G": groups, "N": 1, **strides})
    sizes = {**window, "C": inputs // groups, "K": outputs // groups, "G": groups, "N": 1}
    return Layer(name, f"{what}, {groups} groups", "grouped-cnn-layer", {**sizes, **strides})


def product(name: str, what: str, rows: int, features: tuple[int, int]) -> Layer:
    """A matrix product as a 1x1 convolution: `rows` x `features[0]` times `features[0]` x `features[1]`."""
    instance = {"R": 1, "S": 1, "P": rows, "Q": 1, "C": features[0], "K": features[1], "N": 1}
    return Layer(name, what, "cnn-layer", instance)


def fully_connected(name: str, inputs: int, outputs: int) -> Layer:
    """A fully connected layer for one image."""
    return product(name, f"{inputs} to {outputs} features, fully connected", 1, (inputs, outputs))


def batched(name: str, what: str, batch: tuple[int, int], rows: int, features: tuple[int, int]) -> Layer:
    """One matrix product per pair of batch element and head, `batch` counting both."""
    instance = {"R": 1, "S": 1, "P": rows, "Q": 1, "C": features[0], "K": features[1]}
    return Layer(name, what, "batched-cnn-layer", {**instance, "G": batch[1], "N": batch[0]})


def alexnet() -> Iterator[Layer]:
    """Krizhevsky et al. 2012, with its two groups (the paper's 224 pixels; its sizes need 227)."""
    yield convolution("01_conv1", (3, 96), 55, 11, stride=4)
    yield convolution("02_conv2", (96, 256), 27, 5, groups=2)
    yield convolution("03_conv3", (256, 384), 13, 3)
    yield convolution("04_conv4", (384, 384), 13, 3, groups=2)
    yield convolution("05_conv5", (384, 256), 13, 3, groups=2)
    yield fully_connected("06_fc6", 256 * 6 * 6, 4096)
    yield fully_connected("07_fc7", 4096, 4096)
    yield fully_connected("08_fc8", 4096, 1000)


def vgg16() -> Iterator[Layer]:
    """Simonyan and Zisserman 2014, configuration D, 224 x 224 pixels."""
    number, inputs = 0, 3
    for stage, (size, widths) in enumerate(
        ((224, (64,) * 2), (112, (128,) * 2), (56, (256,) * 3), (28, (512,) * 3), (14, (512,) * 3)), start=1
    ):
        for index, outputs in enumerate(widths, start=1):
            number += 1
            yield convolution(f"{number:02}_conv{stage}_{index}", (inputs, outputs), size, 3)
            inputs = outputs
    yield fully_connected("14_fc6", 512 * 7 * 7, 4096)
    yield fully_connected("15_fc7", 4096, 4096)
    yield fully_connected("16_fc8", 4096, 1000)


def resnet18() -> Iterator[Layer]:
    """He et al. 2015, 18 layers with projection shortcuts, 224 x 224 pixels."""
    yield convolution("01_conv1", (3, 64), 112, 7, stride=2)
    number, inputs = 1, 64
    stages = enumerate(((64, 56), (128, 28), (256, 14), (512, 7)), start=2)
    for (stage, (width, size)), block in itertools.product(stages, (1, 2)):
        stride = 2 if inputs != width else 1
        prefix = f"conv{stage}_block{block}"
        yield convolution(f"{number + 1:02}_{prefix}_a", (inputs, width), size, 3, stride)
        yield convolution(f"{number + 2:02}_{prefix}_b", (width, width), size, 3)
        number += 2
        if stride > 1:
            number += 1
            yield convolution(f"{number:02}_{prefix}_shortcut", (inputs, width), size, 1, stride)
        inputs = width
    yield fully_connected(f"{number + 1:02}_fc", 512, 1000)


def mobilenet_v2() -> Iterator[Layer]:
    """Sandler et al. 2018, width 1.0, 224 x 224 pixels."""
    yield convolution("01_conv1", (3, 32), 112, 3, stride=2)
    number, inputs, size = 1, 32, 112
    for block, (expansion, outputs, stride) in enumerate(mobilenet_v2_blocks(), start=1):
        hidden = inputs * expansion
        if expansion > 1:
            number += 1
            yield convolution(f"{number:02}_block{block:02}_expand", (inputs, hidden), size, 1)
        size //= stride
        depthwise = f"{number + 1:02}_block{block:02}_depthwise"
        yield convolution(depthwise, (hidden, hidden), size, 3, stride, groups=hidden)
        yield convolution(f"{number + 2:02}_block{block:02}_project", (hidden, outputs), size, 1)
        number += 2
        inputs = outputs
    yield convolution(f"{number + 1:02}_conv_last", (inputs, 1280), size, 1)
    yield fully_connected(f"{number + 2:02}_fc", 1280, 1000)


def mobilenet_v2_blocks() -> Iterator[tuple[int, int, int]]:
    """Expansion, output channels and stride of each block."""
    # Rows of the paper's table 2: expansion, output channels, repetitions, first stride.
    for expansion, outputs, repeats, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        yield expansion, outputs, first_stride
        yield from ((expansion, outputs, 1) for _ in range(repeats - 1))


def gpt3_6_7b() -> Iterator[Layer]:
    """One decoder block of Brown et al. 2020, 6.7B: d_model 4096, 32 heads of 128, 2048 tokens."""
    tokens, model, heads, head = 2048, 4096, 32, 128
    for number, operand in enumerate(("query", "key", "value"), start=1):
        yield product(f"{number:02}_{operand}", f"{operand} projection", tokens, (model, model))
    yield batched("04_scores", "queries by keys, per head", (1, heads), tokens, (head, tokens))
    yield batched("05_context", "scores by values, per head", (1, heads), tokens, (tokens, head))
    yield product("06_output", "output projection", tokens, (model, model))
    yield product("07_ffn_up", "feed-forward network, up", tokens, (model, 4 * model))
    yield product("08_ffn_down", "feed-forward network, down", tokens, (4 * model, model))


def gemm() -> Iterator[Layer]:
    """Matrix products, named after rows x columns x summed dimension of M x N x K."""
    yield product("1024", "1024 x 1024 x 1024", 1024, (1024, 1024))
    yield product("4096", "4096 x 4096 x 4096", 4096, (4096, 4096))
    yield product("8192x4096x16384", "8192 rows, 4096 columns, sums of 16384 terms", 8192, (16384, 4096))


def attention() -> Iterator[Layer]:
    """Both products of an attention layer: BERT-large (16 heads of 64), and decoding one token."""
    large = (8, 16)
    yield batched("bert_large_qk", "queries by keys, batch 8, 512 tokens", large, 512, (64, 512))
    yield batched("bert_large_av", "scores by values, batch 8, 512 tokens", large, 512, (512, 64))
    decode = (8, 32)
    yield batched("gpt3_6.7b_decode_qk", "one query, 2048 keys, batch 8", decode, 1, (128, 2048))
    yield batched("gpt3_6.7b_decode_av", "one query, 2048 values, batch 8", decode, 1, (2048, 128))


NETWORKS = {
    "alexnet": ("AlexNet", alexnet),
    "vgg16": ("VGG16", vgg16),
    "resnet18": ("ResNet-18", resnet18),
    "mobilenet_v2": ("MobileNetV2", mobilenet_v2),
    "gpt3_6.7b": ("GPT-3 6.7B block", gpt3_6_7b),
    "gemm": ("Matrix product", gemm),
    "attention": ("Attention", attention),
}


def layer_files() -> dict[str, str]:
    """Text of every layer file by its path below specs/layers/."""
    return {
        f"{folder}/{layer.name}.yaml": layer.text(title)
        for folder, (title, layers) in NETWORKS.items()
        for layer in layers()
    }


def main(directory: Path = LAYERS) -> None:
    for name, text in layer_files().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the shipped layers.")
    parser.add_argument("directory", nargs="?", type=Path, default=LAYERS, help="default: specs/layers")
    main(parser.parse_args().directory)
