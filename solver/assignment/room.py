"""Assignments that must fit a limit over time: prices for room, then CP-SAT on what could still be better.

Paying for room at a price makes assignments that fit no dearer than they are, and what remains has no limit
any more: its least total is a bound (Lagrange). Prices follow what is left over or exceeded at each peak,
sweeps follow the prices, and what they choose on the way, repaired, are the first assignments. A value whose
bound is above the best assignment is out, and so is a pair of values: few remain, which CP-SAT decides. Where
many remain, it improves a neighbourhood at a time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from model.assignment import CostArray
from solver import toulbar
from solver.assignment.bounds import (
    BITS,
    Evidence,
    Prices,
    Sweeps,
    hopeless_prices,
    joined_evidence,
    largest_limit,
    verified_bound,
)
from solver.assignment.capacity import Capacity
from solver.assignment.crossover import Crossover, penalised
from solver.assignment.elimination import least_total, reduce_instance, restore
from solver.assignment.instance import Choice, Instance, part_of, price
from solver.assignment.kernel import FIRST_DETERMINISTIC_S, GROWTH, Told
from solver.assignment.kernel_model import KernelModel, KernelRequest, KernelResult
from solver.assignment.result import CHECKED_BOUND, CP_SAT
from solver.cpsat import ModelError
from solver.result import Clock

MOST_ROUNDS, LEAST_ROUNDS, MOST_SWEPT = 60, 3, 1 << 28
"""Rounds of prices before each turn of CP-SAT, and entries of all their sweeps. Where that is not even the
least number of rounds, prices are followed without sweeps of all variables at first."""

FIRST_SWEEPS, SWEEPS = 10, 2
"""Pairs of sweeps before the first prices, and after each change."""

FIRST_STEP, LONGER, SHORTER, LEAST_STEP = 0.1, 1.1, 0.6, 1e-4
"""Steps are parts of the one that would close the gap; they grow after a better bound, and shrink after
several that were not."""

PATIENCE, MOMENTUM, VERIFIED = 3, 0.7, 8

LOCAL, MOST_LOCAL = 8, 20_000
"""Neighbourhoods for each of CP-SAT's seconds, and the pairs of values that one may have."""

RISING = 0.01
"""Part of a bound by which it must rise for prices to go on where CP-SAT would have too much left."""

MOST_LITERALS = 150_000
"""Pairs of values up to which CP-SAT gets all of what is left at once."""


@dataclass(eq=False)
class _Search:
    """What is known so far about an instance with a capacity."""

    instance: Instance
    capacity: Capacity
    clock: Clock
    told: Told | None
    choice: Choice | None = None
    total: int | None = None
    bound: int = 0
    evidence: Evidence | None = None

    def offer(self, choice: Choice) -> None:
        """Take an assignment if it fits and is better."""
        total = price(self.instance, choice)
        if (
            total < self.instance.infinity
            and (self.total is None or total < self.total)
            and self.capacity.fits(choice)
        ):
            self.choice, self.total = choice, total
            self.tell()

    def tell(self) -> None:
        if self.told is not None:
            self.told(self.total, self.bound if self.total is None else min(self.bound, self.total))

    def raise_to(self, bound: int) -> None:
        """Take a bound if it is better."""
        if bound > self.bound:
            self.bound = bound
            self.tell()

    def take(self, evidence: Evidence) -> None:
        """Take a bound with its evidence if it is better."""
        if self.evidence is None or evidence.bound > self.evidence.bound:
            self.evidence = evidence
        self.raise_to(evidence.bound)

    @property
    def most(self) -> int:
        """What a better assignment costs at most: no more than the best one does."""
        return self.instance.infinity - 1 if self.total is None else self.total

    def is_over(self, method: str) -> bool:
        """Whether nothing is open any more, or time is up."""
        return self.result(method).is_proven or self.clock.stop()

    def result(self, method: str) -> KernelResult:
        bound = self.bound if self.total is None else min(self.bound, self.total)
        return KernelResult(self.choice, self.total, bound, method, self.evidence)


