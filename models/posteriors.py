"""Gaussian posteriors over tables of weights, and training on the right-hand side of a bound.

Differentiable twins of ``latecomer.bounds``: values equal the calculators' up to rounding.
Gradients flow to every tensor argument. All risks and losses lie in [0, 1]; ``n_*`` and ``delta``
are plain numbers.

Bounds as objectives grow with a risk and with squared norms. Their gradient is that of a risk plus
ridges, the strength of each ridge being a ratio of the bound's derivatives at the current weights.
The loss is bounded, as the theorems require: cross-entropy with probabilities held above a minimum,
in nats, so that it and the strengths are on the scale of the usual objective.

A tuned posterior: prior N(centre, alpha D) and posterior N(centre + shift, alpha D) share their
covariance: D is diagonal with one number per tensor, the mean square of the prior's centre in it,
so ``alpha`` is a variance relative to the weights.  The centre and D come from clients that the
bound does not use. Shifts are kept in units of the standard deviation: KL(posterior || prior) =
|shift|^2 / 2.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.models.task.clients import Samples
from latecomer.models.task.objectives import squared_norm
from latecomer.models.task.state import Params, State, leaves, part, row
from latecomer.models.task.task import Task


def sample(params: Mapping[str, Tensor], alpha: float, generator: torch.Generator) -> Params:
    """Draw from N(params, alpha I), reparameterised: gradients reach ``params`` unchanged.

    ``alpha`` is a variance, at least 0; at 0 the values are unchanged. Noise is drawn where the
    values lie: millions of numbers take a GPU less time than sending them there would.
    """
    if alpha == 0:
        return dict(params)
    device = next((value.device for value in params.values()), torch.device("cpu"))
    spread, drawn = alpha**0.5, on_device(generator, device)

    def noise(value: Tensor) -> Tensor:
        return torch.randn(value.shape, generator=drawn, dtype=value.dtype, device=device)

    return {key: value + spread * noise(value) for key, value in params.items()}


def on_device(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """Return a generator that draws on ``device``: on a GPU a new one, elsewhere ``generator``.

    The new one's seed is the next number of ``generator``, so that each draw has an address of its
    own there too: one seed gives the same noise again on that GPU, and other noise than on the CPU.
    """
    if device.type != "cuda":
        return generator
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.Generator(device).manual_seed(seed)


def in_ball(params: Mapping[str, Tensor], radius: float) -> Params:
    """Project tables ``[c, ...]`` onto the ball of norms up to ``radius`` around 0, row by row.

    Each row becomes the nearest point of the ball, keeping its graph; one inside is unchanged.

    >>> in_ball({"a": torch.tensor([[3.0], [0.3]]), "b": torch.tensor([[4.0], [0.4]])}, 1.0)["a"]
    tensor([[0.6000],
            [0.3000]])
    """
    squares = [value.flatten(1).square().sum(1) for value in params.values()]
    norms = torch.stack(squares).sum(0).sqrt()
    factors = radius / norms.clamp(min=radius)
    return {
        key: value * factors.view(-1, *(1,) * (value.dim() - 1)) for key, value in params.items()
    }


@dataclass(frozen=True, eq=False)
class PosteriorNorms:
    """Norms and variances in stochastic PeFLL's Kullback-Leibler terms; priors have mean 0.

    The hyper-posterior's divergence is ``eta_h_squared / (2 alpha_h) + eta_v_squared /
    (2 alpha_v)`` nats, client ``i``'s is ``theta_squared[i] / (2 alpha_theta)``.

    Attributes
    ----------
    eta_h_squared, eta_v_squared : float
        Squared norm of hypernetwork and encoder weights.
    theta_squared : ndarray
        Squared norm of each client's mean target weights, float64 ``[n]``.
    alpha_h, alpha_v, alpha_theta : float
        Variances.
    """

    eta_h_squared: float
    eta_v_squared: float
    theta_squared: NDArray[np.float64]
    alpha_h: float
    alpha_v: float
    alpha_theta: float


P_MIN = 1e-4


def bounded_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of ``-ln(p_min + (1 - p_min) p_y) / -ln p_min``, in [0, 1]; a 0-d tensor.

    Cross-entropy with probabilities held above ``p_min = 1e-4`` (Dziugaite and Roy, 2018), scaled
    so that its largest value is 1.

    >>> bounded_cross_entropy(torch.tensor([[0.0, 1e4]]), torch.tensor([0])).item()
    1.0
    """
    p = F.softmax(logits, dim=-1).gather(-1, y[..., None])[..., 0]
    return (-(P_MIN + (1 - P_MIN) * p).log() / -math.log(P_MIN)).mean()


