"""What `[privacy]` adds to a study, and what it changes in its method."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from wardround.study.grid import shown as written
from wardround.study.outline import Outline

if TYPE_CHECKING:
    from wardround.core.layer import Layer


def in_sums(
    built: dict[str, Any],
    plain: dict[str, dict[str, Any]],
    given: Mapping[str, Any],
    layers: "tuple[Layer, ...]",
    problems: list[str],
) -> None:
    """Where a layer shows only sums, take the method's form that needs no more; what a study itself says stands."""
    if problems or not (blind := [layer.called for layer in layers if layer.only_sums]):
        return
    method = built["method"]
    summed = method.in_sums()
    names = [field.name for field in fields(method)]
    changed = {key: getattr(summed, key) for key in names if getattr(summed, key) != getattr(method, key)}
    problems += [
        f"method.{key} = {written(getattr(method, key))} lets the coordinator see each site's reply, and {blind[0]} "
        f"shows only sums; take it out, or set it to {written(changed[key])}"
        for key in sorted(changed.keys() & given.keys())
    ]
    built["method"], plain["method"] = summed, {**plain["method"], **changed}


def protecting(outline: Outline) -> "tuple[Layer, ...]":
    """The layers of `[privacy]`, around all others: nothing reads behind a mask."""
    from wardround.layers.masks import Masks  # noqa: PLC0415 -- what is built needs more than what is checked

    privacy = outline.privacy
    if not privacy or not privacy.secure_aggregation:
        return ()
    return (Masks(fewest=privacy.fewest, same_members=privacy.same_members),)
