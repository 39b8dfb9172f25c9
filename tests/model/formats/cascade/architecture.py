"""An architecture that leaves attributes and constraints to each test, to be filled in by `str.replace`."""

ARCHITECTURE = """
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {datawidth: 8, width: 64, DRAM_ATTRIBUTES}
    energy: {read: 512, write: 512, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 8, width: 64, depth: 64}
    energy: {read: 18, write: 14, update: 15, leak: 0}
    constraints: CONSTRAINTS
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: 2}
    constraints: SPATIAL
  - !Component
    name: register
    class: regfile
    attributes: {datawidth: 8, width: 8, depth: 16}
    energy: {read: 1, write: 1, leak: 0}
  - !Component
    name: mac
    class: intmac
    energy: {compute: 1}
"""
