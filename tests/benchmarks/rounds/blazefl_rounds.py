"""FedAvg rounds by BlazeFL's own trainers: a program for a Python that has BlazeFL, not latecomer.

``python blazefl_rounds.py CLIENTS SAMPLES BATCH WORKERS`` reads the name of a trainer a line
("serial", "threads", "processes"), trains one round by it and answers with the clock's seconds.
Clients' samples lie in memory, where BlazeFL's processes find them without a copy; its examples
read them from files, which takes longer.
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseClientTrainer,
    FedAvgBaseServerHandler,
    FedAvgProcessPoolClientTrainer,
    FedAvgThreadPoolClientTrainer,
)
from blazefl.core import IPCMode
from torch.utils.data import DataLoader, TensorDataset
from users_net import lenet

LR = 0.05
SAMPLES: list[TensorDataset] = []
"""Every client's; processes of the pool are forked and have it."""


class Partition:
    """Clients' samples in batches, as BlazeFL asks for them."""

    def get_dataloader(self, type_: Any, cid: int, batch_size: int, generator: Any) -> DataLoader:
        """Return shuffled batches of one client."""
        return DataLoader(SAMPLES[cid], batch_size, shuffle=True, generator=generator)

    def set_dataset(self, type_: Any, cid: int, dataset: Any) -> None:
        """Keep nothing: what trainers give back is what they were given."""


class Nets:
    """The one net there is."""

    def select_model(self, model_name: str) -> torch.nn.Module:
        """Make it."""
        return lenet()


def main(clients: int, samples: int, batch: int, workers: int) -> None:
    """Answer until the input ends."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    for _ in range(clients):
        x = torch.randn(samples, 3, 32, 32, generator=rng)
        SAMPLES.append(TensorDataset(x, torch.randint(0, 10, (samples,), generator=rng)))
    federation = {"model_selector": Nets(), "model_name": "lenet", "dataset": Partition()}
    federation |= {"num_clients": clients, "device": "cpu", "batch_size": batch, "seed": 0}
    local = federation | {"epochs": 1, "lr": LR}
    server = FedAvgBaseServerHandler(**federation, global_round=10**9, sample_ratio=1.0)
    with tempfile.TemporaryDirectory() as folder:
        places = {"share_dir": Path(folder, "shared"), "state_dir": Path(folder, "states")}
        trainers = {
            "serial": FedAvgBaseClientTrainer(**local),
            "threads": FedAvgThreadPoolClientTrainer(**local, num_parallels=workers),
            "processes": FedAvgProcessPoolClientTrainer(
                **local, **places, num_parallels=workers, ipc_mode=IPCMode.SHARED_MEMORY
            ),
        }
        for line in sys.stdin:
            begun = perf_counter()
            trainer = trainers[line.strip()]
            trainer.local_process(server.downlink_package(), server.sample_clients())
            packages = trainer.uplink_package()
            trained = [server.load(package) for package in packages]
            if len(packages) != clients or trained.count(True) != 1:
                raise RuntimeError(f"{line.strip()}: {len(packages)} clients of {clients} trained")
            print(perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
