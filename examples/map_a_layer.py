"""Map a layer of ResNet-18 onto an accelerator like Simba, and write a report of the proven optimum."""

from solver import load, map_einsum

layer = load("specs/layers/resnet18/18_conv5_block1_shortcut.yaml", arch="simba_like")
result = map_einsum(layer)

print(result.status.value, result.reported_value, "pJ*cycles")
result.report("layer.html")
