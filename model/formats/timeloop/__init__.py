"""Timeloop v4 specs to the canonical problem.

What a spec says is either read, noted, or refused; nothing is dropped in silence. Where the
reading departs from Timeloop's own:

- A top-level key that contains ``ignore`` only holds anchors.
- An instance key that differs from a coefficient or dimension in case only (``HStride``) is an
  error, unless the right spelling was merged in from a base of defaults: then it overrides that
  default, and a note says that Timeloop evaluates the default instead.
- Instance keys that follow from the others (``H``, ``W``, ``Hpad``, ``Wpad``) are noted, not used.
- An incomplete spatial permutation: `model.formats.timeloop.loops.spatial_rules`.
- A factor that is larger than its bound or does not divide it, and the relations ``<`` and ``>``,
  are errors.
- ``!Parallel`` may leave open which branch keeps a dataspace.
- ``min_parallelism: SHARE``, on the innermost storage level, the compute component or beside the
  ``targets``, is short for Timeloop's ``{type: parallelism, min: SHARE}``.
- A ``mapping`` has to keep to the constraints, and to fix what it leaves to nobody: factors that
  are not given are 1, dataspaces that nobody mentions are kept.
"""

from model.formats.timeloop.loader import LoadedSpec, load_timeloop
from model.formats.timeloop.options import AccelForgeOptions, FileOptions, LoadOptions, TimeloopOptions

__all__ = [
    "AccelForgeOptions",
    "FileOptions",
    "LoadOptions",
    "LoadedSpec",
    "TimeloopOptions",
    "load_timeloop",
]