def solve_with_room(
    instance: Instance, capacity: Capacity, request: KernelRequest, clock: Clock, told: Told | None = None
) -> KernelResult:
    """Find the least total of an instance among assignments that fit."""
    if capacity.is_hopeless:
        prices = hopeless_prices(capacity, instance.infinity)
        evidence = Evidence(instance.infinity, prices=prices.by_moment())
        return KernelResult(None, None, None, CHECKED_BOUND, evidence)
    search = _Search(instance, capacity, clock, told)
    pricing, walk = _Pricing(search), _Walk(search, request)
    seconds, method = FIRST_DETERMINISTIC_S, CHECKED_BOUND
    if pricing.rounds <= LEAST_ROUNDS:
        _follow_prices(search, request, _even_prices(search, request))
        if search.is_over(method):
            return search.result(method)
    while True:
        before = search.bound
        pricing.run()
        if search.bound >= instance.infinity:
            return KernelResult(None, None, None, method, search.evidence)
        is_rising = search.bound - before > RISING * search.bound
        if is_rising and not search.is_over(method):
            _follow_prices(search, request, pricing.prices / pricing.scale)
        if search.is_over(method):
            return search.result(method)
        if is_rising and _open_pairs(pricing.survivors(search.most)) > MOST_LITERALS:
            continue
        if not _turn(search, pricing, walk, seconds):
            return KernelResult(None, None, None, CP_SAT)
        if search.result(method).is_proven:
            return search.result(CP_SAT)
        seconds *= GROWTH


