"""Describe hardware as a dictionary, and see how the optimum changes with the size of its buffer."""

from solver import load, map_einsum

TECHNOLOGY = {"technology": "45nm", "global_cycle_seconds": 1e-9}


def hardware(depth):
    """A memory, a buffer of `depth` words, and 16 multipliers in a row."""
    return {
        "architecture": {
            "version": 0.4,
            "nodes": [
                component("DRAM", "DRAM", type="LPDDR4", width=64, datawidth=8, shared_bandwidth=4),
                {"!Container": {"name": "chip", "attributes": TECHNOLOGY}},
                component("buffer", "smartbuffer_SRAM", depth=depth, width=8, datawidth=8),
                {"!Container": {"name": "PE", "spatial": {"meshX": 16}}},
                component("mac", "intmac", multiplier_width=8, adder_width=16),
            ],
        }
    }


def component(name, kind, **attributes):
    """One component in Timeloop's form."""
    return {"!Component": {"name": name, "class": kind, "attributes": attributes}}


for depth in (64, 1024, 16384):
    product = load("Z[m,n] = A[m,k] * B[k,n]", m=64, n=64, k=64, arch=hardware(depth), factors="perfect")
    result = map_einsum(product)
    print(f"{depth:6} words: {result.evaluation.energy_pj / 1e6:.3f} uJ, {result.evaluation.cycles} cycles")
