"""How much a series of noisy looks at the notes can tell of one unit: ε at a given δ, and the noise for a wanted ε.

    epsilon([(1.1, 0.01, 1000)], delta=1e-5)          # 1.516: noise σ, sampling rate q, steps
    noise_for(1.5, 1e-5, rate=0.01, steps=1000)       # 1.107

Accounted by privacy loss distributions (Koskela et al. 2020; Doroshenko et al. 2022) with `dp-accounting`, which only
this file imports: exact but for a grid, on which every loss is rounded up, so what is said is never too little. Two
data sets are neighbours if one has one unit more (add or remove one), and units are drawn independently (Poisson).
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec

from wardround.core.refusal import Refusal

GRID = 1e-3  # of privacy loss: errs by less than 1 % at the reference values
FINEST, COARSEST = 1e-4, 5e-3  # while the noise is sought: a coarser grid asks for more of it, never for less
CLOSE = 0.005  # how near below the wanted ε the noise is sought
TRIES = 60
LEAST = 1e-2  # noise below which nothing is gained

Looks = tuple[tuple[float, float, int], ...]
"""Noise, rate and steps of each series."""


def missing() -> str | None:
    """What to install, if accounting is not there."""
    if find_spec("dp_accounting") is None:
        return 'privacy.dp needs dp-accounting, which counts ε; pip install "wardround[dp]"'
    return None


def epsilon(looks: Iterable[tuple[float, float, int]], delta: float) -> float:
    """The ε of all these looks together."""
    whole = tuple(sorted((noise, rate, steps) for noise, rate, steps in looks if steps and rate))
    return _epsilon(whole, delta, GRID) if whole else 0.0


@lru_cache(maxsize=4096)
def _epsilon(looks: Looks, delta: float, grid: float) -> float:
    if why := missing():
        raise Refusal(why)
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 -- an extra, and slow to import

    total = None
    for noise, rate, steps in looks:
        one = pld.from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=grid)
        series = one.self_compose(steps) if steps > 1 else one
        total = series if total is None else total.compose(series)
    return float(total.get_epsilon_for_delta(delta)) if total is not None else 0.0


@lru_cache(maxsize=4096)
def noise_for(wanted: float, delta: float, rate: float, steps: int) -> float:
    """The least noise σ, to half a percent of ε, with which so many steps cost at most the wanted ε."""
    grid = min(max(wanted * GRID, FINEST), COARSEST)

    def cost(noise: float) -> float:
        return _epsilon(((noise, rate, steps),), delta, grid)

    aim = wanted * (1 - CLOSE / 2)
    noise = min(max(rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / wanted, 0.5), 1e4)  # of the right size
    low, high, power = 0.0, math.inf, 1.2  # bounds of what is sought; ε falls with some power of σ
    before: tuple[float, float] | None = None
    enough = math.inf
    for _ in range(TRIES):
        spent = cost(noise)
        if spent <= wanted:
            enough, high = min(enough, noise), noise
        else:
            low = noise
        if wanted * (1 - CLOSE) <= spent <= wanted or high < LEAST:  # the latter: ε so large that hardly any is needed
            break
        if before is not None and before[0] != noise and before[1] != spent and before[1] * spent > 0:
            power = min(max(-math.log(spent / before[1]) / math.log(noise / before[0]), 0.5), 20.0)
        before = noise, spent
        guess = noise * min(max((spent / aim) ** (1 / power), 0.25), 4.0)
        noise = guess if low < guess < high else math.sqrt(low * high) if low else high / 2
    return enough
