"""What functions of the front door take and return, each meaning once, and how results display."""

import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from latecomer.extras import needed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ASKED", "LOSSES", "PLAN", "PREDICTED", "WATCHED", "told_in_full"]

_INPUT_ERROR = """
Raises
------
InputError
    One line that names the argument, or the file and its line, what is legal and what was given.
"""
LOSSES = """
Parameters
----------
losses, source : path, bytes, DataFrame, mapping or sequence
    One loss for each client, in [0, loss_max] (True counts 1, False 0), none of whom took part in
    training, in any order: a CSV (UTF-8, with a header), JSON or Parquet file or its bytes, a
    DataFrame, records or columns, with ``client``, ``loss`` and optionally ``weight`` (rows of one
    client are averaged by it); a mapping client -> loss; a Series or a list of losses.
"""
ASKED = f"""
Parameters
----------
delta : float, in (0, 1); 0.05 unless given
    Probability, over the draw of the clients, that a bound fails.  Each statement has one of its
    own.
rule : str; "blend" unless given
    The inequality behind the bound, settled before the losses were seen.  For any clients:
    ``blend`` (averages bets over random orders of the losses), ``product`` (a client at loss_max
    leaves it nothing to say), ``product_mixture`` (no orders, and survives such a client),
    ``betting_mixture``, ``chernoff_kl``, ``zero_one`` (every loss 0 or loss_max).  For independent
    clients: ``emp_bernstein``, ``wsr_averaged``, ``wsr`` (needs ``order``).  For clients of a pool:
    ``product_wor_averaged``, ``betting_wor_averaged``, ``product_wor``, ``betting_wor``,
    ``wsr_wor`` (these three need ``order``).  ``conformal`` bounds the next client's loss alone;
    ``best_of`` is the tightest of several.  Of one's own: ``file.py:name``, a function of
    ``(losses, delta)``, losses in [0, 1], that returns an upper bound of their clients' mean.
alpha : float, in (0, 1); 0.1 unless given
    Probability that the next client's loss exceeds its bound.  Not together with ``joint``.
pool_size : int, at least the number of clients scored; optional
    Clients in the finite set that these were drawn from without replacement, these included and
    none of them trained on: the mean is then that of this set.  Unless given, clients are
    independent draws of one population.
loss_max : float, above 0; 1 unless given
    Largest loss that is possible, in the unit of the losses; bounds are in this unit too.
seed : int, at least 0; optional
    Repeats the random orders that some rules average over; unless given they are drawn afresh.
order : str, mapping or sequence; optional
    The random order in which clients were drawn, not that of their arrival or ids: a column of
    ranks 1, 2, ... without ties or gaps; or these ranks by client, or one for each loss.
best_of : sequence of str; empty unless given
    Two or more rules of the mean for ``rule="best_of"``: the smallest bound counts, each at its
    part of ``delta``.
trust : bool; False unless given
    Whether a rule of one's own is used without simulating its coverage, by which it is refused if
    it fails more often than it promises.
shifts : mapping of str to sequence of float; empty unless given
    How far other populations Q may be from the certified one, P, settled beforehand: ``kl``: radii
    of KL(Q || P), at least 0, in nats; ``chi2``: of chi2(Q || P), at least 0; ``tv``: of TV(Q, P),
    in [0, 1]; ``subgroup``: least shares of the clients, in (0, 1], that a group makes up.
target : float, in (0, loss_max); optional
    Mean loss to stay below: says how far clients may shift until it is no longer certified, for the
    kinds of ``shifts`` that are named, or for all four.
above : sequence of float, in [0, loss_max); empty unless given
    Losses settled beforehand; for each the share of clients with a larger loss is bounded.
curve : bool; False unless given
    Whether the share of clients above every loss is bounded, all at once; ``delta`` at most 0.5.
by : str; optional
    Column of each client's group, settled before the losses: the mean and the next client of every
    group are bounded.  For independent clients.
against : path, bytes, DataFrame, mapping or sequence; optional
    Losses of another model on the same clients: the mean difference, and the share of clients that
    are served worse, are bounded.
independent : bool; False unless given
    That the clients are no part of a finite set; says so in place of a hint at ``pool_size``.
joint : bool; False unless given
    Whether all statements share ``delta``, so that they hold together with probability 1 - delta.

Returns
-------
CertifiedLosses
    Frozen.  ``certificate`` bounds the mean loss of clients like these and ``next_client`` that of
    one client more (None where the rule says nothing of it): ``float()`` gives the bound, ``terms``
    what it is made of, ``assumptions`` what must be true.  ``shifts``, ``above``, ``curve``,
    ``groups``, ``against`` hold what else was asked.  ``print`` shows what the terminal does;
    ``sentence``, ``table()``, ``to_json()`` and ``report(path)``, a page, say the same.
{_INPUT_ERROR}"""
PREDICTED = """
Parameters
----------
predictor : callable
    ``((x, y), query_x) -> predictions``, given a client's support and the inputs of its query.  It
    must not learn from one client for the next.
clients : mapping
    Client id -> ``(support, query)``, both ``(x, y)``: arrays with one row a point; ``query`` may
    be None with two folds or more.
folds : int, at least 1; 1 unless given
    1: served from support, scored on query.  More: both are cut at random into so many folds, each
    scored by the predictor with the other folds as support.
loss : callable; optional
    ``(predictions, y) -> losses`` in [0, loss_max], one a point; unless given 1 for a wrong
    prediction and 0 for a right one.  A client's loss is the mean over its points.
seed : int, at least 0; optional
    Of the folds, settled beforehand (0 unless given); and it repeats the random orders that some
    rules average over, which are drawn afresh unless it is given.
pool_size : int, at least ten more than the clients scored; optional
    Clients in the finite set that these were drawn from without replacement, these included and
    none of them trained on: the mean is then that of this set.  Unless given, clients are
    independent draws of one population.
**asked
    What is asked of the losses, by keyword: the arguments that follow.
"""
PLAN = f"""
Parameters
----------
target : float, in (0, 1)
    The bound on the mean loss is to be at most this; losses are counted from 0 to 1.
expect : float, in (0, 1); needed without a pilot
    Mean loss that clients are expected to have, the hopeless ones left out.
sd : float, above 0 and below sqrt(expect (1 - expect)); needed without a pilot
    Standard deviation of the clients' losses.
pilot : path, bytes, DataFrame, mapping or sequence; optional
    Losses in [0, 1] of two clients or more, not all equal, which are resampled in place of
    ``expect`` and ``sd``: a file or table with ``client`` and ``loss``, client -> loss, or losses.
hopeless : float, in [0, 1); 0 unless given
    Share of clients with a loss of 1 beside these.
clients : int, at least 1; 500 unless given
    Most clients that can be held out.
delta : float, in (0, 1); 0.05 unless given
    Probability that the certificate may fail.
rule : str; "blend" unless given
    The inequality of the certificate that is planned: ``blend``, ``product``, ``product_mixture``,
    ``chernoff_kl`` or ``betting_mixture``.
seed : int, at least 0; 0 unless given
    Seed of the simulated losses: the same seed gives the same plan.

Returns
-------
HoldOut
    Frozen.  Numbers of clients: ``even_odds`` and ``likely``, with which the certificate is at most
    the target with probability 1/2 and 9/10; ``floor``, with which a rule that draws nothing could
    reach it on equal losses; None where so many are not to be had.  ``print``, ``sentence``,
    ``table()`` and ``to_json()`` say it.
{_INPUT_ERROR}"""
WATCHED = f"""
Parameters
----------
losses : path, bytes, DataFrame, mapping or sequence
    One loss for each client, in [0, loss_max], in the order of their arrival: a CSV, JSON or
    Parquet file or its bytes, or a table, with ``client`` and ``loss``; client -> loss; or losses.
    With ``sets`` a CSV file or its bytes, a row a point, with ``client``, ``label`` and the
    probabilities of all labels, ``p_0``, ``p_1``, ...; the points of a client stand together.
    With ``likeness`` a p-value for each client, in a column ``likeness``.
plan : WatchPlan; optional
    What was settled before the first loss, as one object; else its fields by keyword.
**settings
    The fields of a plan, by keyword, if none is given: the arguments that follow.
rule : str; "product_mixture" unless given
    The inequality, whose bounds after all clients hold together: ``product_mixture``, ``product``
    (a client at loss_max ends its fall) or ``betting_mixture``.
delta : float, in (0, 1); 0.05 unless given
    Probability that any of the bounds, after whichever client, fails.
loss_max : float, above 0; 1 unless given
    Largest loss that is possible, in the unit of the losses; 1 with ``sets``.
threshold : float, in (0, loss_max); optional
    Largest mean loss that is acceptable: an alarm rings when new clients are served worse.
alpha : float, in (0, 1); 0.05 unless given
    Largest probability that the alarm ever rings falsely.
run_length : int, at least 1; 1000 unless given
    Least mean number of clients until a false alarm of the restarted alarm, which sees changes that
    come late.
bets : sequence of float, in (0, 1]
    What the alarms stake on each client; a mixture unless given.
trained_on : str; empty unless given
    What the model that is scored was trained on, in your words; it is kept beside the results.
sets : float, in [0, 1]; optional
    Threshold of 1 - p: a set holds the labels below it, and a client's loss is the share of its
    points whose set misses the true label.
likeness : int, at least 1; optional
    Certified clients among whom new clients are ranked by their inputs: p-values of likeness arrive
    in place of losses, nothing is certified, and the alarms ring for new clients unlike those
    clients.  Only ``alpha``, ``run_length``, ``bets`` and ``trained_on`` may stand beside it.

Returns
-------
Watched
    Frozen.  ``moments``, one a client: ``client``, ``loss``, ``mean`` so far, ``certificate``
    (bound on the mean loss of clients still to come), ``evidence`` and ``restarted`` of a change,
    None without a threshold.  ``print``, ``sentence``, ``table()``, ``to_json()`` say it.
{_INPUT_ERROR}"""

