"""Serving seen and new clients, and scoring the models they were served.

One after another, on a CPU: consecutive clients that get the same model are predicted together,
which saves calls. Scores are identical, to the last digit, to serving and predicting each client
separately.

Side by side, on devices that one client would leave idle: scores are the same as client by client,
up to rounding of losses. The method serves client by client; the host waits for the device once per
group, after queueing all work.

A seen client is served from its own state; any other client by the method's declared protocol,
from its support data alone. Query data are read only to score the predictions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.label_shift import Reweigh, corrected
from latecomer.eval.scoring.scores import ClientScore
from latecomer.models.engine.method import FixedWeights, Method, Predictor, versions
from latecomer.models.engine.threads import each, thread_count
from latecomer.models.task import client_axis
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State, stack
from latecomer.models.task.targets import apply_to_parts
from latecomer.models.task.task import Task

Mask = Callable[[Tensor, Tensor], Tensor]
"""Changes the logits of unknown classes: (logits, mask of known classes) -> logits."""


def unmasked(logits: Tensor, known: Tensor) -> Tensor:
    """Return the logits unchanged: a mask that does not need the known classes."""
    return logits


Serve = Callable[[Sequence[int], Sequence[Samples]], Iterable[Predictor]]
"""Maps several clients' numbers and supports to their predictors."""

_SERVED = 20, 2**23
"""Most clients served at a time, and most values in their support inputs."""
_PREDICTED = 1_000
"""Most samples predicted at a time, unless one client has more."""
_AT_A_TIME = 20
"""Most models that several threads predict with before more clients are served."""
_HELD = 2**24
"""Most weights of models that are kept to be scored on further query data, unless one has more."""

Served = tuple[int, Tensor]
"""A client's number, and the rows on which it is measured."""


def score_one_after_another(
    task: Task, clients: Clients, serve: Serve, mask: Mask, *, on_support: bool = False
) -> list[ClientScore]:
    """Serve and score every client; the arguments are those of ``score_side_by_side``."""
    return _scored(task, clients, served(task, clients, serve, on_support), mask)


