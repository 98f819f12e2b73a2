"""Our robust rules beside those of byzfl, on drawn vectors: the largest difference of a number.

    python -m venv oracle && oracle/bin/pip install byzfl && PYTHONPATH=src oracle/bin/python studies/lying/oracle.py

The tests compare the rules with formulas of their own (tests/layers/test_rules.py), and need no byzfl.
"""

import byzfl  # type: ignore[import-not-found]  # no dependency of ours
import numpy as np
import torch

from wardround.layers.rules import apart, geometric, krum, middle, mixed


def main() -> None:
    """Draw, compare and print."""
    rng, worst = torch.Generator().manual_seed(0), dict[str, float]()
    for sites, liars, width in ((5, 1, 7), (10, 2, 100), (10, 1, 1000), (7, 3, 3)):
        for _ in range(5):
            rows = list(torch.randn(sites, width, generator=rng, dtype=torch.float64))
            rows[0] *= 10
            whole, squared = np.stack([row.numpy() for row in rows]), apart(rows)
            pairs = {
                "median": (middle(rows), byzfl.Median()(whole)),
                "trimmed": (middle(rows, liars), byzfl.TrMean(f=liars)(whole)),
                "geometric": (mixed(rows, geometric(squared)), byzfl.GeometricMedian(nu=1e-12, T=2000)(whole)),
                "krum": (mixed(rows, krum(squared, liars)), byzfl.MultiKrum(f=liars)(whole)),
            }
            for rule, (ours, theirs) in pairs.items():
                worst[rule] = max(worst.get(rule, 0.0), float(np.abs(ours.numpy() - theirs).max()))
    print(", ".join(f"{rule} {difference:.0e}" for rule, difference in worst.items()))


if __name__ == "__main__":
    main()
