"""Serial and vectorised local training on the device at hand: seconds a round, and their ratio."""

from time import perf_counter

import pytest
import torch
from populations import cifar_shaped, moved

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.task import make_task

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("cohort", [5, 20])
@pytest.mark.parametrize("shape", [(64,), (1, 8, 8), (3, 32, 32)], ids=["dense", "small", "lenet"])
@pytest.mark.parametrize("name", ["fedavg", "pfedme"])
def test_round(benchmark, name, shape, cohort):
    """The vectorised path's time; ``serial_over_vectorised`` says how much faster it was."""
    clients = cifar_shaped(40, 64, 0, shape=shape, dtype=torch.float32)
    clients, task = moved(clients, DEVICE), make_task(input_shape=shape, n_classes=10)
    steps = 4 if len(shape) == 3 and shape[1] == 32 else 20
    config = TrainConfig(rounds=1, cohort=cohort, local_steps=steps, batch_size=32)

    def run(path: str) -> None:
        train(make_method(name), task, clients, config, seed=0, path=path)

    benchmark.pedantic(run, args=("vectorised",), rounds=5, warmup_rounds=1)
    seconds = []
    for _ in range(5):
        started = perf_counter()
        run("serial")
        seconds.append(perf_counter() - started)
    if benchmark.stats is not None:
        benchmark.extra_info["device"] = DEVICE
        benchmark.extra_info["threads"] = torch.get_num_threads()
        ratio = min(seconds) / benchmark.stats["min"]
        benchmark.extra_info["serial_over_vectorised"] = ratio
