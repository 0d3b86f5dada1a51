"""Which target network each client has, where a method makes nets of several sizes."""

import math
from typing import Any

from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.rows import Artifact
from latecomer.models.engine.method import Method
from latecomer.models.generators.target_sizes import shapes_of
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


def client_targets(
    method: Method, task: Task, state: State, federation: Federation
) -> dict[str, Artifact]:
    """Return the artifact ``target_sizes``; nothing for a method without sizes.

    Its records ``group client target weights`` are joined with rows by cell, group and client, so
    that accuracy can be split by size. Shifted new clients have the targets of the unshifted
    ones. A new client served by several seen clients' models has blank entries.
    """
    if not method.sizes:
        return {}

    def entry(group: Group, index: int) -> dict[str, Any]:
        name = method.target_of(state, index if group is federation.seen else None)
        weights = sum(math.prod(shape) for shape in shapes_of(task, name).values())
        return {
            "group": group.name,
            "client": int(group.clients.ids[index]),
            "target": name,
            "weights": weights if name else "",
        }

    groups = (federation.seen, federation.certification, federation.novel)
    table = [entry(group, index) for group in groups for index in range(len(group.clients))]
    return {"target_sizes": Artifact(kind="target_sizes", table=table, axes=("client",))}
