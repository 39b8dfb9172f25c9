"""Fused cascades: the best tree of bodies, shared loops, stored and held tiles, and nests, with a proof."""
