"""Constraints of the user's own: a small language of conditions on mappings (docs/constraints.md)."""

from model.rules.language import Locality, Quantity, Rule, asks_for_energy
from model.rules.parser import RuleScope, parse_rule

__all__ = ["Locality", "Quantity", "Rule", "RuleScope", "asks_for_energy", "parse_rule"]
