"""The command line: it reads arguments, wires the parts together and prints."""