_HEADING = re.compile(r"\n*^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)
_SECTIONS = ("Parameters", "Returns", "Raises", "Examples")
F = TypeVar("F", bound=Callable[..., Any])


def told_in_full(*texts: str) -> Callable[[F], F]:
    r"""Give ``help()`` of a function an entry for every parameter, and sections that it lacks.

    What several functions take is written once, as numpydoc sections; a page says where, with a
    link, but a terminal has none.  The first text that has an entry or a section gives it.  What a
    function takes by ``**keyword`` are the parameters of the texts that are not in its signature.

    Examples
    --------
    >>> @told_in_full("Parameters\n----------\nx, y : float\n    A side, in metres.")
    ... def area(x, y):
    ...     '''Multiply.'''
    >>> area.__doc__.splitlines()[-2:]
    ['y : float', '    A side, in metres.']
    """

    def complete(function: F) -> F:
        own, others = _sections(function.__doc__), [_sections(text) for text in texts]
        shared: dict[str, str] = {}
        for one in others:
            shared = _entries(one.get("Parameters", "")) | shared
        entries = _entries(own.get("Parameters", "")) | shared
        given = inspect.signature(function).parameters
        keywords = [name for name, one in given.items() if one.kind is one.VAR_KEYWORD]
        listed = [f"**{name}" if name in keywords else name for name in given]
        if keywords:
            listed += [name for name in shared if name not in listed]
        told: dict[str, str] = {}
        for one in (own, *others):
            told = one | told
        told["Parameters"] = "\n".join(entries[name] for name in listed)
        parts = [f"{name}\n{'-' * len(name)}\n{told[name]}" for name in _SECTIONS if name in told]
        function.__doc__ = "\n\n".join([told[""], *parts]) + "\n"
        return function

    return complete


def _sections(docstring: str | None) -> dict[str, str]:
    """Return the sections of a docstring by heading, what stands before them under no heading."""
    head, *rest = _HEADING.split(f"\n{inspect.cleandoc(docstring or '')}")
    return {"": head.strip()} | dict(zip(rest[::2], map(str.rstrip, rest[1::2]), strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name; one of several names is an entry of each."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        listed, colon, rest = entry.partition(" : ")
        if not colon:
            listed, _, rest = entry.partition("\n")
            rest = f"\n{rest}" if rest else ""
        found |= {name: f"{name}{colon}{rest}" for name in listed.split(", ") if name}
    return found


@dataclass(frozen=True, eq=False)
class Stated:
    """One statement, whose ``str()`` is what the terminal prints about it.

    Attributes
    ----------
    words : tuple of str
        Its lines.
    """

    words: tuple[str, ...] = field(default=(), kw_only=True, repr=False)

    def __str__(self) -> str:
        return "\n".join(self.words)


class Shown(ABC):
    """A result that displays what the terminal prints."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return one record per statement."""

    def table(self) -> "pd.DataFrame":
        """Return a frame with one row per statement; needs pandas."""
        frame: pd.DataFrame = needed("pandas", "a table").DataFrame(self.rows())
        return frame

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What it says in one sentence."""

    @property
    def closing(self) -> str:
        """What ends the output after all statements; maybe empty."""
        return ""

    def to_json(self) -> str:
        """Return JSON without NaN or infinity, as the terminal prints it with ``--json``."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def _repr_html_(self) -> str:
        rows = self.rows()
        lines = [_line(rows[0], "th"), *(_line(row.values(), "td") for row in rows)]
        end = f"\n<p>{escape(self.closing)}</p>" if self.closing else ""
        return f"<p>{escape(self.sentence)}</p>\n<table>{''.join(lines)}</table>{end}"


def _line(cells: Iterable[Any], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_text(cell))}</{tag}>' for cell in cells)}</tr>"


def _text(cell: Any) -> str:
    if cell is None or cell != cell:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
