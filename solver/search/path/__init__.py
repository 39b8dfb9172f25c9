"""The search for one Einsum: shortest paths over numbers of tiles at the boundaries of memories."""
