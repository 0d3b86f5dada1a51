"""GLMM: softmax regression shared by all, with a random intercept a client."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from latecomer.models.engine.method import Personalization, Predictor
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.mixed_effects import SummedBounds, contrasts, modes, supports
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class GLMM(SummedBounds):
    """Generalised linear mixed model (Breslow and Clayton, 1993), what a statistician would fit.

    Whatever the study's target network is, logits are ``W x + a + u_i`` on standardised inputs:
    ``W`` and ``a`` are shared, ``u_i ~ N(0, .)`` is client i's own, and ``tau``, the standard
    deviation between clients of the log odds of two classes, is estimated. Fitted is the marginal
    likelihood by Laplace's approximation (that of lme4's ``glmer``), ``B`` being ``(W, a)`` in
    contrasts of classes, less ``ridge / 2 |W|^2``: it makes the fit unique where features add up
    to a constant and finite where they separate the classes. A client is served with the mode of
    its intercept's posterior given its labelled support; without support that is 0.

    No gradient step is taken: local steps, their rate and batches have no effect. A client of the
    cohort computes, over all its support and at the server's present ``B`` and ``tau``, the
    gradient of its part of the objective and a bound on its curvature, and the server takes

        ``B = argmin sum_i <g_i, B - B_i> + tr (B - B_i) A_i (B - B_i)^T / 2 + ridge / 2 |W|^2``

    over the clients heard so far, each where it was last heard (MISO of Mairal, 2015, with
    Böhning's bound of 1992); ``tau`` likewise. With all clients in every round that is an ordinary
    fit. Clients send how their terms changed, and the server keeps sums only, so that a sum over
    the cohort, which secure aggregation gives, is all it need see. Without that it sees a client's
    matrix of products of inputs (its second moments) and gradients: no less private than others,
    but more than averaged weights show. What is sent grows with the squared number of features.

    Attributes
    ----------
    ridge : float
        Penalty on squared coefficients of standardised features; intercepts have none.
    """

    name: ClassVar[str] = "glmm"
    called: ClassVar[str] = "GLMM"
    paper: ClassVar[str] = "Breslow, Clayton, JASA 1993"
    cites: ClassVar[tuple[str, ...]] = ("breslow1993", "li2022glmm")
    look: ClassVar[int | None] = 24
    personalization: ClassVar[Personalization] = "intercept"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own intercept"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "Laplace's approximation of the marginal likelihood itself is maximised, where "
            "penalised quasi-likelihood takes working weights as given; several classes; a small "
            "ridge.",
            "yes, by how much is not known: variances are less biased, most with few samples a "
            "client",
        ),
        (
            "paper",
            "Li and others' federated fit is replaced by incremental bounds, so that cohorts may "
            "be small and clients may be away.",
            "no: with enough rounds the maximum is the same",
        ),
    )

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the shared regression with the mode of the client's intercept."""
        v, b = self._mode(task, state, support), state.server["coefficients"]
        q = contrasts(task.n_classes, b.device)

        def predict(x: Tensor) -> Tensor:
            fixed = x.flatten(1).to(b.dtype) @ b[:, :-1].T + b[:, -1]
            return ((fixed + v) @ q.T).to(x.dtype)

        return predict

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the client's intercept, one number a class, adding up to 0."""
        v = self._mode(task, state, support)
        return contrasts(task.n_classes, v.device) @ v

    def _mode(self, task: Task, state: State, support: Samples) -> Tensor:
        y = support.labels()
        there = torch.ones(1, len(y), device=y.device)
        held = supports(support.x[None], y[None], there, task.n_classes)
        fixed = torch.einsum("cmd,kd->cmk", held.x, state.server["coefficients"])
        return modes(fixed, held.one_hot, state.server["log_tau"])[0]
