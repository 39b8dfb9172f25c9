"""Reads specs: text and files to the canonical types, with errors that show the place."""
