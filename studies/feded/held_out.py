"""FedED whose student stops early: a part of D_v is held out of its training, and says when.

    [method]
    name = "held_out:HeldOut"
    held = 0.2

In each round the student takes up to `passes` passes over the rest of D_v, and keeps the model with the least
cross-entropy on what is held out: that of the round before, if no pass makes it less. Not the paper's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Gt, Lt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.training import outputs
from wardround.extend import Cohort, Global
from wardround.methods.feded import FedED, fitting, judged


@dataclass(frozen=True, kw_only=True)
class HeldOut(FedED):
    """The student is the best of its passes on public examples that it does not learn from."""

    beyond_training: ClassVar[str] = ""

    held: Annotated[float, Gt(0), Lt(1)] = 0.2
    """The share of D_v that is held out."""

    def round(self, state: Global, cohort: Cohort) -> Global:
        """Passes over the public examples but for those held out, as long as these are judged better."""
        total = cohort.total(self.teach, state)
        q = self.taught(total.votes, len(cohort.present)).to(state.weights.flat.dtype)
        task, examples = cohort.hub.class_task, cast("Any", cohort.hub.data.public)
        order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))
        apart = torch.zeros(len(examples), dtype=torch.bool)
        apart[order[: max(int(self.held * len(examples)), 1)]] = True
        labels = outputs(cohort.hub, state.weights, examples, lambda _, batch: task.targets(batch))
        own = replace(self, epochs=1, steps=0, lr=self.student_lr or self.lr)
        best = student = state.weights
        scores = judged(cohort.hub, student)
        least, taken = fitting(scores[apart], labels[apart])["loss"], 0
        for turn in range(self.passes):
            student = own.train(cohort.hub, student, loss=learning(task, q, self.labels, ~apart)).weights
            now = judged(cohort.hub, student)
            if (loss := fitting(now[apart], labels[apart])["loss"]) >= least:
                break
            best, scores, least, taken = student, now, loss, turn + 1
        cohort.noted["public"] = {
            "teacher": fitting(q.log()[apart], labels[apart]),
            "student": fitting(scores[apart], labels[apart]),
            "learnt": fitting(scores[~apart], labels[~apart]) | {"passes": float(taken)},
        }
        return Global(best)


def learning(task: Any, teacher: Tensor, weight: float, learns: Tensor) -> Callable[[nn.Module, Any], Tensor]:
    """The loss of eq. 6 on those of a batch's examples from which the student `learns` (examples,)."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        rows = task.rows(batch)
        logs = task.scores(model, task.features(model, batch)).log_softmax(-1)  # (B, classes)
        one = weight * functional.nll_loss(logs, task.targets(batch), reduction="none")
        one = one + functional.kl_div(logs, teacher[rows], reduction="none").sum(-1)  # (B,)
        return (one * learns[rows]).sum() / learns[rows].sum().clamp(min=1)

    return loss
