"""Numbers and tags in words: one spelling for every table, caption and sentence."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from latecomer.certify.words import (
    DASH,
    MINUS,
    bound_as_number,
    listing,
    magnitude,
    percent,
    points,
)
from latecomer.declared import without_folder
from latecomer.eval.names import PUBLISHED, ROUTES, RULES, bound_called, method_facts, rules_for

if TYPE_CHECKING:
    import pandas as pd

PROTOCOLS = {
    "forward": "One forward pass: the encoder reads the client's labelled support data, the "
    "hypernetwork writes its model. Nothing is trained.",
    "global": "The global model as it is; the client's support data are not used.",
    "unlabelled": "The client's support inputs, without their labels, make or choose its model.",
    "finetune": "Gradient steps on the client's support data, starting from the trained model.",
    "embedding": "A new descriptor is fitted on the client's support data through the frozen "
    "hypernetwork.",
    "knn": "The global model beside the nearest support samples of the client.",
    "local": "A model trained from scratch on the client's own support data.",
    "intercept": "The shared regression with the client's own intercept: the mode of its posterior "
    "given the client's labelled support data. Nothing is trained.",
    "chosen": "One of several models, the one with the lowest loss on the client's labelled "
    "support data. Nothing is trained.",
    "mixture": "Several models, mixed with the weights under which the client's labelled support "
    "data are likeliest. Nothing else is trained.",
    "gaussian": "The shared features under the client's own linear classifier, computed from means "
    "and covariance of its labelled support data and everyone's. Nothing is trained.",
    "given": "A system trained elsewhere, as it is; it may read the client's support data.",
}
FAMILIES = {
    "forward": "a generated model",
    "global": "the global model",
    "unlabelled": "a model made without labels",
    "finetune": "a fine-tuned model",
    "embedding": "a model from a fitted descriptor",
    "knn": "the global model and neighbours",
    "local": "their own model",
    "intercept": "the shared regression and their own intercept",
    "chosen": "the best of several models",
    "mixture": "their own mixture of models",
    "gaussian": "the shared features and their own classifier",
    "given": "a system trained elsewhere",
}
MASKING = {
    "all": "all classes compete (no masking)",
    "known": "classes absent from the client's support labels are ruled out",
    "zero": "logits of classes absent from the client's support labels are multiplied by 0",
}
CLIENTS = {"seen": "seen client", "certification": "held-out client", "novel": "new client"}
"""What a client of a group is called, by the group's name in rows."""
METRICS = {
    "label_kl": "label KL to the nearest seen client (nats)",
    "label_tv": "label TV to the nearest seen client",
    "label_js": "label JS divergence to the nearest seen client (nats)",
    "label_hellinger": "label Hellinger distance to the nearest seen client",
    "a_distance": "proxy A-distance to the nearest seen client",
}


def shown_names() -> dict[str, str]:
    """Map the methods that go by another name in a report, where theirs would promise too much.

    >>> shown_names()
    {'fedma': 'FedMA (one-shot matching)'}
    """
    told = method_facts().items()
    return {name: facts["shown_as"] for name, facts in told if facts.get("shown_as")}


LESS_ALONE = "gap less Local's (points)"


def over_what(n_seeds: int) -> str:
    """Say over what an interval of a gap is taken: seeds too, where there are several.

    >>> over_what(3), over_what(1)
    ('clients and seeds', 'clients alone, of one seed')
    """
    return "clients and seeds" if n_seeds > 1 else "clients alone, of one seed"


LESS_ALONE_CAPTION = (
    " Gap less Local's: what is left of a gap beside that of clients that learn nothing from "
    "others, which says how much harder the new clients' own data are; paired client by client "
    "within each group, with the 95% interval of these differences."
)


VACUOUS = " (vacuous)"
AS_NUMBERS = " (1 is 100%)"
"""What the head of a column says whose errors are plain numbers."""


STEPS_CAPTION = (
    " Serving steps: gradient steps that the study's settings have a new client take before it is "
    "served."
)


def steps_cell(steps: Mapping[str, int], label: str) -> dict[str, str]:
    """Write what serving a new client takes as a cell under its head; none if no model's is known.

    >>> steps_cell({"a": 2600}, "a"), steps_cell({"a": 0}, "a"), steps_cell({}, "a")
    ({'serving steps': '2,600'}, {'serving steps': '0'}, {})
    """
    return {"serving steps": f"{steps[label]:,}" if label in steps else DASH} if steps else {}


def interval(low: float, high: float, write: Callable[[float], str] = percent) -> str:
    """Write the ends of an interval, or a dash where there is none.

    >>> interval(0.02, 0.11), interval(math.nan, math.nan) == DASH
    ('2.0% to 11.0%', True)
    """
    return DASH if math.isnan(low) else f"{write(low)} to {write(high)}"


def gap_in_points(row: Mapping[str, Any]) -> str:
    """Write a gap of errors, points lost with their 95% interval where there is one.

    >>> gap_in_points({"gap": 0.026, "lower": 0.001, "upper": 0.051})
    '+2.6 [+0.1, +5.1]'
    >>> gap_in_points({"gap": 0.026, "lower": math.nan, "upper": math.nan})
    '+2.6'
    """
    if math.isnan(row["lower"]):
        return points(row["gap"])
    return f"{points(row['gap'])} [{points(row['lower'])}, {points(row['upper'])}]"