def expected_error(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of ``1 - p_y``, the error of labels drawn from the softmax; a 0-d tensor."""
    return 1 - F.softmax(logits, dim=-1).gather(-1, y[..., None]).mean()


class _KlInverse(torch.autograd.Function):
    """Upper inverse of the binary relative entropy, differentiated implicitly."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, budget: Tensor) -> Tensor:
        inverse = kl_inverse_upper(
            q=q.detach().cpu().numpy().astype(np.float64),
            budget=budget.detach().cpu().numpy().astype(np.float64),
        )
        p = torch.as_tensor(inverse, dtype=q.dtype, device=q.device)
        ctx.save_for_backward(q, p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        q, p = ctx.saved_tensors
        tiny = torch.finfo(q.dtype).eps
        q, p = q.clamp(tiny, 1 - tiny), p.clamp(tiny, 1 - tiny)
        # kl(q || p) = budget: its derivatives with respect to p and q.
        by_p = ((p - q) / (p * (1 - p))).clamp_min(tiny)
        by_q = (q / p).log() - ((1 - q) / (1 - p)).log()
        return grads[0] * -by_q / by_p, grads[0] / by_p


def kl_inverse(q: Tensor, budget: Tensor) -> Tensor:
    """Return the largest p with kl(q || p) <= budget, rounded up; differentiable in both.

    >>> q, budget = torch.tensor([0.05, 0.02], dtype=torch.float64)
    >>> round(kl_inverse(q, budget).item(), 10)
    0.1057499398
    """
    value: Tensor = _KlInverse.apply(q, budget)  # type: ignore[no-untyped-call]
    return value


def single_level_product(
    mean_neg_log1m: Tensor, kl_hyper: Tensor, *, n_clients: int, delta: float, n_priors: int = 1
) -> Tensor:
    """Return :func:`latecomer.bounds.single_level_product` with its gradient; a 0-d tensor."""
    price = (kl_hyper + math.log(n_priors / delta)) / n_clients
    return -torch.expm1(-(mean_neg_log1m + price))


def single_level_kl(
    empirical_risk: Tensor, kl_hyper: Tensor, *, n_clients: int, delta: float, n_priors: int = 1
) -> Tensor:
    """Return :func:`latecomer.bounds.single_level_kl` with its gradient; a 0-d tensor."""
    moment = math.log(2 * n_priors * math.sqrt(n_clients) / delta)
    return kl_inverse(empirical_risk, (kl_hyper + moment) / n_clients)


def pefll_b1(
    empirical_risk: Tensor,
    kl_hyper: Tensor,
    sum_kl: Tensor,
    *,
    n_clients: int,
    n_samples: int,
    delta: float,
) -> Tensor:
    """Return :func:`latecomer.bounds.pefll_b1` (variant ``maurer``) with its gradient; 0-d."""
    total = n_clients * n_samples
    clients = (kl_hyper + math.log(4 * math.sqrt(n_clients) / delta)) / (2 * n_clients)
    samples = (sum_kl + math.log(8 * total / delta) + 1) / (2 * total)
    return empirical_risk + clients.sqrt() + samples.sqrt()


def two_step_kl(
    empirical_risk: Tensor,
    kl_hyper: Tensor,
    sum_kl: Tensor,
    *,
    n_clients: int,
    n_samples: int,
    delta: float,
    client_share: float = 0.5,
) -> Tensor:
    """Return :func:`latecomer.bounds.two_step_kl` with its gradient; a 0-d tensor."""
    total = n_clients * n_samples
    within = math.log(2 * math.sqrt(total) / ((1 - client_share) * delta))
    between = math.log(2 * math.sqrt(n_clients) / (client_share * delta))
    inner = kl_inverse(empirical_risk, (sum_kl + within) / total)
    return kl_inverse(inner, (kl_hyper + between) / n_clients)


DELTA = 0.05
LOSS_MAX = -math.log(P_MIN)
"""Largest loss in nats."""
STRONGEST = 1.0
"""Largest strength of a ridge: stronger ones would overshoot 0 at usual learning rates."""


_BOUNDS: dict[str, Callable[..., Tensor]] = {"bound": pefll_b1, "bound_kl": two_step_kl}


def bounded_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Return the bounded cross-entropy in nats, in [0, ``LOSS_MAX``]; a 0-d tensor."""
    return LOSS_MAX * bounded_cross_entropy(logits, y)


def strengths(
    objective: str,
    risk: float,
    squares: tuple[float, float, float],
    variances: tuple[float, float, float],
    *,
    n_clients: int,
    n_samples: int,
) -> dict[str, float]:
    r"""Return the ridges whose gradient plus the risk's is the bound's up to one factor.

    They are of ``strength * squared norm`` added to the mean loss in nats, by the weights' name:
    ``hyper``, ``encoder`` and ``theta``.

    With B(r, K, S) the bound, K the hyper-posterior's divergence and S the sum of the clients',
    the ridge of the hypernetwork is M (dB/dK) / (2 alpha_h dB/dr), that of a client's weights
    M n (dB/dS) / (2 alpha_theta dB/dr); M is the largest loss, as r is on the unit scale. No ridge
    is above ``STRONGEST``. The objective ``bound`` is ``pefll_b1``, ``bound_kl`` ``two_step_kl``;
    ``risk`` is the mean loss over ``LOSS_MAX``, in [0, 1], ``n_samples`` the smallest client's.
    ``squares`` are squared norms of hypernetwork, encoder and target weights, the mean of clients'.
    """
    (hyper, encoder, theta), (alpha_h, alpha_v, alpha_theta) = squares, variances
    nats = hyper / (2 * alpha_h) + encoder / (2 * alpha_v)
    clients_nats = n_clients * theta / (2 * alpha_theta)
    point = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (risk, nats, clients_nats)
    ]
    shared: dict[str, Any] = {"n_clients": n_clients, "n_samples": n_samples, "delta": DELTA}
    with torch.enable_grad():
        value = _BOUNDS[objective](*point, **shared)
        by_risk, by_hyper, by_own = (g.item() for g in torch.autograd.grad(value, point))

    def ridge(slope: float, alpha: float) -> float:
        # Near 1 the kl form hardly depends on the risk: only its divergences would count.
        steep = LOSS_MAX * slope / (2 * alpha)
        return steep / by_risk if steep < STRONGEST * by_risk else STRONGEST

    return {
        "hyper": ridge(by_hyper, alpha_h),
        "encoder": ridge(by_hyper, alpha_v),
        "theta": ridge(n_clients * by_own, alpha_theta),
    }


def cohort_strengths(
    objective: str,
    task: Task,
    tables: tuple[Params, Params, Params],
    batch: tuple[Tensor, Tensor],
    variances: tuple[float, float, float],
    sizes: tuple[int, int],
) -> Params:
    """Return the `strengths` of one round, 0-d, with the risk and clients' norms of its cohort.

    ``tables`` are the networks' weights (sections ``hyper`` and ``encoder``), the cohort's means
    and the weights it was sent, ``[c, ...]``; ``batch``, inputs ``[c, b, ...]`` and labels
    ``[c, b]``, gives the risk; ``variances`` are of hypernetwork, encoder and client weights;
    ``sizes`` are the numbers of clients, and of samples of the smallest client.
    """
    (eta, made, sent), (x, y) = tables, batch
    with torch.no_grad():
        losses = [
            bounded_cross_entropy(task.logits(row(sent, i), x[i]), y[i]).item()
            for i in range(len(x))
        ]
    hyper, encoder = (squared_norm(part(eta, section)).item() for section in ("hyper", "encoder"))
    squares, risk = (hyper, encoder, squared_norm(made).item() / len(x)), sum(losses) / len(losses)
    slopes = strengths(objective, risk, squares, variances, n_clients=sizes[0], n_samples=sizes[1])
    return {name: x.new_tensor(value) for name, value in slopes.items()}


def with_ridges(
    slopes: Sequence[Tensor], eta: Params, strengths: Mapping[str, Tensor], reach: float
) -> list[Tensor]:
    """Return the networks' gradient with their ridges' added.

    ``slopes`` are pulled back from the clients' changes, which are gradients times the ``reach`` of
    local steps: the ridges are put on the same scale.
    """
    return [
        slope + 2 * reach * strengths[name.split(".")[0]] * eta[name].detach()
        for name, slope in zip(eta, slopes, strict=True)
    ]


@runtime_checkable
class Differentiable(Protocol):
    """A method that makes a client's weights by a differentiable function of the server's table."""

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the target weights made from ``support``, with their graph."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian over some of a server's weights; the others are fixed.

    Attributes
    ----------
    centre : dict of str to Tensor
        The prior's mean of every weight that is random.
    deviation : dict of str to Tensor
        Standard deviation of every tensor's entries, 0-d.
    shift : dict of str to Tensor
        Posterior mean minus prior mean, in standard deviations.
    """

    centre: Params
    deviation: Params
    shift: Params

    @property
    def kl(self) -> float:
        """KL(posterior || prior) in nats, summed in float64."""
        return 0.5 * sum(float(v.double().square().sum()) for v in self.shift.values())

    @property
    def mean(self) -> Params:
        """Mean of the posterior."""
        return {k: v + self.deviation[k] * self.shift[k] for k, v in self.centre.items()}

    def draw(self, generator: Generator) -> Params:
        """Draw all random weights once; gradients reach the shift."""
        noise = {
            k: torch.randn(v.shape, generator=generator, dtype=v.dtype).to(v.device)
            for k, v in self.centre.items()
        }
        return {
            k: v + self.deviation[k] * (self.shift[k] + noise[k]) for k, v in self.centre.items()
        }


def prior_around(server: Mapping[str, Tensor], sections: Sequence[str], alpha: float) -> Posterior:
    """Return the prior around a server's weights, as a posterior whose shift is 0.

    They were trained without the clients of the bound. Random are those whose names begin with a
    section; ``alpha``, above 0, is their variance relative to each tensor's mean square.

    Raises
    ------
    ValueError
        When a section names no weight, or a random tensor is 0 throughout.
    """
    for section in sections:
        if not any(_within(name, section) for name in server):
            raise ValueError(f"weights must name weights of the server, got {section!r}")
    centre = {
        name: value.detach()
        for name, value in server.items()
        if any(_within(name, section) for section in sections)
    }
    deviation = {name: (alpha * value.square().mean()).sqrt() for name, value in centre.items()}
    for name, value in deviation.items():
        if not float(value) > 0:
            raise ValueError(f"{name} is 0 throughout: a relative variance of it means nothing")
    return Posterior(centre, deviation, {k: torch.zeros_like(v) for k, v in centre.items()})


def _within(name: str, section: str) -> bool:
    rest = name.removeprefix(section)
    # A section's optimizer, section_adamw, is not one of its weights.
    return rest != name and (not rest or rest[0] in ".0123456789")


@dataclass(frozen=True)
class TuneConfig:
    """How a posterior's mean is tuned.

    Attributes
    ----------
    rule : str
        Bound that is minimised: ``product`` or ``kl``.
    steps, clients_per_step : int
        Steps of gradient descent, and clients in each.
    rate : float
        Step size in units of the number of clients: one step of size 1 would minimise the KL term
        alone.
    delta : float
        Failure probability of the clients' event.
    n_priors : int
        Number of variances that are tried.
    gamma : float
        Shrinkage of scores under rule ``product``.
    """

    rule: str
    steps: int
    clients_per_step: int
    rate: float
    delta: float
    n_priors: int
    gamma: float


Loss = Callable[[Params, int, Generator], Tensor]
"""(weights of the server, place of a client, randomness) -> surrogate score in [0, 1], 0-d."""


def tune(
    prior: Posterior, loss: Loss, n_clients: int, config: TuneConfig, generator: Generator
) -> Posterior:
    """Return the posterior whose mean was moved down the gradient of the bound itself.

    Every step draws weights from the current posterior and a few clients, takes the bound with
    these clients' surrogate scores in place of all clients' scores, and steps against its gradient
    with respect to the shift, the KL term included.
    """
    shift = prior.shift
    count = min(config.clients_per_step, n_clients)
    for _ in range(config.steps):
        point = leaves(shift)
        with torch.enable_grad():
            weights = replace(prior, shift=point).draw(generator)
            chosen = torch.randperm(n_clients, generator=generator)[:count].tolist()
            scores = torch.stack([loss(weights, place, generator) for place in chosen])
            nats = torch.stack([v.square().sum() for v in point.values()]).sum() / 2
            value = _bound(scores, nats, n_clients, config)
            slopes = torch.autograd.grad(value, list(point.values()))
        step = config.rate * n_clients
        shift = {
            k: point[k].detach() - step * slope for k, slope in zip(point, slopes, strict=True)
        }
    return replace(prior, shift=shift)


def _bound(scores: Tensor, nats: Tensor, n_clients: int, config: TuneConfig) -> Tensor:
    shared = {"n_clients": n_clients, "delta": config.delta, "n_priors": config.n_priors}
    if config.rule == "kl":
        return single_level_kl(scores.mean(), nats, **shared)  # type: ignore[arg-type]
    level = -torch.log1p(-(1 - config.gamma) * scores).mean()
    return single_level_product(level, nats, **shared) / (1 - config.gamma)  # type: ignore[arg-type]


def surrogate(
    method: Differentiable,
    task: Task,
    state: State,
    weights: Params,
    parts: tuple[Samples, Samples],
    masked: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return the expected error, on ``parts[1]``, of the model made from ``parts[0]``; 0-d."""
    support, query = parts
    made = method.weights_for(task, {**state.server, **weights}, support)
    known = torch.zeros(task.n_classes, dtype=torch.bool, device=query.x.device)
    known[support.labels()] = True
    return expected_error(masked(task.logits(made, query.x), known), query.labels())
