"""FedAvg by Flower's simulation and by the engine in turns: prints their seconds as JSON.

``python flower_rounds.py ROUNDS WORKERS``. Flower starts worker processes by Ray, so that this is a
program of its own; the engine trains between Flower's rounds, in the function that Flower calls to
evaluate on the server. Times are the clock's.
"""

import json
import os
import sys
from time import perf_counter

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch
from bench_fedavg_round import CONFIG, LR
from contestants import engine
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from populations import cifar_shaped, kept_samples, lenet_task
from torch.nn import functional as F
from users_net import lenet

from latecomer.models.methods import make_method

CLIENTS, SUPPORT = 1_000, 50


def main(rounds: int, workers: int) -> None:
    """Run both in turns."""
    seconds: dict[str, list[float]] = {"engine": [], "flower": []}
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        x, y = kept_samples(CLIENTS, SUPPORT)
        number = int(context.node_config["partition-id"])
        rows = torch.arange(number * SUPPORT, (number + 1) * SUPPORT)
        net = lenet()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=LR)
        for batch in rows[torch.randperm(SUPPORT)].split(CONFIG.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
        reply = RecordDict(
            {
                "arrays": ArrayRecord(net.state_dict()),
                "metrics": MetricRecord({"num-examples": SUPPORT}),
            }
        )
        return Message(content=reply, reply_to=message)

    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        method = make_method("fedavg", local_lr=LR, local_momentum=0.0, local_weight_decay=0.0)
        task = lenet_task()
        with engine(method, task, cifar_shaped(CLIENTS, SUPPORT, 1), CONFIG) as ours:
            ours()
            last = perf_counter()

            def between(number: int, arrays: ArrayRecord) -> None:
                nonlocal last
                seconds["flower"].append(perf_counter() - last)
                started = perf_counter()
                ours()
                last = perf_counter()
                seconds["engine"].append(last - started)

            share = CONFIG.cohort / CLIENTS
            strategy = FedAvg(fraction_train=share, fraction_evaluate=0.0)
            strategy.start(
                grid=grid,
                initial_arrays=ArrayRecord(lenet().state_dict()),
                train_config=ConfigRecord({}),
                num_rounds=rounds,
                evaluate_fn=between,
            )

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": workers, "include_dashboard": False},
        },
    )
    # Before the first round Flower calls the function too, and the first starts the workers.
    print(json.dumps({name: values[2:] for name, values in seconds.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