def bound_name(bound: str) -> str:
    """Name a bound for readers; an unknown one keeps its identifier.

    >>> bound_name("r0:product@band"), bound_name("mine")
    ('held-out clients, product rule, all severities at once', 'mine')
    >>> bound_name("folder/mine.py:b")
    'bound mine.py:b'
    """
    name, _, which = bound.partition("@")
    said = _called(name) or name
    if which == "band":
        return f"{said}, all severities at once"
    return f"{said}, {which}" if which else said


def bound_ids(bounds: Iterable[str]) -> dict[str, str]:
    """Return bounds' identifiers, of one's own without their folders unless two would be alike.

    >>> bound_ids(["r0:/home/me/mine.py:b", "pefll_32"])
    {'r0:/home/me/mine.py:b': 'r0:mine.py:b', 'pefll_32': 'pefll_32'}
    >>> list(bound_ids(["one/mine.py:b", "other/mine.py:b"]).values())
    ['one/mine.py:b', 'other/mine.py:b']
    """
    short = {bound: re.sub(r"(^|:)[^:]*/", r"\1", bound) for bound in bounds}
    alike = Counter(short.values())
    return {bound: name if alike[name] == 1 else bound for bound, name in short.items()}


def _called(bound: str) -> str:
    """Name a published bound, one's own, or one of a route, by itself or by its rule's words."""
    name, _, rule = bound.partition(":")
    route = ROUTES.get(name)
    if bound in PUBLISHED or (rule and route is None):
        return bound_called(bound).words
    if route is None or not rule:
        return ""
    if rule in route.bound_names:
        return route.bound_names[rule]
    if ":" in rule:  # one of somebody's own, told without its folder
        return route.rule_words.format(f"rule {without_folder(rule)}")
    known = rule in {**rules_for(name), **rules_for("zero_one")}
    return route.rule_words.format(RULES[rule].words) if known else ""


def signed(value: float) -> str:
    """Write a correlation with its sign and two digits.

    >>> signed(0.934), signed(-0.2) == MINUS + "0.20", signed(-0.001)
    ('+0.93', True, '0.00')
    """
    if math.isnan(value):
        return DASH
    text = f"{value:+.2f}".replace("-", MINUS)
    return "0.00" if text[1:] == "0.00" else text


def span(values: Sequence[float]) -> str:
    """Write several bounds as their range.

    >>> span([0.21, 0.25]), span([0.2101, 0.2102]), span([40.0, 55.0])
    ('21.0% to 25.0%', '21.1%', '40 to 55')
    """
    return low_to_high(magnitude(min(values)), magnitude(max(values)))


def low_to_high(low: str, high: str) -> str:
    """Write a range of numbers that are already written; one number where they are one.

    >>> low_to_high("2.2%", "9.4%"), low_to_high("2.2%", "2.2%")
    ('2.2% to 9.4%', '2.2%')
    """
    return low if low == high else f"{low} to {high}"


def range_of(values: "pd.Series", write: Callable[[float], str]) -> str:
    """Write the range of a column; what is NaN does not count.

    >>> import pandas as pd
    >>> range_of(pd.Series([0.094, math.nan, 0.022]), percent)
    '2.2% to 9.4%'
    """
    return low_to_high(write(values.min()), write(values.max()))


def between(low: str, high: str) -> str:
    """Say from what to what numbers go, already written; one number where they are one.

    >>> between("2.2%", "9.4%"), between("2.2%", "2.2%")
    ('from 2.2% to 9.4%', '2.2%')
    """
    return low if low == high else f"from {low} to {high}"


def in_one_unit(values: Iterable[float]) -> tuple[Callable[[float], str], str]:
    """Return how a column writes its bounds, and what its head says of their unit.

    Per cent, which every cell says itself; plain numbers, where a bound is above 1.

    >>> write, unit = in_one_unit([0.2161, 1.0, math.nan])
    >>> write(0.2161), unit
    ('21.7%', '')
    >>> write, unit = in_one_unit([0.2161, 31.42])
    >>> write(0.2161), write(31.42), unit
    ('0.217', '31.5', ' (1 is 100%)')
    """
    return (bound_as_number, AS_NUMBERS) if any(value > 1 for value in values) else (magnitude, "")


def others_dealt(dealt: Sequence[str]) -> str:
    """Say under which shifts clients are others; empty where none.

    >>> others_dealt(["extrapolation"])
    ' Under extrapolation other clients are served, not the new ones without shift.'
    >>> others_dealt([])
    ''
    """
    if not dealt:
        return ""
    return f" Under {listing(dealt)} other clients are served, not the new ones without shift."


def file_stem(name: str) -> str:
    """Make a name that may stand in a file name or an id.

    >>> file_stem("r0:product")
    'r0-product'
    """
    return "".join(c if c.isalnum() else "-" for c in name)


def sentence_case(text: str) -> str:
    """Raise the first letter of a plain word and leave names as they are.

    >>> sentence_case("proxy A-distance"), sentence_case("pFedHN"), sentence_case("a bound")
    ('Proxy A-distance', 'pFedHN', 'A bound')
    """
    return text[:1].upper() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
