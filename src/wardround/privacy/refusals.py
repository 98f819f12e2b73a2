"""Why a study cannot have differential privacy as it stands: all that looks at notes and leaves, and has no noise.

Found out before the run. A method says itself whether its replies follow from what `train` has learnt
(`Method.beyond_training`); what a task or a study's own tables look at besides is listed here.
"""

from collections.abc import Iterator
from typing import Any

from wardround.core.task import UnitTask
from wardround.core.training import LocalTraining
from wardround.privacy.accounting import missing
from wardround.study.load import Study

UNKNOWN = (
    'nobody has said that its replies follow from local training alone; if so, say beyond_training = "" in its class'
)  # fmt: skip


def refused(study: Study, task: Any, *, simulated: bool) -> Iterator[str]:
    """Every reason, with the remedy."""
    dp = study.dp
    if dp is None:
        return
    if why := missing():
        yield why
    name = study.resolved["method"]["name"]
    beyond = vars(type(study.method)).get("beyond_training", UNKNOWN)
    if study.start or study.finish:
        yield "privacy.dp: start and finish send sums over the notes' features, which have no noise; take them out"
    elif not isinstance(study.method, LocalTraining) or beyond:
        yield f"privacy.dp: method {name!r} tells more of the notes than its training does: {beyond}; choose another"
    if "train" in study.evaluation.splits:
        yield (
            "privacy.dp: evaluation.splits has 'train', whose counts would tell of the notes that training protects; "
            "take it out"
        )
    if study.sites.share < 1:
        yield (
            f"privacy.dp: sites.share draws as many rows as there are, so that one {dp.unit} more decides which of the "
            "others are trained on; take it out"
        )
    if not simulated and dp.evaluation == "outside":
        yield 'privacy.dp.evaluation = "outside" leaves test notes without protection; at real sites it is "noised"'
    if study.device not in (None, "cpu") or study.precision == "bf16":
        yield "privacy.dp: gradients of single units are computed on the CPU in fp32; leave device and precision out"
    if not isinstance(task, UnitTask):
        yield f"privacy.dp: task {study.resolved['task']['name']!r} cannot take single examples apart (`batch`)"
    yield from task.unprotected(dp.unit, counted=dp.evaluation == "noised", private=study.sites.private)
