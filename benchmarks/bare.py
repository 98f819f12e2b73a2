"""The work that all take turns at, and how one would write it without any toolkit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["StateDict", "Turn", "Work", "bare"]

StateDict = dict[str, Tensor]


@dataclass(frozen=True)
class Turn:
    """One site's part in a round: its name, and the seed that shuffles its examples."""

    site: str
    seed: int


@dataclass(frozen=True)
class Work:
    """Local steps of SGD at some sites per round, from the same start, on the same batches, for everyone."""

    model: Callable[[], nn.Module]
    start: StateDict
    data: Mapping[str, tuple[Tensor, Tensor]]
    """Each site's inputs and labels."""
    plan: Sequence[Sequence[Turn]]
    """Who takes part, round by round."""
    lr: float
    batch: int
    steps: int

    def shuffled(self, turn: Turn, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The site's inputs and labels in the order of this turn."""
        inputs, labels = self.data[turn.site]
        order = torch.randperm(len(labels), generator=generator.manual_seed(turn.seed))
        return inputs[order], labels[order]

    def train(self, model: nn.Module, turn: Turn, generator: torch.Generator) -> int:
        """One site's local steps; the number of its examples."""
        inputs, labels = self.shuffled(turn, generator)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.lr)
        model.train()
        for start in range(0, self.steps * self.batch, self.batch):
            optimizer.zero_grad()
            scores = model(inputs[start : start + self.batch])
            loss = functional.cross_entropy(scores, labels[start : start + self.batch])
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
            optimizer.step()
        return len(labels)


def bare(work: Work) -> StateDict:
    """Federated averaging as a plain loop: load, train, average."""
    model, generator, weights = work.model(), torch.Generator(), work.start
    for turns in work.plan:
        trained: list[tuple[int, StateDict]] = []
        for turn in turns:
            model.load_state_dict(weights)
            examples = work.train(model, turn, generator)
            trained.append((examples, {name: value.clone() for name, value in model.state_dict().items()}))
        total = sum(examples for examples, _ in trained)
        weights = {
            name: torch.stack([state[name] * (examples / total) for examples, state in trained]).sum(0)
            for name in weights
        }
    return weights
