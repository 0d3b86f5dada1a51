"""Clients described by an encoder of unlabelled inputs, whose models a hypernetwork makes."""

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import choice, number, size
from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm, local_sgd
from latecomer.models.engine.method import Method, Start
from latecomer.models.engine.newcomers import Messages
from latecomer.models.engine.optimizers import adamw, adamw_memory, sgd, sgd_memory
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.embedded_clients import Rule, moved
from latecomer.models.generators.hypernetworks import encoder_messages, hypernetwork, pull_back
from latecomer.models.generators.unlabelled_encoders import (
    BatchAveraged,
    SetEncoder,
    set_encoder_named,
)
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, leaves, nest, part
from latecomer.models.task.task import Task


def weights(task: Task, table: Params, descriptors: Tensor) -> Params:
    """Return the weights that section ``hyper`` of a table makes from descriptors ``[c, dim]``."""
    return hypernetwork(task, descriptors.shape[1])(part(table, "hyper"), descriptors)


_MEAN = "mean"
"""Section of the server's table with the networks' running means."""


@dataclass(frozen=True, kw_only=True)
class DescribedClients(Method, ABC):
    """An encoder of unlabelled inputs and a hypernetwork make each client's weights.

    A client is described by all its samples at once. Three defaults depart from OD-PFL (a fourth
    departure, ``undescribed``, is off unless asked for). With the paper's ``standardise: none`` and
    ``server_optimizer: sgd`` descriptors hardly differ between clients, and neither do the models
    made from them: every client is served the same one. With the paper's ``averaging: 0`` errors
    swing by ten points from round to round. The paper searched rates and stopped early; our
    defaults replace that.

    Attributes
    ----------
    server_optimizer : str
        Of hypernetwork and encoder: ``adam`` (AdamW; ours) or ``sgd`` (the paper's).
    server_lr : float or None
        Its rate; None: 2e-4 for ``adam``, 1e-2 for ``sgd``.
    server_momentum, server_weight_decay, clip_norm : float
        Its momentum (``sgd`` alone), decay and clipping; they hold for embeddings too.
    standardise : str
        ``first_cohort`` (ours): every coordinate of a descriptor is standardised by its mean and
        standard deviation over the clients of the first round, once and for all (a deviation is
        at least a quarter of the deviations' root mean square). ``none`` (the paper's). Training in
        two phases never standardises: there a descriptor predicts an embedding.
    averaging : float
        Decay of the running mean of hypernetwork and encoder over rounds, which serves clients
        (ours; in round t it is at most ``(1 + t) / (10 + t)``); 0: the last networks serve them.
    local_lr, local_momentum, local_weight_decay : float
        The local step.
    descriptor_dim : int or None
        Length of a descriptor; None: ``floor(n / 4)`` with n seen clients, at least 1. The paper
        counts all clients, which a method does not know: for its length, set it.
    encoder : str
        ``deepsets`` (mean and max), ``unit-deepsets`` (unit mean), ``dss``, ``set-transformer``.
    pooled_units : int
        Pooled units of either DeepSets.
    encoder_batch : int or None
        Samples that the encoder sees at a time; descriptors of a client's batches are averaged by
        their sizes (B.1, for data that do not fit into memory). Batches follow the order of the
        client's samples, which a split draws at random. None: all at once.
    undescribed : float
        Largest share of a client's samples that its description in training leaves out; each time a
        share below it, and the samples, are drawn anew (ours). In serving, all samples describe a
        client. With a few dozen clients, an encoder that sees the same sets again and again
        memorises them; subsets make more sets. 0: all samples in training too (the paper's).
    """

    server_optimizer: str = choice("adam", "sgd")
    server_lr: float | None = number(None, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    standardise: str = choice("first_cohort", "none")
    averaging: float = number(0.95, least=0, below=1)
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    descriptor_dim: int | None = size(None)
    encoder: str = choice("deepsets", "unit-deepsets", "dss", "set-transformer")
    pooled_units: int = size(200, least=2)
    encoder_batch: int | None = size(None)
    undescribed: float = number(0.0, least=0, below=1)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def stepped(self, weights: Params, slopes: Params, memory: Params) -> tuple[Params, Params]:
        """Take the server's step on hypernetwork and encoder; return them and its memory."""
        rate, decay = self.server_lr, self.server_weight_decay
        if self.server_optimizer == "adam":
            rate = 2e-4 if rate is None else rate
            return adamw(weights, slopes, memory, lr=rate, weight_decay=decay)
        rate = 1e-2 if rate is None else rate
        return sgd(weights, slopes, memory, rate, self.server_momentum, decay)

    def check_target(self, task: Task) -> None:
        """Raise ``ValueError`` if the server would make more weights than the task allows."""
        hypernetwork(task, 1)

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the descriptor of the inputs of a client's whole support, without noise."""
        return self.described(task, served(state.server), [support.x])[0].detach()

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the encoder and the model down, the descriptor up."""
        return encoder_messages(task, state.server)

    def averaged(self, state: State, number: int) -> State:
        """Return the state with the running mean of the networks after round ``number``."""
        if not self.averaging:
            return state
        decay = min(self.averaging, (1 + number) / (10 + number))
        mean = {
            key: old.lerp(state.server[key], 1 - decay)
            for key, old in part(state.server, _MEAN).items()
        }
        return State(state.server | nest(_MEAN, mean), state.clients)

    def beginning(self, eta: Params) -> Params:
        """Return the networks with the first memory of optimizer and running mean."""
        mean = nest(_MEAN, eta) if self.averaging else {}
        memory = adamw_memory(eta) if self.server_optimizer == "adam" else sgd_memory(eta)
        return eta | nest("optimizer", memory) | mean

    def moving(self, state: State, phase: str) -> Params:
        """Return what a change is pulled back to: both networks, in turns the hypernetwork."""
        sections = ("hyper", "encoder") if phase == "train" else ("hyper",)
        return leaves({k: v for k, v in state.server.items() if k.split(".")[0] in sections})

    def predicting(
        self, task: Task, table: Params, x: Tensor, goal: Tensor, lr: float, steps: int
    ) -> Params:
        """Return the encoder after a client's local steps down ``|descriptor - goal|^2``."""

        def objective(encoder: Params, _: int) -> Tensor:
            told = self.described(task, table | nest("encoder", encoder), [x])
            return (told[0] - goal).square().sum()

        encoder, rule = part(table, "encoder"), replace(self.local, lr=lr)
        return local_sgd(objective, encoder, n_steps=steps, rule=rule)[0]

    def learnt(
        self, state: State, cohort: Cohort, start: Start, uploads: Params, rule: Rule
    ) -> State:
        """Pull changes back and take a step on what moves, embeddings by ``rule``; all else stays.

        The start's memory are leaves, weights made from them and the encoder as clients trained it.
        The gradients of networks, means over the cohort, and of embeddings are clipped together.
        """
        moving, made, trained = start.memory
        summed = zip(moving, pull_back(made, uploads, [*moving.values()]), strict=True)
        slopes = {key: s if key == "embedding" else s / len(cohort) for key, s in summed}
        slopes = dict(zip(slopes, clip_by_norm([*slopes.values()], self.clip_norm), strict=True))
        clients, server = state.clients, dict(state.server)
        if cohort.phase == "embeddings":
            of_embeddings = slopes.pop("embedding")
            clients = moved(clients, cohort.members, of_embeddings, rule, resting="move")
            server |= nest("encoder", trained)
        networks = {key: moving[key] for key in slopes}
        stepped, memory = self.stepped(networks, slopes, part(state.server, "optimizer"))
        after = State({**server, **stepped, **nest("optimizer", memory)}, clients)
        return self.averaged(after, cohort.round)

    def described(self, task: Task, table: Params, sets: Iterable[Tensor]) -> Tensor:
        """Return the descriptors of sets ``[b, ...]``, as the hypernetwork is given them."""
        return standardised(self.embed(task, table, sets), table)

    def sampled(self, x: Tensor, generator: Generator) -> Tensor:
        """Return the samples ``[b, ...]`` by which a client is described in a round."""
        if not self.undescribed:
            return x
        share = 1 - self.undescribed * float(torch.rand((), generator=generator))
        kept = torch.randperm(len(x), generator=generator)[: max(1, round(share * len(x)))]
        return x[kept.to(x.device, non_blocking=True)]

    def embed(self, task: Task, table: Params, sets: Iterable[Tensor]) -> Tensor:
        """Return the encoder's outputs ``[c, dim]`` for sets ``[b, ...]`` of any sizes."""
        dim = table["hyper.trunk0.weight"].shape[1]
        encode, weights = self.net(task, dim), part(table, "encoder")
        return torch.cat([encode(weights, x[None]) for x in sets])

    def net(self, task: Task, dim: int) -> SetEncoder:
        """Return the encoder."""
        net = set_encoder_named(self.encoder, task, dim, self.pooled_units)
        return net if self.encoder_batch is None else BatchAveraged(net, self.encoder_batch)

    def scale(self, task: Task, table: Params, clients: Clients, first: Cohort) -> Params:
        """Return mean and standard deviation ``[dim]`` over the first cohort's descriptors.

        Over a handful of clients a coordinate may hardly vary by chance, and dividing by its
        deviation would blow up the descriptors of other clients. So no deviation is taken below a
        quarter of the deviations' root mean square.
        """
        sets = (clients.support_of(index).x for index in first.on_host())
        with torch.no_grad():
            descriptors = self.embed(
                task, {k: v.to(clients.device) for k, v in table.items()}, sets
            )
        if len(descriptors) == 1:
            return {"mean": descriptors[0], "sd": torch.ones_like(descriptors[0])}
        sd = descriptors.std(dim=0)
        sd = sd.clamp_min(float(sd.square().mean().sqrt()) / 4)
        # If all descriptors are equal there is nothing to scale by.
        sd = torch.where(sd > 0, sd, torch.ones_like(sd))
        return {"mean": descriptors.mean(dim=0), "sd": sd}


def served(table: Params) -> Params:
    """Return the table that serves clients: its running means in place of the networks."""
    return {**table, **part(table, _MEAN)}


def standardised(descriptors: Tensor, table: Params) -> Tensor:
    """Scale raw descriptors ``[c, dim]`` by a table's mean and deviation, if it has them."""
    if "descriptor.mean" not in table:
        return descriptors
    return (descriptors - table["descriptor.mean"]) / table["descriptor.sd"]
