"""FedED: sites send how their models judge public examples, never the models; the coordinator distils that.

Sui et al., "FedED: Federated Learning via Ensemble Distillation for Medical Relation Extraction", EMNLP 2020.

    site:   E epochs of cross-entropy from the shared weights, then votes on the public examples D_v
    server: q = softmax(mean_k log p_k / τ)                      (eqs. 4–5, as the text has them)
            one pass over D_v by CE + KL(q ‖ p)                  (eq. 6; p at temperature 1, no τ²)

How well teacher and student know the labels of D_v is in the run's journal, as `noted.public` of each round: a
student that knows them by heart has nothing to learn from votes on them. `labels` and `student_lr` keep it from that;
neither is the paper's.

A site's vote on an example is log p_c − log p_C for every class but the last: a softmax needs no more. With 8 bits
each is a whole number on a grid that all know, from −8 to 8 (with 16, from −64 to 64): classes less likely than e^−8
times the likeliest count as that, so the order of the likely ones survives, and no site has a veto. Whole numbers add
up exactly: the coordinator needs only their sum, and secure aggregation could hide each site's. For |D_v| = 2046
examples of 9 classes, 959 of 2 and 64 of 2, a site sends 16.5 KB, 1.1 KB and 160 B; the paper: 42 KB, 5 KB and 323 B.

Readings of the teacher: eq. 5 prints the mean of probabilities where its text says logits. `probabilities` is eqs. 4–5
to the letter, nearly uniform for nine classes; `mean_probability` leaves out the second softmax. Sites then send
probabilities, again without the last class's. A site without examples votes as the shared model does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.task import Batch, ClassTask, Examples, Task
from wardround.core.training import LocalTraining, Loss, outputs
from wardround.core.weights import Weights

GRIDS = {8: (torch.int8, 8.0), 16: (torch.int16, 64.0)}  # e^−8 = 0.0003: so unlikely a class is as good as out


class Vote(Message):
    """How a site's own model judges the public examples, and nothing else of that model."""

    votes: Tensor = reveals(
        "what the site's notes taught its model about each public example", shape=("public", "others"), dtype="votes"
    )


@dataclass(frozen=True, kw_only=True)
class FedED(LocalTraining, Method[Global]):
    """Sites send predictions on public examples, not weights; the coordinator learns from them."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"teach": {"votes": ""}}
    classifier: ClassVar[bool] = True
    public: ClassVar[bool] = True

    temperature: Annotated[float, Gt(0)] = 1.0
    """τ: above 1 the teacher is less sure of itself."""
    teacher: Literal["logits", "probabilities", "mean_probability"] = "logits"
    """What of the sites' votes is averaged: log-odds, or probabilities with or without a second softmax."""
    bits: Literal[8, 16, 32] = 8
    """Per number that a site sends; 32 is as the model computes it."""
    passes: Annotated[int, Ge(1)] = 1
    """Over the public examples, in each round."""
    labels: Annotated[float, Ge(0)] = 1.0
    """Weight of the public examples' own labels beside the teacher; 0 learns from the sites alone (eq. 6 has 1)."""
    student_lr: Annotated[float, Gt(0)] | None = None
    """Learning rate at the coordinator's desk; if not given, the sites'."""

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """One pass over the public examples, towards their labels and the sites' mean vote."""
        total = cohort.total(self.teach, state)
        q = self.taught(total.votes, len(cohort.present)).to(state.weights.flat.dtype)
        own = replace(self, epochs=self.passes, steps=0, lr=self.student_lr or self.lr)
        task = cohort.hub.class_task
        loss = distilled(task, q, self.labels)
        student = own.train(cohort.hub, state.weights, loss=loss).weights
        labels = outputs(cohort.hub, student, cast("Examples", cohort.hub.data.public), lambda _, b: task.targets(b))
        judgements = {"teacher": q.log(), "student": judged(cohort.hub, student)}
        cohort.noted["public"] = {name: fitting(scores, labels) for name, scores in judgements.items()}
        return Global(student)

    @on_site
    def teach(self, model: Global, site: Site) -> Vote:
        """Train on the site's own examples, then judge the public ones."""
        return Vote(self.voted(judged(site, self.train(site, model.weights).weights)))

    def voted(self, scores: Tensor) -> Tensor:
        """The votes that say what these scores (examples, classes) say, with one class less."""
        if self.teacher == "logits":
            judged = scores - scores.amax(-1, keepdim=True)  # log p, but for what all classes have in common
            judged = judged.clamp(min=-self.reach)
            votes = judged[:, :-1] - judged[:, -1:]
        else:
            votes = scores.softmax(-1)[:, :-1]
        return votes if self.bits == 32 else (votes / self.step).round().to(GRIDS[self.bits][0])

    def taught(self, votes: Tensor, sites: int) -> Tensor:
        """The teacher's probabilities (examples, classes) from the sum of so many sites' votes."""
        mean = votes.double() * (self.step / sites)
        if self.teacher == "logits":
            return (functional.pad(mean, (0, 1)) / self.temperature).softmax(-1)
        z = torch.cat([mean, 1 - mean.sum(-1, keepdim=True)], -1).clamp(min=0)  # a grid's last may fall below 0
        return z / z.sum(-1, keepdim=True) if self.teacher == "mean_probability" else (z / self.temperature).softmax(-1)

    @property
    def reach(self) -> float:
        """The largest number on the grid."""
        return (GRIDS[self.bits][1] if self.bits in GRIDS else math.inf) if self.teacher == "logits" else 1.0

    @property
    def step(self) -> float:
        """How far apart the grid's numbers are."""
        return self.reach / torch.iinfo(GRIDS[self.bits][0]).max if self.bits in GRIDS else 1.0

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:  # noqa: ARG002
        """All classes but the last."""
        return {"others": len(cast("ClassTask", task).labels) - 1}

    def dtypes(self) -> Mapping[str, torch.dtype]:
        """Whole numbers of as many bits as the settings say."""
        return {"votes": GRIDS[self.bits][0]} if self.bits in GRIDS else {}


def distilled(task: ClassTask, teacher: Tensor, labels: float = 1.0) -> Loss:
    """Cross-entropy of that weight, and the divergence from the teacher's probabilities (examples, classes)."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logs = task.scores(model, task.features(model, batch)).log_softmax(-1)  # (B, classes)
        entropy = functional.nll_loss(logs, task.targets(batch))
        return labels * entropy + functional.kl_div(logs, teacher[task.rows(batch)], reduction="batchmean")  # eq. 6

    return loss


def judged(site: Site, weights: Weights) -> Tensor:
    """How the model of these weights scores the public examples (examples, classes)."""
    task = site.class_task

    def scores(model: nn.Module, batch: Batch) -> Tensor:
        return task.scores(model, task.features(model, batch))

    return outputs(site, weights, cast("Examples", site.data.public), scores)


def fitting(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """How well scores of the public examples (examples, classes) fit their labels, for the journal."""
    right = (scores.argmax(-1) == labels).double().mean()
    return {"accuracy": right.item(), "loss": functional.cross_entropy(scores, labels).item()}
