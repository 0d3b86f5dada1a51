"""Who trains when on which samples and which weights: drawn from the training seed alone.

Every draw has its own address (stream, round, client) in a counter-based generator, so any round
can be drawn without the ones before it, and two methods trained with one seed see the same cohorts
and minibatches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.models.task import targets
from latecomer.models.task.clients import Clients
from latecomer.models.task.precision import PRECISIONS
from latecomer.models.task.state import sent
from latecomer.models.task.task import Task


@dataclass(frozen=True)
class Stage:
    """Part of a client's local steps, in which some of its weights train and the others rest.

    Momentum starts at 0 in every stage.

    Attributes
    ----------
    trained : tuple of str or None
        Names of the weights that train; None: all. A stage that names none is skipped, and its
        steps go to the others.
    share : float
        Share of the local steps, relative to the other stages.
    """

    trained: tuple[str, ...] | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Phase:
    """A stretch of rounds.

    Attributes
    ----------
    name : str
        What hooks read in ``cohort.phase``.
    share : float
        Share of the rounds, relative to the other phases.
    stages : tuple of Stage
        What a client does in one round, in order.
    """

    name: str = "train"
    share: float = 1.0
    stages: tuple[Stage, ...] = (Stage(),)


def divide(total: int, shares: Sequence[float]) -> list[int]:
    """Cut ``total`` rounds or steps into parts in proportion to ``shares``, which add up to > 0.

    Every positive share gets at least one if there are enough of them.

    >>> divide(20, [5, 1]), divide(2, [99, 1]), divide(1, [1, 2]), divide(3, [1, 0])
    ([17, 3], [1, 1], [0, 1], [3, 0])
    """
    ends = [round(total * sum(shares[: i + 1]) / sum(shares)) for i in range(len(shares))]
    parts = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    for i, share in enumerate(shares):
        if share > 0 and parts[i] == 0 and max(parts) > 1:
            parts[parts.index(max(parts))] -= 1
            parts[i] += 1
    return parts


def plan(
    stages: Sequence[Stage], names: Sequence[str], n_steps: int
) -> list[tuple[tuple[str, ...], int]]:
    """Return, for each stage that takes steps, the weights it trains and its number of steps.

    ``names`` are all weights there are, in order.

    >>> plan((Stage(("b",), 3.0), Stage((), 9.0), Stage()), ["a", "b"], 8)
    [(('b',), 6), (('a', 'b'), 2)]
    """
    kept = []
    for stage in stages:
        trained = tuple(n for n in names if stage.trained is None or n in stage.trained)
        if trained and stage.share > 0:
            kept.append((trained, stage.share))
    counts = divide(n_steps, [share for _, share in kept]) if kept else []
    return [(trained, n) for (trained, _), n in zip(kept, counts, strict=True) if n]


def refuse_few_rounds(phases: Sequence[Phase], n_rounds: int, called: str) -> None:
    """Raise ``ValueError`` if ``n_rounds`` leave a phase without a round."""
    if n_rounds < (least := fewest_rounds(phases)):
        raise ValueError(
            f"rounds must be at least {least} for {called}, which trains in {least} phases, one "
            f"after another, got {n_rounds}"
        )


def fewest_rounds(phases: Sequence[Phase]) -> int:
    """Return the fewest rounds with which every phase trains.

    >>> fewest_rounds([Phase(), Phase("rest", share=0.0), Phase("late", share=0.1)])
    2
    """
    return sum(phase.share > 0 for phase in phases)


def refuse_few_steps(phases: Sequence[Phase], n_steps: int, called: str) -> None:
    """Raise ``ValueError`` if a round of ``n_steps`` leaves a stage without a step."""
    if n_steps < (least := most_stages(phases)):
        raise ValueError(
            f"local_steps must be at least {least} for {called}, whose clients train parts of the "
            f"net in turn, got {n_steps}"
        )


def most_stages(phases: Sequence[Phase]) -> int:
    """Return the fewest local steps with which every stage of a round trains.

    >>> most_stages([Phase(), Phase(stages=(Stage(("b",), 3.0), Stage((), 9.0), Stage()))])
    2
    """
    return max(
        sum(stage.trained != () and stage.share > 0 for stage in phase.stages) for phase in phases
    )


_COHORT, _DESCRIPTOR, _NOISE, _INIT, _MINIBATCH = range(5)
_DROPOUT = 2**16  # beyond the streams of minibatches, one for each batch of a step

_AHEAD = 16
"""Most rounds that are drawn ahead of training."""
_A_FEW = 2**16
"""Most row numbers that are drawn at once for several rounds."""


@dataclass(frozen=True)
class TrainConfig:
    """Budget of training, the same for every method of a study.

    Attributes
    ----------
    rounds : int
        Communication rounds; 0 for a system that was trained elsewhere.
    cohort : int
        Clients drawn a round, without replacement.
    local_steps : int
        Local SGD steps a client takes in a round.
    batch_size : int
        Samples in a minibatch.
    precision : str or None
        One of ``PRECISIONS``, for local steps; None: float32. No draw depends on it.
    """

    rounds: int = 5000
    cohort: int = 5
    local_steps: int = 50
    batch_size: int = 32
    precision: str | None = None

    def __post_init__(self) -> None:
        least = {"rounds": 0, "cohort": 1, "local_steps": 1, "batch_size": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise ValueError(f"{name} must be a whole number >= {low}, got {name}={value!r}")
        if self.precision not in (None, *PRECISIONS):
            legal = ", ".join(PRECISIONS)
            raise ValueError(f"precision must be {legal} or None, got precision={self.precision!r}")


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of one round and the rows they train on.

    Attributes
    ----------
    round : int
        Number of the round, from 0.
    members : Tensor
        Which of the seen clients take part, int64 ``[c]``.
    sizes : Tensor
        Their support sizes, int64 ``[c]``.
    descriptor_rows : Tensor
        One further batch of each client's support rows, ``[c, b]``, for descriptors.
    rows : Tensor
        Support rows ``[c, local_steps, batches_per_step, b]``.
    phase : str
        Name of the method's phase that the round belongs to; the schedule does not set it.
    seed : int
        Training seed that the round was drawn from.
    told : tuple of (Tensor, tuple of int), optional
        A tensor of members and its values, so that the host need not read the device.
    kept : Tensor, optional
        What :meth:`kept_units` returns, if it was sent to the device with the rows.
    """

    round: int
    members: Tensor
    sizes: Tensor
    descriptor_rows: Tensor
    rows: Tensor
    phase: str = "train"
    seed: int = 0
    told: tuple[Tensor, tuple[int, ...]] | None = None
    kept: Tensor | None = None

    def __len__(self) -> int:
        """Return the number of clients in the cohort."""
        return len(self.members)

    def kept_units(self, task: Task, places: slice = slice(None)) -> Tensor | None:
        """Draw which units dropout keeps for the clients at ``places``; None without dropout.

        A client's masks, drawn step by step, depend on the seed, the round and the client alone:
        neither on who trains beside it nor on the path. Bool ``[c, local_steps, b, units]``.
        """
        if not targets.dropout(task.target)[0]:
            return None
        if self.kept is not None:
            return self.kept[places]
        members = self.on_host()[places]
        drawn = _masks(self.seed, self.round, members, task, self.rows.shape[1], self.rows.shape[3])
        return None if drawn is None else sent(drawn, self.rows.device)

    def on_host(self) -> tuple[int, ...]:
        """Return ``members`` as numbers."""
        if self.told is not None and self.told[0] is self.members:
            return self.told[1]
        return tuple(self.members.tolist())


