"""YAML text to nodes with places, and errors that show them; knows no format."""
