"""Einsums of workloads give the same searches as Timeloop problems written by hand."""

import re
from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.formats.timeloop import load_timeloop
from model.renaming import by_position
from solver.network.cache import cache_key
from tests.conftest import REPOSITORY

ARCHITECTURE = REPOSITORY / "specs" / "architectures" / "free_three_level.yaml"
HEAD = "workload:\n  bits_per_value: {All: 16}\n"

DECODE = (
    HEAD + "  rank_sizes: {B: 2, H: 4, M: 1, P: 96, E: 32, F: 32}\n  einsums:\n"
    '  - "S[b, h, m, p] = Q[b, h, m, e] * K[b, h, p, e]"\n'
    '  - "X[b, h, m, p] = exp(S[b, h, m, p] - MAX[b, h, m])"\n'
    '  - "O[b, h, m, f] = X[b, h, m, p] * V[b, h, p, E: f]"\n'
)
CHAIN = (
    HEAD + "  rank_sizes: {R: 3, S: 3}\n  iteration_space_shape:\n"
    "    {p: 0 <= p < 12, q: 1 <= q + 1 <= 12, c: 0 <= c < 4, k: 0 <= k < 8}\n"
    '  einsums:\n  - "T[k, p, q] = I[c, H: p + r, W: q + s] * WA[k, c, r, s]"\n'
    '  - einsum: "U[m, x] = T[K: k, P: 2x + r, Q: x + 2*s] * WB[m, k, r, s]"\n'
    "    iteration_space_shape: [0 <= 2x < 9, 0 <= m && m < 6]\n"
)
GROUPS = (
    HEAD + "  rank_sizes: {G: 4, CG: 3, KG: 5, P: 10, R: 3}\n"
    '  einsums:\n  - "O[g, kg, p] = I[C: 3*g + cg, H: p + 2*r] * W[g, kg, cg, r]"\n'
)
SCAN = (
    HEAD + "  rank_sizes: {B: 2, D: 24, N: 8}\n  einsums:\n"
    '  - "H[b, d, n] = DA[b, d, n] * HP[b, d, n] + BB[b, n] * X[b, d]"\n'
    '  - "Y[b, d] = C[b, n] * H[b, d, n]"\n  - "L[] = Y[b, d] * Y[b, d]"\n  - "Z[b, d] = Y[b, d] / L[]"\n'
)


@pytest.mark.parametrize(
    ("workload", "problems"),
    [
        (
            DECODE,
            [
                "b=2 h=4 m=1 e=32 p=96: Q[b][h][m][e] K[b][h][p][e] S[b][h][m][p]",
                "b=2 h=4 m=1 p=96: S[b][h][m][p] MAX[b][h][m] X[b][h][m][p]",
                "b=2 h=4 m=1 p=96 f=32: X[b][h][m][p] V[b][h][p][f] O[b][h][m][f]",
            ],
        ),
        (
            CHAIN,
            [
                "c=4 p=12 r=3 q=12 s=3 k=8: I[c][p+r][q+s] WA[k][c][r][s] T[k][p][q]",
                "k=8 x=5 r=3 s=3 m=6: T[k][2x+r][x+2s] WB[m][k][r][s] U[m][x]",
            ],
        ),
        (GROUPS, ["g=4 cg=3 p=10 r=3 kg=5: I[3g+cg][p+2r] W[g][kg][cg][r] O[g][kg][p]"]),
        (
            SCAN,
            [
                "b=2 d=24 n=8: DA[b][d][n] HP[b][d][n] BB[b][n] X[b][d] H[b][d][n]",
                "b=2 n=8 d=24: C[b][n] H[b][d][n] Y[b][d]",
                "b=2 d=24: Y[b][d] Y2[b][d] L",
                "b=2 d=24: Y[b][d] L Z[b][d]",
            ],
        ),
    ],
)
def test_einsums_are_timeloop_problems(tmp_path: Path, workload: str, problems: list[str]):
    (tmp_path / "w.yaml").write_text(workload, encoding="utf-8")
    network = load_network([tmp_path / "w.yaml", ARCHITECTURE])
    for layer, problem in zip(network.layers, problems, strict=True):
        (tmp_path / "p.yaml").write_text(timeloop(problem), encoding="utf-8")
        pair = layer.mapspace, load_timeloop([ARCHITECTURE, tmp_path / "p.yaml"]).mapspace
        keys = {cache_key(by_position(own.problem).mapspace(own), ("energy",)) for own in pair}
        assert len(keys) == 1, layer.name


def timeloop(text: str) -> str:
    """The problem of a line such as ``p=4 r=3: I[2p+r] W[r] O[p]``; the last dataspace is written."""
    bounds, spaces = (part.split() for part in text.split(": "))
    named = [(space.split("[")[0], ranks(space), space == spaces[-1]) for space in spaces]
    return f"""
problem:
  shape:
    name: by_hand
    dimensions: [{", ".join(bound.split("=")[0] for bound in bounds)}]
    coefficients: [{{name: two, default: 2}}, {{name: three, default: 3}}]
    data_spaces: [{", ".join(f"{{name: {a}, projection: {b}, read_write: {c}}}" for a, b, c in named)}]
  instance: {{{", ".join(bound.replace("=", ": ") for bound in bounds)}}}
"""


def ranks(space: str) -> str:
    factors = {"": "", "2": ", two", "3": ", three"}
    return str(
        [
            [f"[{dim}{factors[factor]}]" for factor, dim in re.findall(r"(\d?)([a-z]\w*)", index)]
            for index in re.findall(r"\[([^]]*)\]", space)
        ]
    ).replace("'", "")
