"""Counts before the first round: of documents, for a task that weighs words (`task.weighting`), and of labels.

    method = weighing(method)                    # one step more, which each site is asked for once
    weights = method.weighed(weights, cohort)    # the first model, with what the counts give

The coordinator needs only their sum. The weighting travels with the model and no training moves it, so that whoever has
the model can use it. A site that trains alone counts alone (`bench.weighed_alone`), and tells nobody. Labels are
counted where `task.class_counts = "all"`, and a site may keep its own back: of classes that too little was told of,
each site's own labels decide, and the run says so.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from torch import Tensor

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.task import Task, WeighedTask
from wardround.core.weights import Weights

log = logging.getLogger(__name__)


class Hashes(Message):
    """How many numbers words are hashed to."""

    count: int = reveals("nothing; a setting of the study")


class DocumentCounts(Message):
    """In how many of a site's texts words stand, and how many have each label: once, before the first round."""

    counts: Tensor = reveals(
        "for each number that words and runs of words are hashed to, how many of the site's training texts have it, if "
        "these are `rarest` or more: whoever guesses a word can tell whether it is common there",
        like="counts", shape=("buckets",), dtype=torch.int64,
    )  # fmt: skip
    labels: Tensor = reveals(
        "how many of the site's training texts have each label, rounded down to a multiple of `rarest`; a site may "
        "keep it to itself",
        like="counts", shape=("counted labels",), dtype=torch.int64, optional=True,
    )  # fmt: skip
    documents: int = reveals("how many training examples the site has", weighs="train")
    labelled: int = reveals("whether the site tells of labels: as many as its training examples, or 0", optional=True)


class DocumentWeighing:
    """What a method has besides where words are weighed; under differential privacy the task refuses to."""

    def weighed(self, weights: Weights, cohort: Cohort) -> Weights:
        """The first model, weighed by the documents of all sites."""
        task = cast("WeighedTask", cohort.hub.task)
        total = cohort.total(self.count_documents, Hashes(len(weights[task.measured[0]])))
        if len(total.labels) and total.labelled < total.documents:
            log.warning(
                "of %d of %d training texts no labels were told: classes that are too few in the others count by each "
                "site's own labels",
                total.documents - total.labelled,
                total.documents,
            )
        parts = task.weighed(total.counts, total.documents, total.labels, total.labelled)
        return Weights({**weights, **parts})

    @on_site
    def count_documents(self, hashes: Hashes, site: Site) -> DocumentCounts:  # noqa: ARG002 -- the site has its own
        """Count the training texts that have each word and each label."""
        train, task = site.data.train, cast("WeighedTask", site.task)
        site.stands_on(len(train))
        labels = task.label_counts(train)
        return DocumentCounts(task.document_counts(train), labels, len(train), len(train) if len(labels) else 0)

    def contradiction(self, sent: Message, reply: Message) -> str | None:
        """No word stands in more texts than there are, and rounding makes at most twice as many of a label."""
        if isinstance(reply, DocumentCounts):
            if _most(reply.counts) > reply.documents:
                return "DocumentCounts.counts exceed its documents"
            if reply.labelled not in (0, reply.documents) or _most(reply.labels) > 2 * reply.labelled:
                return "DocumentCounts.labels do not go with its documents"
            return None
        why: str | None = cast("Any", super()).contradiction(sent, reply)
        return why

    def opening(self) -> tuple[str, ...]:
        """The counts come first."""
        return ("count_documents", *cast("Any", super()).opening())

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:
        """How many numbers words are hashed to, and how many labels are counted."""
        buckets = len(weights[cast("WeighedTask", task).measured[0]])
        labels = len(weights["balance"]) if "balance" in weights else 0
        return {**cast("Any", super()).sizes(task, weights), "buckets": buckets, "counted labels": labels}


def _most(counts: Tensor) -> int:
    return int(counts.max()) if len(counts) else 0


def weighing(method: Method[Any]) -> Method[Any]:
    """The same method with the counts before its first round, unless it asks no site or shares no model."""
    if not method.shares or not method.exchanges(1):
        return method
    own = {key: value for key, value in vars(type(method)).items() if key in ("__doc__", "beyond_training")}
    kind: type[Any] = type(type(method).__name__, (DocumentWeighing, type(method)), own)
    kind.__module__ = type(method).__module__
    kind = dataclass(frozen=True, kw_only=True)(kind)
    made: Method[Any] = kind(**{field.name: getattr(method, field.name) for field in fields(cast("Any", method))})
    return made
