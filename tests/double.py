"""Logistic regression in double precision: a task for numbers that must agree."""

from torch import nn

from wardround.tasks.features import FeaturesTask

__all__ = ["DoubleFeatures"]


class DoubleFeatures(FeaturesTask):
    """Rows of numbers to a class, in double precision."""

    def model(self) -> nn.Module:
        """A new logistic regression."""
        return super().model().double()
