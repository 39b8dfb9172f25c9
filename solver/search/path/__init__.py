"""A shortest path over numbers of tiles at the boundaries of memories."""
