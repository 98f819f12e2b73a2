"""Which gradients a clip shortens, and how much signal is left beside the noise.

    WARDROUND_DATA=… python studies/privacy/norms.py runs/norms            # of relation.toml, seed 0

By example and by patient, in the first step and after the last round of training without noise: the number of a site's
units, the median length of their gradients, and for several clips C the length of the sum of the clipped gradients over
C. The noise on that sum has the standard deviation σ C in each direction, and σ is the same for both units, since all
are in every step: so these figures say how much signal there is for the same noise. Means over sites.
"""

import sys
from pathlib import Path
from statistics import fmean

import torch

from wardround.audit.case import trained
from wardround.core.bench import Bench
from wardround.core.clipping import clipped, norms
from wardround.core.private_steps import UnitsPart
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.federation.units import Unit, units_of
from wardround.runs.build import Built, build
from wardround.study.load import load_study

HERE = Path(__file__).parent
UNITS: tuple[Unit, ...] = ("example", "patient")
CLIPS = (0.1, 0.3, 1.0, 3.0)


def figures(built: Built, site: str, unit: Unit, weights: Weights) -> list[float]:
    """How many units there are, the median length of their gradients, and for each clip the signal."""
    assert built.raw is not None  # noqa: S101 -- one process sees all notes here
    train, test = built.raw.raw(site)
    examples = built.task.examples(train)
    units = units_of(unit, site, {"train": train, "test": test}, built.task, len(examples))
    bench = Bench.of(built.task)
    bench.load(weights)
    part = UnitsPart(built.task, examples, units, torch.arange(units.count))
    layers = part.by_one_pass(bench, built.task.loss)
    assert layers is not None  # noqa: S101 -- a linear classifier's gradients can be had so
    signals = []
    for clip in CLIPS:
        bench.gradient.zero_()
        clipped(layers, clip)
        signals.append(float(bench.gradient.norm()) / clip)
    return [units.count, float(norms(layers).median()), *signals]


if __name__ == "__main__":
    study = load_study(HERE / "relation.toml")[0].study
    whole = build(study, Path(sys.argv[1]))
    moments = {"first step": whole.weights, "after training": trained(whole, Serial(whole.host), study.rounds)}
    print("| step | unit | units | median length | " + " | ".join(f"C = {clip:g}" for clip in CLIPS) + " |")
    print("|---|---|---|---|" + "---|" * len(CLIPS))
    for moment, now in moments.items():
        for kind in UNITS:
            rows = [figures(whole, name, kind, now) for name in whole.sites.names]
            count, median, *left = (fmean(column) for column in zip(*rows, strict=True))
            shown = " | ".join(f"{value:.0f}" for value in left)
            print(f"| {moment} | {kind} | {count:.0f} | {median:.2f} | {shown} |")
