"""What in a task would tell of notes beyond what the noise of differential privacy covers: refused before a run.

Each is a part of the task's own class, which says it by its settings.
"""

from collections.abc import Iterator
from typing import Any

from wardround.core.bench import belongs


class ByCounts:
    """Weights of classes and of words follow from counts of labels and of texts, which nothing hides."""

    settings: Any

    def unprotected(self, unit: str, *, counted: bool, private: tuple[str, ...]) -> Iterator[str]:  # noqa: ARG002
        """The counts that would be used as they are, and how to do without."""
        if getattr(self.settings, "counts_documents", False):
            yield (
                'privacy.dp: task.weighting = "documents" follows from in how many of a site\'s texts words stand, '
                'which has no noise; set task.weighting = "none"'
            )
        chosen = self.settings.class_weights or "none"
        if chosen != "none":
            yield (
                f'privacy.dp: task.class_weights = "{chosen}" follows from how many notes of each class a site has, '
                'which has no noise; set task.class_weights = "none"'
            )


class ByBags:
    """A bag has sentences of several documents, and so have its counts."""

    settings: Any

    @property
    def reuses_weights(self) -> bool:
        """Whether the classifier's weights also choose among sentences: units' gradients are then had one by one."""
        return self.settings.denoiser in ("attention", "relation-attention")

    def unprotected(self, unit: str, *, counted: bool, private: tuple[str, ...]) -> Iterator[str]:  # noqa: ARG002
        """Sentences can be clipped by whose they are, bags cannot."""
        if unit != "example" and self.settings.denoiser != "none":
            yield (
                f"privacy.dp: a bag has sentences of several documents, which cannot be clipped by {unit}; set "
                'task.denoiser = "none", or privacy.dp.unit = "example"'
            )
        if counted:
            yield (
                "privacy.dp: what is counted of bags is by pair, over several documents, and has no noise; set "
                'privacy.dp.evaluation = "outside", which is for simulations'
            )


class ByOwnTags:
    """A tag set of a site's own follows from its notes."""

    def unprotected(self, unit: str, *, counted: bool, private: tuple[str, ...]) -> Iterator[str]:  # noqa: ARG002
        """Unless the CRF is shared."""
        if belongs("crf", private):
            yield (
                'privacy.dp: with "crf" in sites.private each site has the tags that its notes have, which tells of '
                "them; take it out"
            )
