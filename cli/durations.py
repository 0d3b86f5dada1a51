"""Durations in words."""

__all__ = ["duration"]


def duration(seconds: float) -> str:
    """Say a duration.

    >>> duration(7.4), duration(112), duration(3 * 3600 + 125)
    ('7 s', '1 m 52 s', '3 h 2 m')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"
