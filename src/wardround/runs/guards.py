"""What stands between one site's reply and the model: the bound, and a rule in place of the mean.

guards(study)                              # of a simulation: what its [robust] asks for, or nothing
guards(study, always=True, declared=…)     # over real sites, where there is a bound in any case
"""

from collections.abc import Iterator
from typing import Any

from wardround.core.layer import Layer
from wardround.layers.bound import FACTOR, Bound
from wardround.layers.robust import Robust
from wardround.study.load import Study


def guards(study: Study, *, always: bool = False, **known: Any) -> tuple[Layer, ...]:
    """The coordinator's layers against lies, from the inside to the outside; `known` is what real sites declare."""
    chosen, method = study.robust, study.method
    if chosen is None and not always:
        return ()
    factor = chosen.bound if chosen and chosen.bound else FACTOR
    bound = Bound(factor, contradiction=method.contradiction, **known)
    if chosen is None or chosen.rule == "bound":
        return (bound,)
    return (Robust(chosen.rule, method.means, liars=chosen.liars, keep=chosen.keep), bound)


def unguarded(study: Study) -> Iterator[str]:
    """Why a study's rule cannot protect it."""
    chosen, method = study.robust, study.resolved["method"]["name"]
    if chosen is None:
        return
    for layer in study.layers:
        if layer.only_sums:
            yield (
                f"robust.rule = {chosen.rule!r} compares the sites' replies, and {layer.called} shows only "
                "their sum, in which nobody can tell a lie; choose: take [robust] out and rely on the sites, or take "
                f"{layer.called} out and let the coordinator's machine see each reply"
            )
    if chosen.rule == "bound":
        return
    if why := study.method.unruled():
        yield f"robust.rule = {chosen.rule!r} takes the place of a mean over sites, and method {method!r} {why}"
    for key in ("start", "finish"):
        if getattr(study, key):
            yield (
                f"{key} solves a classifier from sums over all sites, which robust.rule = {chosen.rule!r} does not "
                f'protect; take {key} out, or set robust.rule = "bound"'
            )


def outnumbered(study: Study, part: int) -> Iterator[str]:
    """Why so many sites in a round are too few for the rule."""
    chosen = study.robust
    if chosen is None or chosen.rule == "bound" or study.method.unruled():
        return
    if part < (least := 2 * chosen.liars + 1):
        yield (
            f"robust.rule = {chosen.rule!r} with liars = {chosen.liars} needs at least {least} sites in a round, and "
            f'{part} take part; lower robust.liars, or set robust.rule = "bound"'
        )
    elif chosen.keep is not None and chosen.keep > part:
        yield f"robust.keep = {chosen.keep}, but {part} sites take part in a round; lower it"
