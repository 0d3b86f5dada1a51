"""A prefix code for short lists of small whole numbers, most of them 0.

First the number of nonzero entries, plus 1, in Elias's gamma code; then for each such entry its
place, sign and size. No code word begins another, so the lengths satisfy Kraft's inequality.
"""

from collections.abc import Sequence


def _gamma(number: int) -> str:
    digits = bin(number)[2:]
    return "0" * (len(digits) - 1) + digits


def _width(length: int) -> int:
    return max(length - 1, 0).bit_length()


def encode(entries: Sequence[int]) -> str:
    """Return the code word as zeros and ones; the length of the list is known to both sides.

    >>> encode([0, 0, 0, 0]), encode([0, -2, 0, 0])
    ('1', '010011010')
    """
    kept = [(place, entry) for place, entry in enumerate(entries) if entry]
    word = _gamma(len(kept) + 1)
    for place, entry in kept:
        width = _width(len(entries))
        word += format(place, f"0{width}b") if width else ""
        word += ("1" if entry < 0 else "0") + _gamma(abs(entry))
    return word


def decode(word: str, length: int) -> tuple[list[int], int]:
    """Return the list encoded at the start of a stream, and how many digits its code word has.

    >>> decode("010011010" + "111", 4)
    ([0, -2, 0, 0], 9)
    """
    at = 0

    def number(digits: int) -> int:
        nonlocal at
        at += digits
        return int(word[at - digits : at], 2) if digits else 0

    def gamma() -> int:
        zeros = word.index("1", at) - at
        return number(2 * zeros + 1)

    entries = [0] * length
    for _ in range(gamma() - 1):
        place = number(_width(length))
        negative = number(1)
        size = gamma()
        entries[place] = -size if negative else size
    return entries, at
