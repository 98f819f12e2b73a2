"""The texts worth a person's look first: those of which a model is least sure.

    least_sure = LeastSure(50)
    least_sure.take(placed, prediction)              # for each of many; only so many are kept
    for placed, prediction in least_sure.texts(): ...

How sure it is of a text: for classes the margin between the first and the second (where there may be several, that of
the nearest to even odds), for relations that of the nearest pair, also of one that is called unrelated, for entities
the confidence of the least sure one. Texts in which nothing was found come last, but for such pairs; they may still
hold what the model does not know.
"""

from heapq import heappush, heapreplace

from wardround.text.document import Placed
from wardround.text.prediction import Prediction


class LeastSure:
    """So many texts with their predictions."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._heap: list[tuple[float, int, Placed, Prediction]] = []
        self._count = 0

    def take(self, placed: Placed, prediction: Prediction) -> None:
        """One more text; of two that are as sure the first is kept."""
        self._count += 1
        item = (-prediction.certainty, -self._count, placed, prediction)
        if len(self._heap) < self.most:
            heappush(self._heap, item)
        elif item > self._heap[0]:
            heapreplace(self._heap, item)

    def texts(self) -> list[tuple[Placed, Prediction]]:
        """The least sure first."""
        return [(placed, prediction) for _, _, placed, prediction in sorted(self._heap, reverse=True)]
