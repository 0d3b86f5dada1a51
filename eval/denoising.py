r"""pFedHN, section 4.1, by simulation: what a linear hypernetwork removes from noisy solutions.

Client i has a design :math:`X_i` with orthonormal columns and labels :math:`y_i = X_i\theta_i^* +
\sigma z`.  Its own least-squares solution is :math:`\bar\theta_i = X_i^Ty_i = \theta_i^* +
\sigma\epsilon_i` with :math:`\epsilon_i` standard normal: exactly, where the paper has a limit.
True models lie in a subspace of the few dimensions with nonzero variance.  The best linear
hypernetwork of k dimensions gives :math:`\bar\theta_i` projected on the k leading principal
components, uncentred (Proposition 1).  Errors are :math:`|\hat\theta_i - \theta_i^*|^2`, a
client's excess loss on its own design.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds import linear_optimum
from latecomer.eval.results.rows import Artifact
from latecomer.eval.settings.study_sections import Denoising

Floats = NDArray[np.float64]
Row = dict[str, Any]

_INERTIA = 0.9
SOLVERS = ("local", "principal components", "gradient descent")


@dataclass(frozen=True, eq=False)
class LinearClients:
    """Linear regressions, whose designs have orthonormal columns.

    Of n clients: ``designs`` [n, m, d], ``labels`` [n, m], and ``truth`` [n, d], the models behind.
    """

    designs: Floats
    labels: Floats
    truth: Floats

    @property
    def solutions(self) -> Floats:
        """Each client's least-squares solution, ``[n, d]``."""
        solutions: Floats = np.einsum("nmd,nm->nd", self.designs, self.labels)
        return solutions

    def error(self, models: Floats) -> float:
        """Return the mean over clients of the squared distance from their true models."""
        return float(np.square(models - self.truth).sum(axis=1).mean())


def draw_clients(
    rng: np.random.Generator, truth: Floats, *, n_samples: int, noise: float
) -> LinearClients:
    """Draw designs and labels for clients of true models [n, d], each of at least d samples."""
    n, d = truth.shape
    designs = np.linalg.qr(rng.standard_normal((n, n_samples, d)))[0]
    labels = np.einsum("nmd,nd->nm", designs, truth)
    labels = labels + noise * rng.standard_normal((n, n_samples))
    return LinearClients(designs, labels, truth)


