"""Rules only for systems that score clients one after another: bounds of the mean over them."""

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_clients.single_level import progressive
from latecomer.certify.rules.declaration import Asked, Rule

GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Temperatures of the rule ``progressive``, fixed here; the bound pays for their union."""


def _progressive(a: Asked) -> Certificate:
    mean = float(np.mean(a.losses))
    return progressive(empirical_risk=mean, n_steps=len(a.losses), delta=a.level, grid=GRID)


RULES = (Rule(name="progressive", words="kl grid", doors=("r4",), bound=_progressive),)
