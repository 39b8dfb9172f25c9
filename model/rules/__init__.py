"""Constraints of the user's own: a small language of conditions on mappings (docs/constraints.md)."""

from model.rules.language import Locality, Quantity, Rule
from model.rules.parser import Scope, parse_rule

__all__ = ["Locality", "Quantity", "Rule", "Scope", "parse_rule"]