class _Pricing:
    """Prices for room, and sweeps of the costs with them."""

    def __init__(self, search: _Search) -> None:
        self.search = search
        instance, capacity = search.instance, search.capacity
        degree = max(map(len, instance.neighbours()))
        limit = largest_limit(degree)
        # Fractions of a step matter where costs are small; forbidden ones stay far above all others.
        spare = limit // (instance.infinity * 64)
        self.scale = 1 << max(0, min(8, spare.bit_length() - 1))
        scaled = Instance(
            [vector * self.scale for vector in instance.vectors],
            {pair: matrix * self.scale for pair, matrix in instance.matrices.items()},
            instance.infinity * self.scale,
        )
        self.sweeps = Sweeps(scaled, max(limit, scaled.infinity * 64))
        self.room = capacity.room.astype(np.float64)
        self.prices: NDArray[np.float64] = np.zeros(len(self.room))
        self._charged: dict[int, CostArray] = {}
        self._room_price = 0
        self._best, self._step = -1, FIRST_STEP

    def run(self) -> None:
        """Let prices follow what is over or under, as long as that helps."""
        search, sweeps = self.search, self.sweeps
        if self._best < 0:
            self._start()
        best, best_prices = self._best, self.prices
        direction = np.zeros(len(self.room))
        step, fails = self._step, 0
        for number in range(self.rounds):
            self._charge(self.prices)
            bound = self._sweep(SWEEPS if best >= 0 else FIRST_SWEEPS)
            decoded = sweeps.decoded()
            over = -search.capacity.left(decoded).astype(np.float64)
            search.offer(decoded)
            search.offer(fitted(search.instance, search.capacity, decoded))
            if bound > best:
                best, best_prices, fails = bound, self.prices, 0
                step = min(1.0, step * LONGER)
                self._verify(number % VERIFIED == 0)
            elif (fails := fails + 1) >= PATIENCE:
                step, fails = step * SHORTER, 0
                self.prices, direction = best_prices, direction * 0.3
            if search.clock.stop() or step < LEAST_STEP or self._is_closed():
                break
            direction = MOMENTUM * direction + (1 - MOMENTUM) * over if number else over
            useful = np.where((self.prices > 0) | (direction > 0), direction, 0.0)
            if not useful.any():
                break
            length = step * self._gap(best) / float((useful**2).sum())
            self.prices = np.maximum(0.0, self.prices + length * useful)
        self.prices, self._step = best_prices, max(step, LEAST_STEP * 10)
        self._charge(best_prices)
        self._best = max(best, self._sweep(FIRST_SWEEPS))
        self._verify()

    @property
    def rounds(self) -> int:
        """How often prices may change in a row."""
        return max(LEAST_ROUNDS, min(MOST_ROUNDS, MOST_SWEPT // (2 * SWEEPS * self.sweeps.entries + 1)))

    def _gap(self, best: int) -> int:
        """Return how far the bound may rise, in parts of a step: not known without an assignment."""
        known = abs(best) if self.search.total is None else self.search.total * self.scale - best
        return min(max(known, abs(best) // 10**4, 1), abs(best) + 1)

    def _start(self) -> None:
        """Look for an assignment that fits where room is dear: what occupies little is taken first."""
        search = self.search
        apart = Sweeps(self.sweeps.instance, self.sweeps.limit)
        dear = search.instance.infinity * self.scale / (8.0 * max(1.0, float(self.room.sum())))
        for variable, costs in self._priced(np.full(len(self.room), dear)).items():
            apart.vectors[variable] = apart.vectors[variable] + costs
        for is_forward in (True, False):
            apart.sweep(is_forward)
        search.offer(fitted(search.instance, search.capacity, apart.decoded()))

    def survivors(self, total: int) -> Instance:
        """Return the instance with only what assignments of at most `total` may take."""
        sweeps, instance = self.sweeps, self.search.instance
        sweeps.top = (total * self.scale) + self._room_price + 1
        self._sweep(2)
        alive, top = sweeps.alive, sweeps.top - sweeps.floor
        vectors = [
            np.where(alive[variable], vector, instance.infinity)
            for variable, vector in enumerate(instance.vectors)
        ]
        matrices = {}
        for (i, j), matrix in instance.matrices.items():
            kept = (sweeps.near[i][j] < top) & alive[i][:, None] & alive[j][None, :]
            matrices[i, j] = np.where(kept, matrix, instance.infinity)
        sweeps.top = None
        return Instance(vectors, matrices, instance.infinity)

    def _is_closed(self) -> bool:
        return self.search.total is not None and self.search.bound >= self.search.total

    def _charge(self, prices: NDArray[np.float64]) -> None:
        """Let values pay for what they occupy."""
        for variable, own in self._priced(prices).items():
            change = own - self._charged.get(variable, 0)
            self.sweeps.vectors[variable] = self.sweeps.vectors[variable] + change
            self._charged[variable] = own
        self._room_price = -(-self._exact.of_room >> BITS)

    def _priced(self, prices: NDArray[np.float64]) -> dict[int, CostArray]:
        """Return what each value pays, rounded down or cut off, and keep the exact prices."""
        self._exact = Prices(self.search.capacity, tuple(int(own) for own in np.floor(prices * (1 << BITS))))
        most, dtype = self.sweeps.limit // 8, self.sweeps.vectors[0].dtype
        return {
            variable: np.minimum(costs >> BITS, most).astype(dtype)
            for variable, costs in self._exact.charges().items()
        }

    def _sweep(self, pairs: int) -> int:
        """Sweep, and return the bound in parts of a step."""
        for _ in range(pairs):
            for is_forward in (True, False):
                self.sweeps.sweep(is_forward)
            if self.search.clock.stop():
                break
        return self.sweeps.floor - self._room_price

    def _verify(self, is_due: bool = True) -> None:
        """Let the bound be what moved costs and prices add up to, if that is due or may end the search."""
        search = self.search
        claimed = -(-(self.sweeps.floor - self._room_price) // self.scale)
        is_due = is_due or (search.total is not None and claimed >= search.total)
        if claimed <= search.bound or not is_due:
            return
        moved = {pair: costs.copy() for pair, costs in self.sweeps.moved.items()}
        bound = verified_bound(search.instance, moved, self._exact, self.scale)
        search.take(Evidence(bound, (), moved, self._exact.by_moment(), self.scale))


ROUNDS, PRICED_BACKTRACKS, MOST_PRICED = 40, 200, 1 << 23
"""Changes of prices in a row; toulbar2's backtracks at each, and the entries of matrices that it is given."""

MOST_FOR_PROOF = 1000
"""Variables above which toulbar2 is to be brief: on instance P (7,575 of them) it takes minutes otherwise."""

FIRST_CHANGE, LEAST_CHANGE, SMALLER = 2.0, 0.1, 0.6
"""How fast prices change at first and in the end, and by what part slower after each turn."""

OVER, LEAST_OVER, MOST_LEFT, LEAST_LEFT = 4.0, 0.1, 0.5, 0.02
"""How prices rise with the part of the room that is exceeded, and fall with the part that is left."""

FROM_ZERO = 1e-3
"""Part of the largest price that any price begins with at least: they change by factors."""

NEARLY = 0.05
"""Part of the room that may be exceeded by what changes of single values are tried on."""


def _follow_prices(search: _Search, request: KernelRequest, prices: NDArray[np.float64]) -> None:
    """Offer what costs least at prices that rise where room is exceeded, and fall where all fits.

    What costs least at given prices takes whole groups of layers along, unlike changes of single values. At
    prices there is no limit: nearly all of the instance can be eliminated.
    """
    source, capacity = random.Random(request.seed), search.capacity
    whole = max(1.0, float(capacity.room.max()))
    prices = np.maximum(prices, FROM_ZERO * prices.max())
    change, was_over, choice = FIRST_CHANGE, True, search.choice
    for number in range(ROUNDS):
        # Something that fits soon, before toulbar2 looks for more: that may take a minute.
        asked = request if number else replace(request, engine=CP_SAT)
        choice = _chosen_at(search, asked, prices, choice, source)
        if search.clock.stop():
            break
        over = -capacity.left(choice).astype(np.float64) / whole
        if over.max() < NEARLY:
            search.offer(choice)
            search.offer(fitted(search.instance, capacity, choice))
        if (over.max() > 0) != was_over:
            change, was_over = max(LEAST_CHANGE, change * SMALLER), not was_over
        rising = np.clip(OVER * over, LEAST_OVER, OVER * MOST_LEFT)
        falling = np.clip(over, -MOST_LEFT, 0 if was_over else -LEAST_LEFT)
        prices = prices * np.exp(change * np.where(over > 0, rising, falling))


def _even_prices(search: _Search, request: KernelRequest) -> NDArray[np.float64]:
    """Return one price for all peaks, such that all room costs what is known to be paid without a limit."""
    room = search.capacity.room.astype(np.float64)
    rough = replace(request, engine=CP_SAT)  # toulbar2 takes much longer where nothing has a price
    free = _chosen_at(search, rough, np.zeros_like(room), None, random.Random(request.seed))
    search.offer(free)
    return np.full_like(room, max(1, search.bound) / max(1.0, float(room.sum())))


def _chosen_at(
    search: _Search,
    request: KernelRequest,
    prices: NDArray[np.float64],
    known: Choice | None,
    source: random.Random,
) -> Choice:
    """Return what costs about least where values pay these prices, and take the bound that follows."""
    exact = Prices(search.capacity, tuple(int(own) for own in np.floor(prices * (1 << BITS))))
    instance, infinity = search.instance, search.instance.infinity
    vectors = list(instance.vectors)
    for variable, costs in exact.charges().items():
        paid = np.minimum(vectors[variable] + (costs >> BITS), infinity)
        vectors[variable] = paid.astype(instance.vectors[variable].dtype)
    reduced = reduce_instance(Instance(vectors, instance.matrices, infinity))
    base = least_total(reduced.eliminations)
    choice = [0] * len(vectors)
    parts: list[Evidence] = []
    for kernel in reduced.kernels:
        before = None if known is None else tuple(known[variable] for variable in kernel)
        own, values = _kernel_choice(search, part_of(reduced.instance, kernel), request, before, source)
        parts.append(own.renumbered(kernel))
        for variable, value in zip(kernel, values, strict=True):
            choice[variable] = value
    restore(reduced.eliminations, choice, infinity)
    order = [elimination.variable for elimination in reduced.eliminations]
    found = joined_evidence(order, base - -(-exact.of_room >> BITS), parts)
    search.take(replace(found, prices=exact.by_moment()))
    return tuple(choice)


def _kernel_choice(
    search: _Search, kernel: Instance, request: KernelRequest, known: Choice | None, source: random.Random
) -> tuple[Evidence, Choice]:
    """Return a bound and a good choice: assignments made from nothing and crossed, then toulbar2's."""
    own, stop = penalised(kernel), search.clock.stop
    crossover = Crossover(own, source, stop)
    sweeps = Sweeps(own, largest_limit(max(map(len, own.neighbours()))))
    made = [crossover.made()]
    for is_forward in (True, False):
        sweeps.sweep(is_forward)
    made.append(crossover.made(sweeps.rest(sweeps.limit)))
    choice = crossover.crossed(made if known is None else [*made, known])
    top = price(own, choice)
    is_open = sweeps.floor < top < toulbar.LARGEST and not stop()
    is_small = sum(matrix.size for matrix in kernel.matrices.values()) <= MOST_PRICED
    if is_open and is_small and request.engine != CP_SAT and toulbar.is_available():
        vectors = [costs.clip(max=top) for costs in kernel.vectors]
        matrices = {pair: costs.clip(max=top) for pair, costs in kernel.matrices.items()}
        is_brief = len(vectors) > MOST_FOR_PROOF
        with toulbar.Problem(vectors, matrices, request.seed, is_brief) as problem:
            choice = problem.search(top, stop, backtracks=PRICED_BACKTRACKS).choice or choice
    return Evidence(verified_bound(kernel, sweeps.moved), moved=sweeps.moved), choice


MOST_FITTINGS = 4


def fitted(instance: Instance, capacity: Capacity, start: Sequence[int]) -> Choice:
    """Return an assignment with single values changed: to fit first, then to cost less."""
    near = instance.matrices_from()
    choice = list(start)
    left = capacity.left(choice).astype(np.float64)
    for _ in range(MOST_FITTINGS):
        changes = [
            _fit_one(instance, capacity, near, choice, left, variable) for variable in range(len(choice))
        ]
        if not any(changes):
            break
    return tuple(choice)


def _fit_one(
    instance: Instance,
    capacity: Capacity,
    near: Sequence[Sequence[tuple[int, CostArray]]],
    choice: list[int],
    left: NDArray[np.float64],
    variable: int,
) -> bool:
    """Change one value, and what it leaves, in place if another is better; whether it is."""
    costs: CostArray = instance.costs_of(near, choice, variable).astype(np.float64)
    value, usage = choice[variable], capacity.usages.get(variable)
    if usage is None:
        best = int(costs.argmin())
    else:
        first, last = capacity.spans[variable]
        held = usage.astype(np.float64)
        spare = max(0.0, float(left[first:last].min()) + float(held[value]))
        missing = np.maximum(held - spare, 0.0)
        costs = costs + missing * (instance.infinity / max(1.0, float(missing.max())))
        best = int(costs.argmin())
    if costs[best] >= costs[value]:
        return False
    if usage is not None:
        left[first:last] += float(held[value]) - float(held[best])
    choice[variable] = best
    return True


def _turn(search: _Search, pricing: _Pricing, walk: _Walk, seconds: float) -> bool:
    """Let CP-SAT find what is better, or prove that nothing is; whether there may be an assignment at all.

    Where too much could be better, only assignments close to the bound are looked for, as if one were known
    that is not much above it: either the best of all is among them, or all are above.
    """
    if _open_pairs(rest := pricing.survivors(search.most)) > MOST_LOCAL:
        walk.run(rest, seconds)
        rest = pricing.survivors(search.most)
    limit = most = search.most
    while _open_pairs(rest) > MOST_LITERALS and limit > search.bound:
        limit = search.bound + (min(limit, 2 * search.bound) - search.bound) // 4
        rest = pricing.survivors(limit)
    if _open_pairs(rest) > MOST_LITERALS:
        walk.run(rest, seconds)
        return True
    known = search.result(CP_SAT) if limit == most else KernelResult(None, None, search.bound, CP_SAT)
    model = KernelModel(rest, 0, limit, walk.request, search.capacity)
    answer = model.solve(search.instance, known, search.clock, seconds)
    if answer.choice is not None:
        if not search.capacity.fits(answer.choice):
            raise ModelError("CP-SAT's answer does not fit")
        search.offer(answer.choice)
    search.raise_to(limit + 1 if answer.bound is None else min(answer.bound, limit + 1))
    return search.bound < search.instance.infinity


def _open_pairs(rest: Instance) -> int:
    """Return how many pairs of values are left of those between variables that still have a choice."""
    choices = [int((vector < rest.infinity).sum()) for vector in rest.vectors]
    return sum(
        int((matrix < rest.infinity).sum())
        for (i, j), matrix in rest.matrices.items()
        if choices[i] > 1 and choices[j] > 1
    )


@dataclass(eq=False)
class _Walk:
    """Neighbourhoods of the best assignment, one after the other."""

    search: _Search
    request: KernelRequest
    source: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Draw the same neighbourhoods each time."""
        self.source = random.Random(self.request.seed)
        self._near = self.search.instance.matrices_from()

    def run(self, rest: Instance, seconds: float) -> None:
        """Improve neighbourhoods for some of CP-SAT's seconds."""
        if self.search.choice is None:
            return
        near = rest.neighbours()
        pairs = [0] * len(near)
        for (i, j), matrix in rest.matrices.items():
            # Each end is charged for half of it.
            half = int((matrix < rest.infinity).sum()) // 2
            pairs[i] += half
            pairs[j] += half
        for _ in range(max(4, int(LOCAL * seconds))):
            if self.search.clock.stop():
                return
            self._improve(rest, self._ball(near, pairs))

    def _ball(self, near: Sequence[Sequence[int]], pairs: Sequence[int]) -> list[int]:
        """Return variables around a random one."""
        start = self.source.randrange(len(near))
        budget, ball, seen = MOST_LOCAL, [start], {start}
        for number, variable in enumerate(ball):
            budget -= pairs[variable]
            if budget < 0:
                return sorted(ball[: max(2, number)])
            others = [other for other in near[variable] if other not in seen]
            self.source.shuffle(others)
            seen.update(others)
            ball += others
        return sorted(ball)

    def _improve(self, rest: Instance, ball: Sequence[int]) -> None:
        search = self.search
        assert search.choice is not None  # there is something to improve
        own = _around(rest, self._near, search.choice, ball)
        part = search.capacity.around(search.choice, ball)
        before = tuple(search.choice[variable] for variable in ball)
        total = price(own, before)
        model = KernelModel(own, 0, total, self.request, part)
        answer = model.solve(own, KernelResult(before, total, 0, CP_SAT), search.clock, 1.0)
        if answer.choice is None or answer.total is None or answer.total >= total:
            return
        choice = list(search.choice)
        for variable, value in zip(ball, answer.choice, strict=True):
            choice[variable] = value
        search.offer(tuple(choice))


def _around(
    rest: Instance, near: Sequence[Sequence[tuple[int, CostArray]]], choice: Choice, ball: Sequence[int]
) -> Instance:
    """Return the instance of some variables while all others keep their values."""
    place = {variable: number for number, variable in enumerate(ball)}
    vectors: list[CostArray] = []
    matrices: dict[tuple[int, int], CostArray] = {}
    for number, variable in enumerate(ball):
        joined = [(place.get(other), other, matrix) for other, matrix in near[variable]]
        fixed = [matrix[:, choice[other]] for inside, other, matrix in joined if inside is None]
        vectors.append(np.minimum(sum(fixed, rest.vectors[variable]), rest.infinity))
        matrices |= {
            (number, inside): rest.matrices[variable, other]
            for inside, other, _ in joined
            if inside is not None and inside > number
        }
    return Instance(vectors, matrices, rest.infinity)