class Schedule:
    """The draws of a whole training, by round.

    Parameters
    ----------
    seed : int
        Training seed, from 0 to 2**63 - 1.
    clients : Clients
        The seen clients.
    config : TrainConfig
        Its ``cohort`` may not exceed the number of clients.
    """

    def __init__(self, seed: int, clients: Clients, config: TrainConfig) -> None:
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not whole or not 0 <= seed < 2**63:
            raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, got seed={seed!r}")
        if config.cohort > len(clients):
            raise ValueError(
                f"cohort must be at most the number of seen clients ({len(clients)}), "
                f"got cohort={config.cohort}"
            )
        self._seed = int(seed)
        self._clients = clients
        self._config = config
        self._sizes = clients.support_sizes.cpu().numpy()

    def _numpy(self, stream: int, number: int = 0, client: int = 0) -> np.random.Generator:
        return _philox(self._seed, stream, number, client)

    def _torch(self, stream: int, number: int = 0) -> torch.Generator:
        seed = int(self._numpy(stream, number).integers(2**63 - 1))
        return torch.Generator().manual_seed(seed)

    def initial_noise(self) -> torch.Generator:
        """Return the generator that initial weights are drawn from."""
        return self._torch(_INIT)

    def noise(self, number: int) -> torch.Generator:
        """Return the generator for a method's own randomness in round ``number``."""
        return self._torch(_NOISE, number)

    def cohorts(
        self, numbers: Sequence[int], batches_per_step: int = 1, task: Task | None = None
    ) -> Iterator[Cohort]:
        """Yield rounds in order; on a CPU several small ones are drawn at once.

        Training evicts from the processor's caches what drawing needs: one by one, the draws take
        three times as long, a fortieth of a round on a small net.
        """
        config = self._config
        in_one = config.cohort * config.local_steps * config.batch_size * batches_per_step
        ahead = max(min(_AHEAD, _A_FEW // in_one), 1) if self._clients.device.type == "cpu" else 1
        for first in range(0, len(numbers), ahead):
            some = numbers[first : first + ahead]
            yield from [self.cohort(number, batches_per_step, task=task) for number in some]

    def cohort(
        self,
        number: int,
        batches_per_step: int = 1,
        include: Sequence[int] = (),
        task: Task | None = None,
    ) -> Cohort:
        """Draw round ``number``.

        The first batch of each step is the same whatever ``batches_per_step`` is. The clients
        ``include`` always take part, in place of those drawn last. On devices other than a CPU the
        masks of a ``task`` with dropout are sent along; on a CPU they are drawn when needed.
        """
        config = self._config
        drawn = self._numpy(_COHORT, number).choice(len(self._sizes), config.cohort, replace=False)
        if len(include):
            others = drawn[~np.isin(drawn, include)][: config.cohort - len(include)]
            drawn = np.concatenate([np.asarray(include, dtype=np.int64), others])
        steps, size = config.local_steps, config.batch_size

        def batches(stream: int, client: int, count: int) -> NDArray[np.int64]:
            return minibatches(
                self._numpy(stream, number, client), int(self._sizes[client]), count, size
            )

        describe = np.empty((len(drawn), size), dtype=np.int64)
        rows = np.empty((len(drawn), steps, batches_per_step, size), dtype=np.int64)
        for place, client in enumerate(drawn.tolist()):
            describe[place] = batches(_DESCRIPTOR, client, 1)
            for batch in range(batches_per_step):
                rows[place, :, batch] = batches(_MINIBATCH + batch, client, steps)
        # All that the device needs to know of the round, in one copy.
        tables = [drawn, describe, rows]
        packed = torch.from_numpy(np.concatenate([table.ravel() for table in tables]))
        masks: Tensor | None = None
        if task is not None and self._clients.device.type != "cpu":
            masks = _masks(self._seed, number, drawn.tolist(), task, steps, size)
        sent_table, kept = _sent_together(packed, masks, self._clients.device)
        there = torch.split(sent_table, [table.size for table in tables])
        members = there[0]
        support_rows = self._clients.support[members]

        def absolute(places: Tensor, shape: tuple[int, ...]) -> Tensor:
            return support_rows.gather(1, places.view(len(drawn), -1)).view(shape)

        return Cohort(
            round=number,
            members=members,
            sizes=self._clients.support_sizes[members],
            descriptor_rows=absolute(there[1], describe.shape),
            rows=absolute(there[2], rows.shape),
            seed=self._seed,
            told=(members, tuple(drawn.tolist())),
            kept=kept,
        )


def _sent_together(
    table: Tensor, masks: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Return a table of whole numbers and masks on a device, by one copy."""
    if masks is None:
        return sent(table, device), None
    there = sent(torch.cat([table.view(torch.uint8), masks.view(torch.uint8).flatten()]), device)
    numbers, kept = torch.split(there, [table.nbytes, masks.nbytes])
    return numbers.view(table.dtype), kept.view(torch.bool).view(masks.shape)


def _masks(
    seed: int, number: int, members: Sequence[int], task: Task, n_steps: int, batch_size: int
) -> Tensor | None:
    """Draw the masks of clients in a round, ``[c, n_steps, batch_size, units]``; or None."""
    drawn = [
        units_kept(_philox(seed, _DROPOUT, number, member), task, n_steps, batch_size)
        for member in members
    ]
    masks = [mask for mask in drawn if mask is not None]
    return torch.stack(masks) if masks else None


def _philox(seed: int, stream: int, number: int, client: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, stream], counter=[0, 0, client, number]))


def units_kept(
    rng: np.random.Generator, task: Task, n_steps: int, batch_size: int
) -> Tensor | None:
    """Draw masks ``[n_steps, batch_size, units]`` of a target's dropout; None if it has none.

    Every unit of every sample is dropped with the target's probability, independently; nothing is
    drawn without dropout.
    """
    units, share = targets.dropout(task.target)
    if not units:
        return None
    drawn = rng.random((n_steps, batch_size, units), dtype=np.float32)
    return torch.from_numpy(drawn >= share)


def minibatches(
    rng: np.random.Generator, n_samples: int, n_batches: int, batch_size: int
) -> NDArray[np.int64]:
    """Draw batches of places ``0 .. n_samples - 1``, int64 ``[n_batches, batch_size]``.

    A batch holds no sample twice when there are enough of them. Otherwise the batches cycle
    through one random permutation, so any two samples' numbers of uses differ by at most one.

    >>> minibatches(np.random.default_rng(0), 3, 2, 3).shape
    (2, 3)
    """
    if n_samples <= batch_size:
        order = rng.permutation(n_samples)
        places = np.arange(n_batches * batch_size) % n_samples
        return order[places].reshape(n_batches, batch_size).astype(np.int64)
    keys = rng.random((n_batches, n_samples))
    return np.argpartition(keys, batch_size, axis=1)[:, :batch_size].astype(np.int64)
