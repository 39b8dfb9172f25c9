"""The search for the best mapping of one Einsum, and its proof."""
