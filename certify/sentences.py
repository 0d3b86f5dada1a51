"""The sentence about a certificate, for report, cards, command line and documentation."""

from collections.abc import Callable

import numpy as np

from latecomer.certify.rules.declaration import is_own
from latecomer.certify.sentence_parts import Certificate, Parts, parts_of
from latecomer.certify.words import chance, magnitude, shift_name

AS_NAMED = "as named in the table"
"""Stands for the shift in a sentence about several conditions."""


def statement(
    certificate: Certificate,
    value: str | None = None,
    *,
    named: Callable[[Certificate], Parts | None] = parts_of,
) -> str:
    """Say in one sentence what a certificate states, with what else has to be said.

    Parameters
    ----------
    certificate : mapping
        As for `parts_of`, with ``value delta population rigorous reason`` too.
    value : str, optional
        Stands for the number, in a sentence about several models.
    named : callable
        Map a certificate to what its sentence names; a study's routes say that of their own.

    Examples
    --------
    >>> print(statement({"bound": "r0:product_wor", "population": "unseen-client",
    ...     "sampling": "finite-pool", "predictor": "deterministic", "rigorous": True,
    ...     "reason": "", "value": 0.25, "delta": 0.05, "n_clients": 12, "pool": 24}))
    With probability at least 95% over the choice of these 12 clients and their order, the mean \
error over the 24 clients not trained on, these 12 included, each served by the one model that the \
trained system makes for it, is at most 25.0%: errors as measured on these clients' own points, \
with the draws made.
    """
    value = value or magnitude(certificate["value"])
    parts = named(certificate)
    if parts is None:
        return _published(certificate, value)
    shift = str(certificate.get("shift") or "none")
    whose = parts.population
    if shift not in ("none", AS_NAMED):
        whose += f", under {shift_name(shift, certificate.get('severity', np.nan))}"
    text = (
        f"With probability at least {chance(certificate['delta'])} over {parts.over}, "
        f"{whose}, {parts.predictor}, {parts.verb} {value}: {parts.scores}."
    )
    if not certificate["rigorous"]:
        text = f"Not a proof here: {text[0].lower()}{text[1:]}"
        if certificate.get("reason"):
            text += f" The reason: {str(certificate['reason']).rstrip('.')}."
    return f"{text} {parts.more}".strip()


def _published(certificate: Certificate, value: str) -> str:
    kind = certificate["population"]
    where = shift_name(certificate.get("shift", "none"), certificate.get("severity", np.nan))
    whose = {
        "unseen-client": "the expected error of a client never seen in training",
        "seen-clients": "the mean true error over the seen clients",
        "one-client": f"the error on the one target population ({where})",
    }.get(kind, f"the error ({kind or 'population not stated'})")
    text = f"With probability at least {chance(certificate['delta'])}, {whose} is at most {value}."
    if not certificate["rigorous"]:
        by_whom = "As its author says" if is_own(certificate.get("bound")) else "As published"
        text = f"{by_whom}: {text[0].lower()}{text[1:]}"
    if certificate["predictor"] == "gibbs":
        text += " It is about a predictor whose randomness is drawn anew for every client."
    return text
