"""What a round takes as clients grow, of a kept run of ``tests/benchmarks/rounds/growth.py``."""

import json
from pathlib import Path

from blocks import table

KEPT = Path(__file__).resolve().parents[2] / "reports" / "reference" / "benchmarks" / "growth.json"


def growth_table(_: str) -> str:
    """Return time and memory by method and number of clients, under what was measured."""
    kept = json.loads(KEPT.read_text("utf-8"))
    setting = kept["setting"]
    about = (
        f"A dense net on {setting['features']} features; {setting['support']} points a client, "
        f"{setting['cohort']} clients a round, {setting['local_steps']} steps of batches of "
        f"{setting['batch_size']}; {kept['machine']['cpu']}, one thread, torch "
        f"{kept['machine']['torch'].split('+')[0]}. A round's time is the processor's, the mean of "
        f"{kept['rounds'] - 1}; memory is by how much a process grew in training."
    )
    heads = ("method, clients", "round, ms", "memory, MiB", "of which clients keep", "data, MiB")
    rows = (
        (
            f"`{method}`, {int(count):,}",
            f"{one['round_ms']:.1f}",
            f"{one['training_mib']:.0f}",
            f"{one['kept_by_clients_mib']:.1f}",
            f"{one['data_mib']:.1f}",
        )
        for method, found in kept["found"].items()
        for count, one in found.items()
    )
    return "\n".join([about, "", *table(heads, rows, numbers=True)])
