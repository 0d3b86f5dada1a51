"""Flower: hold clients out of training, ask each for one loss, and certify the model."""

import os

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")

import random
import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from sklearn.datasets import load_digits

from latecomer import certify_losses

CLIENTS, HELD_OUT, ASKED, ROUNDS = 30, 20, 10, 5
client, server = ClientApp(), ServerApp()


# shown as held-out:
class WithoutHeldOut:
    """A grid on which a strategy, whichever it is, finds all nodes but those held out."""

    def __init__(self, grid, held_out):
        self.grid, self.held_out = grid, set(held_out)

    def get_node_ids(self):
        """Return the nodes that may train."""
        return [node for node in self.grid.get_node_ids() if node not in self.held_out]

    def __getattr__(self, name):
        """Leave all else to the grid itself."""
        return getattr(self.grid, name)


def losses_of(grid, nodes, arrays):
    """Send the model to nodes and return their losses; who does not answer has the worst one."""
    sent = RecordDict({"arrays": arrays})
    asked = [Message(sent, dst_node_id=node, message_type=MessageType.EVALUATE) for node in nodes]
    told = [one for one in grid.send_and_receive(asked, timeout=600) if not one.has_error()]
    answers = {one.metadata.src_node_id: one.content["metrics"]["loss"] for one in told}
    return {node: answers.get(node, 1.0) for node in nodes}


def write(losses, path):
    """Write one line a client, as ``latecomer certify`` reads them."""
    lines = [f"{node},{loss!r}\n" for node, loss in losses.items()]
    with open(path, "w") as file:
        file.writelines(["client,loss\n", *lines])


# end of held-out


@server.main()
def certify(grid: Grid, context: Context) -> None:
    """Train on a third of the nodes, and certify the model on half of the others."""
    start = ArrayRecord([np.zeros((64, 10))])
    strategy = FedAvg(fraction_evaluate=0.0)
    while len(nodes := list(grid.get_node_ids())) < CLIENTS:
        time.sleep(1)  # until all have connected
    # shown as user:
    held_out = random.sample(nodes, HELD_OUT)  # before anything is trained
    training = WithoutHeldOut(grid, held_out)
    model = strategy.start(training, initial_arrays=start, num_rounds=ROUNDS).arrays
    losses = losses_of(grid, held_out[:ASKED], model)  # each of these is asked once, here
    write(losses, "losses.csv")
    print(certify_losses("losses.csv", pool_size=HELD_OUT, rule="product"))  # of one data set
    # end of user


def points(context):
    """Return a client's share of the digits: images of 64 pixels, and labels."""
    x, y = load_digits(return_X_y=True)
    own = np.random.default_rng(0).permutation(len(x)) % CLIENTS
    mine = own == context.node_config["partition-id"]
    return x[mine] / 16, y[mine]


@client.train()
def train(message: Message, context: Context) -> Message:
    """Take gradient steps of logistic regression."""
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    x, y = points(context)
    for _ in range(20):
        odds = np.exp(x @ weights)
        weights = weights - x.T @ (odds / odds.sum(axis=1, keepdims=True) - np.eye(10)[y]) / len(x)
    context.state["trained"] = MetricRecord({"rounds": 1})
    reply = {"arrays": ArrayRecord([weights]), "metrics": MetricRecord({"num-examples": len(x)})}
    return Message(RecordDict(reply), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Return the share of the client's images that the model gets wrong."""
    if "trained" in context.state:
        raise RuntimeError("a client that trained must not be certified with")
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    x, y = points(context)
    wrong = float((np.argmax(x @ weights, axis=1) != y).mean())
    return Message(RecordDict({"metrics": MetricRecord({"loss": wrong})}), reply_to=message)


if __name__ == "__main__":
    run_simulation(server, client, num_supernodes=CLIENTS)
