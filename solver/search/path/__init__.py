"""The search for one Einsum: a shortest path over numbers of tiles at the boundaries of memories."""
