"""Declaration of a measure and of a published bound, for studies, cells, the work and reports."""

from dataclasses import dataclass
from typing import Any

from latecomer.declared import imported


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a study may ask of every trained model by name.

    Attributes
    ----------
    name : str
        Its name in a study.
    work : str
        ``module:function`` of a ``TrainedModel``, imported when a cell does the work, so that
        listing loads no torch.
    """

    name: str
    work: str

    def follow(self, *given: Any) -> Any:
        """Do the work."""
        return imported(self.work)(*given)


@dataclass(frozen=True, kw_only=True)
class Measure(Asked):
    """Something of ``evaluation.measures``: its work returns rows, and artifacts by name.

    Attributes
    ----------
    description : str
        One line.
    along_training : bool
        Whether it is measured only along the training, at the rounds ``evaluation.every`` says.
    numbers_version : int
        Raised when the code gives other numbers for the same configuration.
    """

    work: str = ""
    description: str
    along_training: bool = False
    numbers_version: int = 1


@dataclass(frozen=True, kw_only=True)
class Published(Asked):
    """Something of ``bounds``: its work yields a ``PublishedBound`` for each group it is about.

    Attributes
    ----------
    words : str
        What reports call it.
    """

    words: str


@dataclass(frozen=True, kw_only=True)
class OwnPlace(Published):
    """A bound of one's own, by its place, of which its work is told.

    Attributes
    ----------
    trusted : bool
        Whether it is used without simulating its coverage.
    """

    trusted: bool = False

    def follow(self, *given: Any) -> Any:
        """Do the work."""
        return super().follow(self.name, self.trusted, *given)
