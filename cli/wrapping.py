"""Text for a terminal of 80 columns."""

import textwrap

WIDTH = 80


def wrapped(text: str, first: str = "", further: str = "") -> list[str]:
    """Wrap a line at 80 columns; words longer than that stay whole.

    Examples
    --------
    >>> wrapped("a" * 60 + " " + "b" * 30, further="  ")[1] == "  " + "b" * 30
    True
    """
    return textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
