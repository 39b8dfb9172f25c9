"""Curves that no mapping can go below: the least traffic between a memory and one buffer, by its capacity."""
