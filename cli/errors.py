"""What a user can get wrong, said in one line."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


def one_line(message: str) -> str:
    r"""Return a message on one line: a list over several lines becomes a list within it.

    >>> one_line("no such names:\n  a\n  b\n")
    'no such names: a; b'
    """
    joined = re.sub(r"(?<=[:;,])\s*[\r\n]+\s*", " ", message.strip())
    return re.sub(r"\s*[\r\n]+\s*", "; ", joined)


class InputError(ValueError):
    """Bad user input: the message is one plain line that names the key and what is legal."""

    def __init__(self, message: str) -> None:
        # What is shown of a value, of an array say, may span lines.
        super().__init__(one_line(message))


@contextmanager
def refused_at(place: object) -> Iterator[None]:
    """Say first in every refusal where it was: the file, the line or the client."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


class CannotWriteError(OSError):
    """A run directory cannot be written: the message is one plain line that says what is safe."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest the choice that a mistyped name probably meant; no text where nothing is near.

    Examples
    --------
    >>> nearest("quickstrat", ["quickstart", "table1"])
    "; did you mean 'quickstart'?"
    >>> nearest("zzz", ["quickstart"]), nearest("FEDAVG", ["fedavg"])
    ('', "; did you mean 'fedavg'?")
    """
    listed = list(choices)
    # In other letters only where nothing is near as it is written.
    matches = get_close_matches(name, listed, n=1) or [
        one for one in listed if one.casefold() == name.casefold()
    ]
    return f"; did you mean {matches[0]!r}?" if matches else ""
