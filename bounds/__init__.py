"""Bounds as pure calculators: numpy and scipy only, float64, one function per theorem.

``CATALOGUE`` maps the name of each calculator to its facts (claim, source, population,
assumptions).  A function entered there is public here: its name is read from the text of its file,
and the function is imported on first use.

All calculators share these conventions.  Arguments are given by name and broadcast.  Where an
argument lists clients (``losses`` of shape [..., k], one score each), clients are its last axis;
its leading axes broadcast with the other arguments to the shape of the result.  A number outside
the stated range raises ValueError, a value that is not a number TypeError, with one line that names
the argument, the range and the value given.  What arguments are of which nothing more is said:

delta
    The probability with which the statement may fail, at least 1e-287.
loss_max
    The largest possible loss.
losses
    One score a client: its model's loss on data of the client's own.
empirical_risk
    Mean over clients of their models' mean losses on their own samples.
empirical_risks
    Each client's mean loss on its own samples.
n_clients
    Number of clients.
n_samples
    Samples of each client, as many of each.
sizes
    Samples of each client.
kl_hyper
    KL divergence of the hyper-posterior from the hyper-prior.
sum_kl
    Sum over clients of their posteriors' KL divergences from their priors.
kls
    Each client's KL divergence of its posterior from its prior.
epsilon
    Largest deviation of true from measured risk that is put up with.
ball
    What measures how far another population is: a divergence, or for ``subgroup`` the least share
    of the clients that it may be.
variant
    Constants of the step over clients: ``maurer``, those of the lemma that the paper quotes;
    ``printed``, as published, true from three clients on; ``subgauss``, proved from two on.
client_share
    Part of ``delta`` spent on the draw of clients.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.bounds":
    raise ImportError("import latecomer.bounds, not the folder bounds")

if TYPE_CHECKING:
    # For type checkers only; a module that is not listed here works, but untyped.
    from collections.abc import Mapping

    from latecomer.bounds.binary_kl import *
    from latecomer.bounds.certificate import Certificate as Certificate
    from latecomer.bounds.certificate import Entry as Entry
    from latecomer.bounds.held_out.arriving import *
    from latecomer.bounds.held_out.bets import *
    from latecomer.bounds.held_out.betting import *
    from latecomer.bounds.held_out.blend import *
    from latecomer.bounds.held_out.counting import *
    from latecomer.bounds.held_out.finite_pool import *
    from latecomer.bounds.held_out.losses import *
    from latecomer.bounds.held_out.price import *
    from latecomer.bounds.held_out.secure_sum import *
    from latecomer.bounds.held_out.star import *
    from latecomer.bounds.meta_learning.kl_inverted import *
    from latecomer.bounds.meta_learning.pefll import *
    from latecomer.bounds.meta_learning.unequal_sizes import *
    from latecomer.bounds.next_client import *
    from latecomer.bounds.one_data_set import *
    from latecomer.bounds.privacy import *
    from latecomer.bounds.shift.adaptation import *
    from latecomer.bounds.shift.balls import *
    from latecomer.bounds.training import *
    from latecomer.bounds.uniform_convergence import *
    from latecomer.bounds.unseen_clients.description_length import *
    from latecomer.bounds.unseen_clients.personal_priors import *
    from latecomer.bounds.unseen_clients.single_level import *

    CATALOGUE: Mapping[str, Entry]

# Public names that are not in the catalogue.
_BESIDE = {
    "Certificate": "certificate",
    "Entry": "certificate",
    "LinearOptimum": "training",
    "Nearest": "shift.adaptation",
    "SiteInterval": "next_client",
    "baxter_thm2_eps": "uniform_convergence",
}
# A module may give the tags that its calculators share once, to a `partial` of `catalogued`.
_ENTERED = re.compile(r"^@(?:\w+_)?catalogued\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)


@cache
def _homes() -> dict[str, str]:
    """Map every public name to the module that defines it."""
    folder = Path(__file__).parent
    return _BESIDE | {
        name: ".".join(file.relative_to(folder).with_suffix("").parts)
        for file in sorted(folder.rglob("[a-z]*.py"))
        for name in _ENTERED.findall(file.read_text("utf-8"))
    }


def __getattr__(name: str) -> Any:
    if name == "_HOME":
        return _homes()
    if name == "__all__":
        return __dir__()
    if name == "CATALOGUE":
        for module in dict.fromkeys(_homes().values()):
            import_module(f"latecomer.bounds.{module}")
        return import_module("latecomer.bounds.certificate").CATALOGUE
    if not name.startswith("_") and name in _homes():
        return getattr(import_module(f"latecomer.bounds.{_homes()[name]}"), name)
    raise AttributeError(f"module 'latecomer.bounds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["CATALOGUE", *sorted(_homes())]
