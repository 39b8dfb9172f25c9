"""What decides a subproblem that bounds leave open: branching, the best loop orders."""
