"""Fused cascades: mappings of Einsums that share loops, what they cost, and their execution on arrays."""
