"""What the test of the Ray executor has another interpreter do, one that has Ray.

``ray_driver.py ADDRESS FOLDER DOUBLE NAME...`` carries out cells of a double on a cluster and
prints every report as a line of JSON; ``stop`` after the names ends the run at the first round.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from cell_doubles import jobs_of

from latecomer.eval.runs.ray import RayExecutor


def main(address, folder, double, *names):
    stop = names[-1] == "stop"
    names = names[:-1] if stop else names
    cells = Path(folder) / "cells"
    cells.mkdir(parents=True)
    jobs = jobs_of(double, names, cells)

    def tell(report):
        print(json.dumps(asdict(report)), flush=True)
        if stop and report.kind == "round":
            raise KeyboardInterrupt

    RayExecutor(address=address).run(jobs, tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
