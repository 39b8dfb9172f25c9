"""What there is to choose: tiles, spatial factors and loop orders, and what the words of a choice cost."""
