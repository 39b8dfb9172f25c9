"""Rules of the user's own as tables of what they allow; those that no table holds are left to be checked."""

from __future__ import annotations

import math

from model.rules import Quantity, Rule
from model.rules.language import OF_HARDWARE, Value
from solver.formulation.program import MOST_PAIRS, EmptyProgramError, LiteralChoice
from solver.formulation.tables import Tables
from solver.formulation.variables import Variables


class UserRules:
    """Adds rules to the program of some variables.

    Limits on energy and cycles are left out: searches know them as limits on objectives.

    Parameters
    ----------
    variables, tables
        Of a mapspace with rules.

    Attributes
    ----------
    unstated
        Rules that no table holds: those about costs, and those that ask for too much at a time.

    Raises
    ------
    EmptyProgramError
        No mapping satisfies one of them.
    """

    def __init__(self, variables: Variables, tables: Tables) -> None:
        self._variables = variables
        self._tables = tables
        self._program = variables.program
        self._architecture = variables.architecture
        self._levels = {own.name: number for number, own in enumerate(self._architecture.levels)}
        self._fanouts = dict(
            zip((own.name for own in self._architecture.fanouts), variables.fanouts, strict=True)
        )
        self.unstated = tuple(rule for rule in variables.mapspace.rules if not self._state(rule))

    def _state(self, rule: Rule) -> bool:
        """Add what can be stated of a rule; return whether that is all of it."""
        stated = [part.cost_limit is not None or self._add(part) for part in rule.parts]
        return all(stated)

    def _add(self, rule: Rule) -> bool:
        """Forbid all values of what a rule asks for that break it, if there are few enough."""
        facts = {asked: self._known(asked) for asked in rule.quantities if asked.kind in OF_HARDWARE}
        asked = [own for own in rule.quantities if own not in facts]
        choices = [self._choice(own) for own in asked]
        known = [choice for choice in choices if choice is not None]
        if len(known) < len(choices) or math.prod(len(own.values) for own in known) > MOST_PAIRS:
            return False
        every: LiteralChoice[tuple[Value, ...]] = self._program.constant(())
        for choice in known:
            every = self._program.combined(every, choice, lambda own, value: (*own, value), "rule")
        allowed = [
            rule.holds((facts | dict(zip(asked, values, strict=True))).__getitem__) for values in every.values
        ]
        if not any(allowed):
            raise EmptyProgramError(str(rule))
        self._program.forbid(
            literal for literal, holds in zip(every.literals, allowed, strict=True) if not holds
        )
        return True

    def _known(self, asked: Quantity) -> Value:
        """What is known of the hardware."""
        if asked.kind == "fanout":
            return next(own.size for own in self._architecture.fanouts if own.name == asked.node)
        usable = self._architecture.levels[self._levels[asked.node]].usable_words
        assert usable is not None  # rules ask for limited ones only
        return usable

    def _choice(self, asked: Quantity) -> LiteralChoice[Value] | None:
        """The values of a quantity; None where the program has no literals for them."""
        if asked.kind in ("energy", "cycles"):
            return None
        if asked.kind in ("spatial", "instances"):
            return self._of_fanout(asked)
        level = self._levels[asked.node]
        if asked.kind in ("tile", "temporal"):
            chain, node = self._variables.chains[asked.of], self._variables.positions[level]
            found = chain.extent(node) if asked.kind == "tile" else chain.factor(node)
            return self._program.mapped(found, lambda own: own)
        if asked.kind == "innermost":
            return self._variables.slots[level].innermost()
        return self._held(asked, level)

    def _of_fanout(self, asked: Quantity) -> LiteralChoice[Value]:
        node, chains = self._fanouts[asked.node], self._variables.chains
        if asked.kind == "spatial":
            return self._program.mapped(chains[asked.of].factor(node), lambda own: own)
        size = next(own.size for own in self._architecture.fanouts if own.name == asked.node)
        children = self._program.product([chain.factor(node) for chain in chains.values()], "instances", size)
        return self._program.mapped(children, lambda own: own)

    def _held(self, asked: Quantity, level: int) -> LiteralChoice[Value]:
        """Whether a level keeps a dataspace, or its words there."""
        keeping = self._variables.keeping[asked.of]
        held = self._program.mapped(
            keeping, lambda levels: level in self._variables.in_effect(levels, asked.of)
        )
        if asked.kind == "keeps":
            return self._program.mapped(held, lambda own: own)
        words = self._tables.words(level, self._variables.mapspace.problem.dataspace(asked.of))
        return self._program.combined(words, held, lambda own, kept: own if kept else 0)
