"""The same work in other simulators, as their own examples write it: Flower and Apple's pfl.

    pip install "flwr[simulation]" pfl

Each is imported only when it is asked for; without it there is nothing to compare. Neither may call home.
"""

import importlib.util
import itertools
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bare import StateDict, Turn, Work
from cases import HERE, work_again

__all__ = ["flower", "installed", "pfl"]

SECONDS = 600.0  # Flower's time-out for one round


def installed(name: str) -> bool:
    """Whether there is such a package, and for Flower its simulator too."""
    needed = {"flwr": ("flwr", "ray")}.get(name, (name,))
    return all(importlib.util.find_spec(package) is not None for package in needed)


def pfl(work: Work) -> Callable[[], StateDict]:
    """One run in pfl's `SimulatedBackend`, in this process."""
    os.environ.setdefault("PFL_PYTORCH_DEVICE", "cpu")  # saves it looking for a GPU at every batch
    from pfl.aggregate.simulate import SimulatedBackend  # noqa: PLC0415 -- only if installed
    from pfl.aggregate.weighting import WeightByDatapoints  # noqa: PLC0415
    from pfl.algorithm.base import NNAlgorithmParams  # noqa: PLC0415
    from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: PLC0415
    from pfl.data.federated_dataset import FederatedDataset  # noqa: PLC0415
    from pfl.data.pytorch import PyTorchTensorDataset  # noqa: PLC0415
    from pfl.hyperparam import NNTrainHyperParams  # noqa: PLC0415
    from pfl.metrics import Weighted  # noqa: PLC0415
    from pfl.model.pytorch import PyTorchModel  # noqa: PLC0415

    class Scored(nn.Module):
        """The model with the two methods that pfl calls; nothing is evaluated."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = work.model()

        def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
            """What is trained."""
            return functional.cross_entropy(self.inner(inputs), labels)

        def metrics(self, *_: Tensor) -> dict[str, Any]:
            """What the first round insists on measuring, at no cost."""
            return {"nothing": Weighted(0, 1)}

    generator = torch.Generator()
    training = NNTrainHyperParams(
        local_batch_size=work.batch, local_num_epochs=None, local_num_steps=work.steps, local_learning_rate=work.lr
    )
    rounds = NNAlgorithmParams(
        central_num_iterations=len(work.plan),
        evaluation_frequency=len(work.plan) + 1,
        train_cohort_size=len(work.plan[0]),
        val_cohort_size=None,
    )

    def run() -> StateDict:
        scored = Scored()
        scored.inner.load_state_dict(work.start)
        model = PyTorchModel(scored, torch.optim.SGD, torch.optim.SGD(scored.parameters(), lr=1.0))
        turns: Iterator[Turn] = itertools.chain.from_iterable(work.plan)
        data = FederatedDataset(
            lambda turn: PyTorchTensorDataset(work.shuffled(turn, generator), user_id=turn.site), lambda: next(turns)
        )
        backend = SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()])
        FederatedAveraging().run(rounds, backend, model, training, send_metrics_to_platform=False)
        return {name: value.clone() for name, value in scored.inner.state_dict().items()}

    return run


def flower(
    case: str, work: Work, before: Callable[[], float], repeats: int, *, quick: bool
) -> tuple[list[tuple[float, float]], StateDict]:
    """Pairs of seconds (`before`, then a run in Flower's simulator on two actors), and the last run's weights.

    The simulator owns its process while it runs, so it is started once, and the bare loop it is compared with
    runs inside it, before each run of its own. Its start is not counted; the first run is not either. Actors make
    their own copy of the data, once: whatever an app's functions refer to is sent to them with every message.
    """
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict  # noqa: PLC0415
    from flwr.clientapp import ClientApp  # noqa: PLC0415
    from flwr.serverapp import ServerApp  # noqa: PLC0415
    from flwr.simulation import run_simulation  # noqa: PLC0415

    logging.getLogger("flwr").setLevel(logging.ERROR)
    names = sorted(work.data)
    pairs: list[tuple[float, float]] = []
    final: list[StateDict] = []
    client, server = ClientApp(), ServerApp()

    @client.query()
    def who(message: Any, context: Any) -> Any:
        """Which site this node plays."""
        content = RecordDict({"who": ConfigRecord({"partition": context.node_config["partition-id"]})})
        return Message(content, reply_to=message)

    @client.train()
    def fit(message: Any, _: Any) -> Any:
        """One site's local steps."""
        torch.set_num_threads(1)
        mine = work_again(case, quick=quick)
        turn = Turn(message.content["turn"]["site"], int(message.content["turn"]["seed"]))
        model = mine.model()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        examples = mine.train(model, turn, torch.Generator())
        metrics = MetricRecord({"examples": examples})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    def once(grid: Any, nodes: dict[str, int]) -> StateDict:
        weights = work.start
        for round_, turns in enumerate(work.plan, 1):
            arrays = ArrayRecord(weights)
            records = [(turn, ConfigRecord({"site": turn.site, "seed": str(turn.seed)})) for turn in turns]
            messages = [
                Message(RecordDict({"arrays": arrays, "turn": turn}), nodes[site.site], "train", group_id=str(round_))
                for site, turn in records
            ]
            replies = list(grid.send_and_receive(messages, timeout=SECONDS))
            examples = [reply.content["metrics"]["examples"] for reply in replies]
            states = [reply.content["arrays"].to_torch_state_dict() for reply in replies]
            weights = {
                name: torch.stack(
                    [state[name] * (count / sum(examples)) for count, state in zip(examples, states, strict=True)]
                ).sum(0)
                for name in weights
            }
        return weights

    @server.main()
    def main(grid: Any, _: Any) -> None:
        """Learn which node is which site, then take turns."""
        while len(list(grid.get_node_ids())) < len(names):
            time.sleep(0.1)
        asked = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
        found = grid.send_and_receive(asked, timeout=SECONDS)
        nodes = {names[reply.content["who"]["partition"]]: reply.metadata.src_node_id for reply in found}
        once(grid, nodes)
        for _repeat in range(repeats):
            alone = before()
            began = time.perf_counter()
            weights = once(grid, nodes)
            pairs.append((alone, time.perf_counter() - began))
        final.append(weights)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_simulation(
            server_app=server,
            client_app=client,
            num_supernodes=len(names),
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"num_cpus": 2, "log_to_driver": False, "logging_level": "error"},
            },
        )
    return pairs, final[0]
