"""Fused cascades: mappings of Einsums that share loops, and what they cost."""
