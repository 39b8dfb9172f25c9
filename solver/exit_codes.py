"""The exit codes of the command line; the module imports nothing, as it is read before all others."""

EXIT_OPTIMAL = 0
EXIT_UNPROVEN = 1
EXIT_INVALID = 2
EXIT_FEASIBLE = 3
EXIT_INFEASIBLE = 4
EXIT_UNKNOWN = 5
EXIT_UNCHECKED = 6
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
