"""What each method needs of a client that never trained, what it makes for it, and the cost."""

from latecomer.commands.listings import SUPPORT, newcomers


def newcomer_table(which: str) -> str:
    """Return what a new client gets of methods, ``all`` or one, as a table."""
    heads = ("method", "labels", "points, at least", "what it gets", "steps", "rounds")
    numbers = (f"sent to it ({SUPPORT} points)", "sent by it")
    lines = ["| " + " | ".join((*heads, *numbers)) + " |", "|---|---|--:|---|--:|--:|--:|--:|"]
    for told in newcomers():
        if which in ("all", told["name"]):
            cost = (f"{told[key]:,}" for key in ("steps", "rounds", "down", "up"))
            labels = "read" if told["labels"] else "none"
            made = (f"{told['called']} (`{told['name']}`)", labels, str(told["points"]))
            lines.append("| " + " | ".join((*made, told["gets"], *cost)) + " |")
    return "\n".join(lines)
