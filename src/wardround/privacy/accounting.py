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
FINEST = 1e-4
CLOSE = 0.005  # how near below the wanted ε the noise is sought
TRIES = 40

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
    grid = min(GRID, max(wanted * GRID, FINEST))

    def cost(noise: float) -> float:
        return _epsilon(((noise, rate, steps),), delta, grid)

    noise = max(rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / wanted, 0.3)  # the right size, no more
    enough = noise
    while cost(enough) > wanted:
        enough *= 2
    low = enough
    while cost(low) <= wanted:
        enough, low = low, low / 2
        if low < 1e-2:  # ε so large that hardly any noise is needed
            return enough
    for _ in range(TRIES):
        if wanted - cost(enough) <= CLOSE * wanted:
            break
        middle = math.sqrt(low * enough)
        low, enough = (low, middle) if cost(middle) <= wanted else (middle, enough)
    return enough
