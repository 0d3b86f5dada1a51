"""Lines to start from, at the end of every command's help; a test parses all and runs the cheap."""

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "run": (
            "latecomer run quickstart",
            "latecomer run quickstart --scale smoke --out runs/try",
            "latecomer run mine.yaml train.rounds=300 'seeds=[0, 1]'",
        ),
        "status": ("latecomer status runs/quickstart",),
        "report": (
            "latecomer report runs/quickstart",
            "latecomer report runs/quickstart --asks shift,gap",
        ),
        "figures": (
            "latecomer figures runs/quickstart --format pdf",
            "latecomer figures runs/quickstart --width 3.25 --font serif",
        ),
        "compare": ("latecomer compare runs/quickstart runs/longer",),
        "studies": ("latecomer studies", "latecomer studies quickstart --long"),
        "methods": ("latecomer methods", "latecomer methods fedavg"),
        "bounds": ("latecomer bounds", "latecomer bounds maurer"),
        "rules": ("latecomer rules", "latecomer rules product"),
        "shifts": ("latecomer shifts", "latecomer shifts blur"),
        "datasets": ("latecomer datasets", "latecomer datasets digits"),
        "bound": (
            "latecomer bound maurer",
            "latecomer bound maurer empirical_risk=.05 kl=100 n_samples=5000 delta=.05",
        ),
        "certify": (
            "latecomer certify losses.csv",
            "latecomer certify losses.csv --pool-size 200 --report page.html",
            "latecomer certify losses.csv --shift kl=.05,.1 --above .3",
        ),
        "watch": (
            "latecomer watch losses.csv --once",
            "latecomer watch losses.csv --plan plan.yaml",
        ),
        "verify": ("latecomer verify losses.csv.ledger",),
        "plan": (
            "latecomer plan --target .25 --expect .17 --sd .09",
            "latecomer plan --target .25 --pilot losses.csv",
        ),
        "recertify": ("latecomer recertify runs/quickstart --certificates more.yaml",),
        "fetch": ("latecomer data fetch mnist",),
        "verify data": ("latecomer data verify mnist",),
    }
)
"""Examples of each command; ``verify data`` are those of ``latecomer data verify``."""


def examples(command: str) -> str:
    r"""Return the end of a command's help, whose lines are not to be wrapped.

    Examples
    --------
    >>> examples("status")
    '\x08\nExamples:\n  latecomer status runs/quickstart'
    """
    return "\n  ".join(("\b\nExamples:", *EXAMPLES[command]))
