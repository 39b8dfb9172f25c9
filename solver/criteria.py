"""What the array of an assignment may be chosen by; apart from the search, which takes long to import."""

TOTAL, LAYERS, METHODS = CRITERIA = ("total", "layers", "methods")
"""What is least: the assignment's total; the layers' cheapest methods, transitions left out; the sum over
all methods of all layers, as in the published notebook."""
