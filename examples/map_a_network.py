"""Map every Einsum of a workload, and print where its energy goes."""

from solver import load, map_network

result = map_network(load("specs/workloads/three_matmuls.yaml", arch="simba_like", factors="perfect"))

print(result.status.value, result.cycles, "cycles")
for layer in result.document()["layers"]:
    print(f"{layer['name']:10} {layer['energy_pj'] / 1e6:8.3f} uJ  {layer['limited_by']}")
result.report("network.html")
