"""Good assignments of wide graphs: eliminations while some variables are held, and crossovers of assignments.

Where all variables have three neighbours or more, one is held at a value, and eliminations go on. Held at
what it was in a known assignment, the result is the best one around that, in which most variables may
change at once. Held at what costs least beside its neighbours, an assignment is made from nothing (the
heuristic RN of Scholz and Eckstein, LCTES 2002).

Several assignments are crossed: each variable may take what it has in any of them, which leaves so few values
that the same steps come close to the best combination (Lempitsky et al., PAMI 2010, for pairs of labelings).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.assignment import LARGEST_TOTAL
from solver.assignment.elimination import Reduction, restore
from solver.assignment.instance import Choice, Instance, price
from solver.result import StopCallback

MOST_FAILS = 2
"""Passes in a row without gain, after which an assignment is as good as passes around it make it."""


def penalised(instance: Instance) -> Instance:
    """Return an instance in which forbidden costs are high but finite, so that fewer of them are better."""
    high = min(instance.infinity, LARGEST_TOTAL // (4 * (len(instance.matrices) + len(instance.vectors))))
    vectors = [np.minimum(vector, high).astype(np.int64) for vector in instance.vectors]
    matrices = {pair: np.minimum(own, high).astype(np.int64) for pair, own in instance.matrices.items()}
    return Instance(vectors, matrices, LARGEST_TOTAL)


@dataclass(eq=False)
class Crossover:
    """Assignments of one instance that get better; forbidden choices are only dear to it."""

    instance: Instance
    source: random.Random
    stop: StopCallback

    def made(self, instance: Instance | None = None) -> Choice:
        """Return an assignment made from nothing, by costs that were moved if given."""
        return self._held(self.instance if instance is None else instance, None)

    def improved(self, choice: Choice, instance: Instance | None = None) -> Choice:
        """Return the best assignment around one, as long as passes gain."""
        own = self.instance if instance is None else instance
        total, fails = price(own, choice), 0
        while fails < MOST_FAILS and not self.stop():
            choice = self._held(own, choice)
            before, total = total, price(own, choice)
            fails = 0 if total < before else fails + 1
        return choice

    def crossed(self, choices: Sequence[Choice]) -> Choice:
        """Return a combination of assignments that is as good as the best of them, or better."""
        best = min(choices, key=lambda own: price(self.instance, own))
        domains = [sorted(set(values)) for values in zip(*choices, strict=True)]
        vectors = [vector[domain] for vector, domain in zip(self.instance.vectors, domains, strict=True)]
        matrices = {
            (i, j): matrix[np.ix_(domains[i], domains[j])]
            for (i, j), matrix in self.instance.matrices.items()
        }
        start = tuple(domain.index(value) for domain, value in zip(domains, best, strict=True))
        small = Instance(vectors, matrices, self.instance.infinity)
        answer = self.improved(start, small)
        return tuple(domain[place] for domain, place in zip(domains, answer, strict=True))

    def _held(self, instance: Instance, choice: Choice | None) -> Choice:
        """Eliminate all variables; some are held, more likely those with many neighbours."""
        work = Reduction(instance, frozenset())
        work.run()
        source = self.source
        waiting = [
            (-len(near) * source.random(), variable)
            for variable, near in enumerate(work.near)
            if work.is_left(variable)
        ]
        heapq.heapify(waiting)
        while waiting:
            _, variable = heapq.heappop(waiting)
            if work.is_left(variable):
                work.hold(variable, work.least_beside(variable) if choice is None else choice[variable])
                work.run()
        values = [0] * len(instance.vectors)
        restore(work.eliminations, values, instance.infinity)
        return tuple(values)