def train_linear(
    clients: LinearClients, dimension: int, *, rounds: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    r"""Train :math:`\theta_i = Wv_i` by gradient descent on the clients' losses.

    Every round all clients send the gradient of :math:`|X_i\theta_i - y_i|^2` at the model they
    got, which for an orthonormal design is :math:`2(\theta_i - X_i^Ty_i)`; the server propagates it
    back to W and the descriptors. (Several local steps would scale all of them by one factor.)
    Returns W ``[d, k]`` and the descriptors ``[n, k]``.
    """
    solutions = clients.solutions
    n, d = solutions.shape
    size = float(np.linalg.norm(solutions, 2))
    weights = rng.standard_normal((d, dimension)) * (size / d) ** 0.5
    descriptors = rng.standard_normal((n, dimension)) * (size / n) ** 0.5
    moving = [np.zeros_like(weights), np.zeros_like(descriptors)]
    # Near an optimum the norm of both factors is the square root of the solutions' norm.
    lr = 0.1 / (4 * size)
    for _ in range(rounds):
        against = 2 * (descriptors @ weights.T - solutions)
        slopes = (against.T @ descriptors, against @ weights)
        moving = [_INERTIA * old + new for old, new in zip(moving, slopes, strict=True)]
        weights, descriptors = weights - lr * moving[0], descriptors - lr * moving[1]
    return weights, descriptors


def fixed_subspace_error(variances: Floats, subspace: Floats, noise: float) -> float:
    r"""Return the expected error of new clients whose solutions are projected on a subspace.

    .. math:: \operatorname{tr}((I-P)\Sigma) + \sigma^2k

    The first term, of the true models' second moments :math:`\Sigma` (``variances`` [d, d]), is
    what the subspace (orthonormal columns [d, k]) leaves out, the second the noise that stays;
    exact for a subspace that does not depend on the clients' noise.

    >>> fixed_subspace_error(np.diag([4.0, 1.0, 0.0]), np.eye(3)[:, :1], noise=0.5)
    1.25
    """
    kept = float(np.trace(subspace.T @ variances @ subspace))
    return float(np.trace(variances)) - kept + noise * noise * int(subspace.shape[1])


def estimated_error(solutions: Floats, dimension: int, noise: float) -> float:
    r"""Estimate the mean error after projection on the solutions' own k leading components.

    Unbiased over the noise, from the solutions [n, d] alone: Stein's estimate
    :math:`(|\bar\Theta - \hat\Theta|^2 + 2\sigma^2\,df)/n - \sigma^2d` with the divergence of a
    truncated singular value decomposition, :math:`df = k(k + |n-d|) +
    2\sum_{i\le k<j}s_i^2/(s_i^2-s_j^2)` (Candès, Sing-Long and Trzasko, 2013). It is unstable
    where two singular values nearly agree.
    """
    n, d = map(int, solutions.shape)
    squares = np.square(np.linalg.svd(solutions, compute_uv=False))
    kept, left = squares[:dimension], squares[dimension:]
    freedom = float(dimension * (dimension + abs(n - d)))
    freedom += 2 * float((kept[:, None] / (kept[:, None] - left[None])).sum())
    return (float(left.sum()) + 2 * noise * noise * freedom) / n - noise * noise * d


def _one_draw(settings: Denoising, noise: float, draw: int) -> list[Row]:
    """Return one record per dimension for one drawn federation."""
    # Every noise level has the same true models and designs.
    rng = np.random.default_rng([settings.seed, draw])
    d, variances = settings.weights, np.asarray(settings.variances, dtype=np.float64)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : len(variances)]

    def population(n: int) -> LinearClients:
        truth = (rng.standard_normal((n, len(variances))) * np.sqrt(variances)) @ basis.T
        return draw_clients(rng, truth, n_samples=settings.samples, noise=noise)

    seen, novel = population(settings.clients), population(settings.novel)
    moments = (basis * variances) @ basis.T
    order = basis[:, np.argsort(-variances, kind="stable")]
    solutions, newcomers = seen.solutions, novel.solutions
    records = []
    for k in settings.dimensions:
        best = linear_optimum(solutions=solutions, dimension=k)
        weights, descriptors = train_linear(seen, k, rounds=settings.rounds, rng=rng)
        made = descriptors @ weights.T
        span = np.linalg.qr(weights)[0]
        reached = float(np.square(made - solutions).sum())
        records.append(
            {
                "noise": noise,
                "dimension": k,
                "draw": draw,
                "local": seen.error(solutions),
                "principal_components": seen.error(best.descriptors @ best.weights.T),
                "gradient_descent": seen.error(made),
                "novel_local": novel.error(newcomers),
                "novel_principal_components": novel.error(
                    newcomers @ best.weights @ best.weights.T
                ),
                "novel_gradient_descent": novel.error(newcomers @ span @ span.T),
                # Closed forms: noise alone; the best subspace, if known; the draw's own estimate.
                "local_expected": noise * noise * d,
                "known_subspace": _known_subspace(moments, order, k, noise),
                "estimated": estimated_error(solutions, k, noise),
                "novel_expected": fixed_subspace_error(moments, best.weights, noise),
                "optimal_loss": float(best.loss),
                "reached_loss": reached,
            }
        )
    return records


def _known_subspace(moments: Floats, order: Floats, k: int, noise: float) -> float:
    """Return the expected error with the true leading subspace; further dimensions only add noise.

    The basis holds the directions of all variances; others are orthogonal to every true model.
    """
    within = fixed_subspace_error(moments, order[:, :k], noise)
    return within + noise * noise * max(k - int(order.shape[1]), 0)


def denoising_findings(settings: Denoising) -> tuple[list[Row], dict[str, Artifact]]:
    """Return rows and the artifact ``linear_denoising`` of a study's section ``denoising``.

    The artifact has a record per noise, dimension and draw. Rows ``denoising_error`` are means over
    draws with a 95% normal interval for the mean; ``term`` names the estimator, k and noise.
    """
    table = [
        record
        for noise in settings.noise
        for draw in range(settings.draws)
        for record in _one_draw(settings, noise, draw)
    ]
    rows: list[Row] = []
    for noise in settings.noise:
        for k in settings.dimensions:
            own = [r for r in table if r["noise"] == noise and r["dimension"] == k]
            for group, prefix in (("seen", ""), ("novel", "novel_")):
                n_clients = settings.clients if group == "seen" else settings.novel
                for solver in SOLVERS:
                    values = np.array([r[prefix + solver.replace(" ", "_")] for r in own])
                    term = f"{solver}, k={k}, noise={noise:g}"
                    rows.append(_row(group, n_clients, term, values))
            known = np.array([r["known_subspace"] for r in own])
            rows.append(_row("novel", "", f"known subspace, k={k}, noise={noise:g}", known))
    artifact = Artifact(kind="linear_denoising", table=table, axes=("record",))
    return rows, {"linear_denoising": artifact}


def _row(group: str, n_clients: int | str, term: str, values: Floats) -> Row:
    mean, half = float(values.mean()), float("nan")
    if len(values) > 1:
        half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    about = {"group": group, "shift": "none", "n_clients": n_clients, "metric": "denoising_error"}
    return {**about, "term": term, "value": mean, "lower": mean - half, "upper": mean + half}
