"""Certificates: what a proof of optimality claims, as JSON that others can check."""
