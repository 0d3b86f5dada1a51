"""FedAvg by the package ``pfl`` in its own CIFAR-10 benchmark's setting, a round at a time."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from contestants import RoundByRound
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.task.clients import Clients


class Scored(nn.Module):
    """A net with the two functions that pfl asks of a model."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Apply the net."""
        return self.net(x)

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:  # noqa: A002
        """Return the cross-entropy."""
        return F.cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Any]:  # noqa: A002
        """Return nothing of interest: no round is evaluated."""
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


class _Pause(TrainingProcessCallback):
    def __init__(self, pause: Callable[..., None]) -> None:
        self._pause = pause

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Wait until another round is asked for."""
        self._pause()
        return False, Metrics()


def pfl(
    net: nn.Module, clients: Clients, *, cohort: int, batch_size: int, lr: float
) -> RoundByRound:
    """Return pfl's simulation: data in memory as tensors, one process, no evaluation."""
    set_framework_module(pytorch_ops)
    x, y = clients.inputs(torch.arange(len(clients.x))), clients.y
    users = {
        client: Dataset((x[rows].clone(), y[rows].clone()), user_id=client)
        for client, rows in enumerate(clients.support)
    }
    data = FederatedDataset(users.__getitem__, get_user_sampler("random", list(users)))
    model = Scored(net)
    backend = SimulatedBackend(training_data=data, val_data=data, postprocessors=[])

    def simulate(pause: Callable[..., None]) -> None:
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=10**6,
                evaluation_frequency=10**7,
                train_cohort_size=cohort,
                val_cohort_size=0,
            ),
            backend=backend,
            model=PyTorchModel(
                model=model,
                local_optimizer_create=torch.optim.SGD,
                central_optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            ),
            model_train_params=NNTrainHyperParams(
                local_num_epochs=1, local_learning_rate=lr, local_batch_size=batch_size
            ),
            callbacks=[_Pause(pause)],
            send_metrics_to_platform=False,
        )

    def run(pause: Callable[..., None]) -> None:
        # pfl asks asyncio for the loop of its thread, which only the main thread has by itself.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            simulate(pause)
        finally:
            loop.close()

    np.random.seed(0)  # noqa: NPY002 (pfl draws cohorts from numpy's global generator)
    return RoundByRound(run)
