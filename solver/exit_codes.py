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

MEANINGS = f"""\
exit codes:
  {EXIT_OPTIMAL}    proven optimal, or within the requested --gap, or the command succeeded
  {EXIT_UNPROVEN}    a certificate is INVALID (prove, network --check)
  {EXIT_INVALID}    invalid input (a spec, a mapping, an argument), or an output that cannot be written
  {EXIT_FEASIBLE}    a mapping was found but is not proven optimal
  {EXIT_INFEASIBLE}    proven: no mapping satisfies the constraints; the mapping exceeds a limit
       of the hardware (evaluate); the operator cannot be tiled (tile)
  {EXIT_UNKNOWN}    stopped before a mapping or a proof was found
  {EXIT_UNCHECKED}    a certificate was not checked, for example because time ran out (prove, network --check)
  {EXIT_DEFECT}   a bug in this program, or not enough memory
  {EXIT_INTERRUPTED}  interrupted before or after the search, or twice during it;
       the first interrupt of a search ends it with the best mapping so far
  {EXIT_BROKEN_PIPE}  stdout was closed
"""
