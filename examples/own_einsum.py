"""Map an attention product, written as one line, for energy on two accelerators."""

from solver import Options, load, map_einsum

QK = "QK[b,h,m,p] = Q[b,h,m,e] * K[b,h,p,e]"
SIZES = {"b": 1, "h": 8, "m": 128, "p": 128, "e": 64}

for arch in ("simba_like", "tpu_like"):
    mapspace = load(QK, **SIZES, arch=arch, factors="perfect")
    result = map_einsum(mapspace, Options(objectives=("energy", "latency"), time_limit_s=20))
    print(arch, result.status.value, f"{result.reported_value / 1e6:.2f} uJ, gap {result.gap:.2%}")
