"""AccelForge workload files to the canonical workload."""

from model.formats.accelforge.loader import LoadedWorkload, load_workload, read_workload, read_workload_text

__all__ = ["LoadedWorkload", "load_workload", "read_workload", "read_workload_text"]