def score_on_each(
    task: Task, tables: Sequence[Clients], serve: Serve, mask: Mask
) -> list[list[ClientScore]]:
    """Serve clients once and score them on the query data of every table.

    The scores are those of scoring one table after another. Tables hold the same clients with the
    same supports.
    """
    scores: list[list[ClientScore]] = [[] for _ in tables]
    n_weights = sum(map(prod, task.shapes.values()))
    at_a_time = min(max(_HELD // n_weights, 1), _AT_A_TIME)
    for places, supports in _supports(task, tables[0]):
        models = zip(places, serve(places, supports), strict=True)
        while few := [*islice(models, at_a_time)]:
            for clients, own in zip(tables, scores, strict=True):
                rows, sizes = clients.query, clients.sizes_on_host[1]
                pairs = [(model, (place, rows[place, : sizes[place]])) for place, model in few]
                own += _scored(task, clients, pairs, mask)
    return scores


def _scored(
    task: Task, clients: Clients, pairs: Iterable[tuple[Predictor, Served]], mask: Mask
) -> list[ClientScore]:
    """Score models on the rows of their clients."""
    ids = clients.ids.tolist()
    scores: list[ClientScore] = []

    def told(group: tuple[Predictor, list[Served]]) -> list[list[tuple[int, float]]]:
        model, together = group
        return [_told(task, clients, one, together, mask) for one in versions(model)]

    groups = _by_model(pairs)
    while several := [*islice(groups, _AT_A_TIME if thread_count() > 1 else 1)]:
        for (_, together), answers in zip(
            several, each(told, several, apart=_apart(task, several)), strict=True
        ):
            for (place, rows), *found in zip(together, *answers, strict=True):
                wrong, loss = (sum(numbers) / len(numbers) for numbers in zip(*found, strict=True))
                n_support = clients.sizes_on_host[0][place]
                scores.append(ClientScore(ids[place], n_support, len(rows), wrong, loss))
    return scores


def _apart(task: Task, groups: Sequence[tuple[Predictor, list[Served]]]) -> bool:
    """Tell whether models predict in several threads: only such as are known to allow it."""
    if thread_count() == 1 or not all(isinstance(model, FixedWeights) for model, _ in groups):
        return False
    n_samples = [sum(len(rows) for _, rows in together) for _, together in groups]
    return task.gains_from_threads(min(n_samples))


def served(
    task: Task, clients: Clients, serve: Serve, on_support: bool = False
) -> Iterator[tuple[Predictor, Served]]:
    """Yield each predictor with its client, serving several clients at a time."""
    table, sizes = clients.query, clients.sizes_on_host[1]
    if on_support:
        table, sizes = clients.support, clients.sizes_on_host[0]
    for places, supports in _supports(task, clients):
        for place, model in zip(places, serve(places, supports), strict=True):
            yield model, (place, table[place, : sizes[place]])


def _supports(task: Task, clients: Clients) -> Iterator[tuple[range, list[Samples]]]:
    """Yield the numbers and supports of clients that are served at a time."""
    most, numbers = _SERVED
    each = numbers // (clients.support.shape[1] * prod(task.input_shape))
    for first in range(0, len(clients), step := min(max(each, 1), most)):
        places = range(first, min(first + step, len(clients)))
        yield places, [clients.support_of(place) for place in places]


def _by_model(
    pairs: Iterable[tuple[Predictor, Served]],
) -> Iterator[tuple[Predictor, list[Served]]]:
    """Yield each model with the consecutive clients that can be predicted together."""
    model: Predictor | None = None
    together: list[Served] = []
    size = 0
    for made, one in pairs:
        n_samples = len(one[1])
        if model is not None and (size + n_samples > _PREDICTED or not _same(model, made)):
            yield model, together
            together, size = [], 0
        model = made
        together.append(one)
        size += n_samples
    if model is not None:
        yield model, together


def _same(one: Predictor, other: Predictor) -> bool:
    """Return whether two predictors share one net and its weight tensors, not just equal values."""
    if one is other:
        return True
    if not (isinstance(one, FixedWeights) and isinstance(other, FixedWeights)):
        return False
    pairs = zip(one.weights.values(), other.weights.values(), strict=True)
    return one.task is other.task and all(a.is_set_to(b) for a, b in pairs)


def _told(
    task: Task, clients: Clients, model: Predictor, together: Sequence[Served], mask: Mask
) -> list[tuple[int, float]]:
    """Return each client's number of wrongly classified samples and its mean loss."""
    rows, sizes = torch.cat([rows for _, rows in together]), [len(rows) for _, rows in together]
    with torch.no_grad():
        several = _logits_in_turn(model, clients.inputs(rows), sizes)
        logits, y = torch.cat(several), clients.labels(rows)
        if mask is not unmasked:
            known = [
                known_classes(task, clients.support_of(place)).expand(size, -1)
                for (place, _), size in zip(together, sizes, strict=True)
            ]
            logits = mask(logits, torch.cat(known))
        wrong = torch.split(misclassified(logits, y), sizes)
        pairs = zip(several, torch.split(y, sizes), strict=True)
        losses = [float(torch.nn.functional.cross_entropy(*pair)) for pair in pairs]
    return [(sum(one.tolist()), loss) for one, loss in zip(wrong, losses, strict=True)]


def misclassified(logits: Tensor, y: Tensor) -> Tensor:
    """Return which samples are classified wrongly, ``[..., n]``; NaN is no class, nor the first.

    >>> misclassified(torch.tensor([[2.0, 1.0], [torch.nan, 1.0]]), torch.tensor([0, 0])).tolist()
    [False, True]
    """
    chosen = logits.argmax(dim=-1, keepdim=True)
    wrong = (chosen != y.unsqueeze(-1)) | logits.gather(-1, chosen).isnan()
    return wrong.squeeze(-1)


def known_classes(task: Task, own: Samples) -> Tensor:
    """Return which classes occur among some samples' labels, bool ``[n_classes]``."""
    labels = own.labels()
    known = torch.zeros(task.n_classes, dtype=torch.bool, device=labels.device)
    known[labels] = True
    return known


def _logits_in_turn(model: Predictor, x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Return a model's logits ``[B, n_classes]`` for each client's samples."""
    if len(sizes) == 1 or not isinstance(model, FixedWeights):
        return [model(one) for one in torch.split(x, sizes)]
    return apply_to_parts(model.task.target, model.weights, x, sizes)


_NUMBERS = 2**24
"""Most values in the inputs of clients predicted at a time, including padding."""


def score_side_by_side(
    task: Task,
    clients: Clients,
    serve: Serve,
    mask: Mask,
    *,
    on_support: bool = False,
    at_most: int = _NUMBERS,
) -> list[ClientScore]:
    """Serve every client, predict many at a time and score them, on their support if asked.

    ``serve`` maps clients' numbers and supports to their predictors; each is one model, or one
    drawn from the same number of models. ``mask`` changes the logits ``[..., n_classes]`` of
    unknown classes. At most so many values in the inputs are predicted at a time, and at least one
    client.
    """
    sizes, own = clients.sizes_on_host[0 if on_support else 1], clients.sizes_on_host[0]
    table, true = clients.query, clients.query_sizes
    if on_support:
        table, true = clients.support, clients.support_sizes
    each = max(1, at_most // max(1, table.shape[1] * prod(task.input_shape)))
    wrong: list[Tensor] = []
    losses: list[Tensor] = []
    for first in range(0, len(clients), each):
        places = range(first, min(first + each, len(clients)))
        models = [*serve(places, [clients.support_of(place) for place in places])]
        here = slice(places.start, places.stop)
        rows, counts = table[here], true[here]
        x, y = clients.inputs(rows), clients.labels(rows)
        held = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
        known = _known(task, clients, here)[:, None]
        measured = []
        for beside in zip(*map(versions, models), strict=True):
            with torch.no_grad():
                logits = _logits_at_once(task, beside, x, sizes[here])
                measured.append(_measured(logits, mask(logits, known), y, held))
        wrong.append(torch.stack([bad for bad, _ in measured]).mean(dim=0))
        losses.append(torch.stack([total for _, total in measured]).mean(dim=0) / counts)
    if not wrong:
        return []
    # Both are copied to the host in one transfer.
    told = torch.stack([torch.cat(wrong), torch.cat(losses)]).tolist()
    entries = zip(clients.ids.tolist(), own, sizes, *told, strict=True)
    return [ClientScore(*entry) for entry in entries]


def _measured(logits: Tensor, masked: Tensor, y: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Return each client's number of wrong samples and its summed loss, both ``[c]``."""
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    wrong = misclassified(masked, y) & held
    return wrong.sum(dim=1).double(), each.view(y.shape).where(held, 0).sum(dim=1).double()


def _known(task: Task, clients: Clients, here: slice) -> Tensor:
    """Return which classes occur in the support labels, bool ``[c, n_classes]``."""
    rows, counts = clients.support[here], clients.support_sizes[here]
    held = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
    classes = torch.arange(task.n_classes, device=rows.device)
    shown = clients.labels(rows)[..., None] == classes
    return (shown & held[..., None]).any(dim=1)


def _logits_at_once(
    task: Task, models: Sequence[Predictor], x: Tensor, sizes: Sequence[int]
) -> Tensor:
    """Return logits ``[c, B, n_classes]``; values beyond a client's true size are arbitrary."""
    fixed = [one for one in models if isinstance(one, FixedWeights) and one.task is task]
    if len(fixed) == len(models) and not task.one_by_one:
        return client_axis.logits(task.target, stack([one.weights for one in fixed]), x)
    made = x.new_zeros(*x.shape[:2], task.n_classes)
    for place, (model, size) in enumerate(zip(models, sizes, strict=True)):
        made[place, :size] = model(x[place, :size])
    return made


def _known_only(logits: Tensor, known: Tensor) -> Tensor:
    return logits.masked_fill(~known, -torch.inf)


def _zeroed(logits: Tensor, known: Tensor) -> Tensor:
    return logits * known


MASKS: Mapping[str, Mask] = MappingProxyType(
    {"all": unmasked, "known": _known_only, "zero": _zeroed}
)


def share_wrong(model: Predictor, own: Samples, known: Tensor, *, classes: str) -> float:
    """Return the share of samples that are wrong, absent classes treated as by `score_group`."""
    with torch.no_grad():
        logits = MASKS[classes](model(own.x), known)
    return float(misclassified(logits, own.labels()).double().mean())


def generator_of(*key: int) -> torch.Generator:
    """Return a fresh generator that these numbers seed."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


def client_generator(seed: int, client: int) -> torch.Generator:
    """Return a fresh generator for serving one client, the same under every shift (paired)."""
    return generator_of(seed, client, 0x5E21)


def score_group(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    *,
    classes: str,
    predictor: str,
    seed: int,
    measured_on: Literal["query", "support"] = "query",
    reweigh: Reweigh | None = None,
) -> list[ClientScore]:
    """Serve and score every client of a group: one after another on a CPU, side by side elsewhere.

    Parameters
    ----------
    method, task, state
        The trained method.
    group : Group
        Seen clients are served from their own state, others by the novel-client protocol.
    classes : {"all", "known", "zero"}
        What happens to the logits of classes absent from the client's support labels: nothing,
        minus infinity, or multiplication by 0.
    predictor : str
        One of ``method.predictors``.
    seed : int
        Training seed; together with the client's id, fixes the randomness of serving.
    measured_on : {"query", "support"}
        ``support`` gives the empirical risk that generalization bounds start from.
    reweigh : callable, optional
        Clients that are not seen are served models corrected for their own shares of the classes,
        see :func:`~latecomer.eval.scoring.label_shift.corrected`. If left out, models as they are.

    Returns
    -------
    list of ClientScore
        In the order of the group's clients.
    """
    serve = _serving(method, task, state, group, predictor, seed, reweigh)
    on_cpu = group.clients.device.type == "cpu"
    score = score_one_after_another if on_cpu else score_side_by_side
    return score(task, group.clients, serve, MASKS[classes], on_support=measured_on == "support")


def score_groups(
    method: Method,
    task: Task,
    state: State,
    groups: Sequence[Group],
    *,
    classes: str,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None = None,
) -> list[list[ClientScore]]:
    """Score every group as `score_group` does, clients that two of them share served once.

    Groups share their clients if these are served alike from the same supports and only their query
    data differ, as those of seen clients' test data and validation data do. Elsewhere than on a
    CPU every group is served for itself.
    """
    alone = partial(
        score_group,
        method,
        task,
        state,
        classes=classes,
        predictor=predictor,
        seed=seed,
        reweigh=reweigh,
    )
    found: dict[int, list[ClientScore]] = {}
    for first, group in enumerate(groups):
        if first in found:
            continue
        alike = [n for n in range(first, len(groups)) if _served_alike(group, groups[n])]
        if len(alike) == 1:
            found[first] = alone(group)
            continue
        serve = _serving(method, task, state, group, predictor, seed, reweigh)
        tables = [groups[n].clients for n in alike]
        scores = score_on_each(task, tables, serve, MASKS[classes])
        found |= dict(zip(alike, scores, strict=True))
    return [found[n] for n in range(len(groups))]


def _served_alike(one: Group, other: Group) -> bool:
    """Tell whether two groups' clients are served the same models, on a CPU."""
    if one is other:
        return True
    mine, theirs = one.clients, other.clients
    if one.name != other.name or mine.x is not theirs.x or mine.device.type != "cpu":
        return False
    tables = ("support", "support_sizes", "ids", "mean", "sd")
    same = all(torch.equal(getattr(mine, name), getattr(theirs, name)) for name in tables)
    return same and mine.labelled == theirs.labelled


def _serving(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None,
) -> Serve:
    """Return what serves a group's clients, each with random draws of its own."""
    clients, seen = group.clients, group.name == "seen"

    def serve(places: Sequence[int], supports: Sequence[Samples]) -> Iterable[Predictor]:
        members = [place if seen else None for place in places]
        draws = (client_generator(seed, int(clients.ids[place])) for place in places)
        how: dict[str, Any] = {"predictor": predictor, "generators": draws}
        models = method.serve_each(task, state, members, supports, **how)
        if seen or reweigh is None:
            return models
        pairs = zip(models, supports, strict=True)
        return (corrected(model, own, reweigh) for model, own in pairs)

    return serve


def served_models(
    method: Method, task: Task, state: State, group: Group, *, predictor: str, seed: int
) -> Iterator[tuple[Predictor, Samples]]:
    """Yield every client's model as `score_group` serves it uncorrected, and its support."""
    serve = _serving(method, task, state, group, predictor, seed, None)
    for model, (place, _) in served(task, group.clients, serve):
        yield model, group.clients.support_of(place)


@dataclass(frozen=True, eq=False)
class ServedPoints:
    """What one client's model says of its query data.

    Attributes
    ----------
    client : int
        Client id.
    n_support, n_query : int
        Samples the model was made from, and samples it is asked about.
    chances : ndarray of float, [n, classes]
        Probabilities of all classes, n being ``n_query``; if the client's model is drawn from
        several, those of each model, one after another.
    truth : ndarray of int, [n]
        True classes.
    """

    client: int
    n_support: int
    n_query: int
    chances: NDArray[np.float64]
    truth: NDArray[np.int64]


def served_points(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    *,
    classes: str,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None = None,
) -> list[ServedPoints]:
    """Serve every client of a group as `score_group` does; return its points' probabilities."""
    serve = _serving(method, task, state, group, predictor, seed, reweigh)
    clients, mask, each = group.clients, MASKS[classes], []
    for model, (place, rows) in served(task, clients, serve):
        known = known_classes(task, clients.support_of(place)).expand(len(rows), -1)
        with torch.no_grad():
            x = clients.inputs(rows)
            logits = torch.cat([mask(one(x), known) for one in versions(model)])
        chances = torch.softmax(logits.double(), dim=1).cpu().numpy()
        # A model whose outputs are no numbers says nothing of any class.
        chances[~np.isfinite(chances).all(axis=1)] = 1 / task.n_classes
        truth = np.tile(clients.labels(rows).cpu().numpy(), len(chances) // len(rows))
        n_support = clients.sizes_on_host[0][place]
        own = int(clients.ids[place]), n_support, len(rows)
        each.append(ServedPoints(*own, chances, truth))
    return each
