"""Runs a study; every process says after every cell what it holds.

``soak.py STUDY FOLDER`` prints lines of JSON: the process (a worker's id, or ``self`` for the
process that runs the study), its open files, and the KiB it has allocated and not freed.

What is resident is no measure of that: a page stays as long as one small block in it is used, and
which pages do differs between runs by more than a leak amounts to.
"""

import ctypes
import gc
import json
import os
import sys

from latecomer.eval.runs import local
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study

# Python's own allocator tells how many blocks are used, of up to 512 bytes each.
KIB_PER_BLOCK = 0.5


class Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "mapped"),
            *("usmblks", "fsmblks", "used", "free", "keepcost"),
        )
    ]


def tell(process):
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    memory = mallinfo()
    held = (memory.used + memory.mapped) / 1024 + KIB_PER_BLOCK * sys.getallocatedblocks()
    files = len(os.listdir("/proc/self/fd"))
    line = json.dumps({"process": process, "files": files, "held": held}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())  # whole, with three processes writing


def attempt(*job, carry_out=local.attempt):
    end = carry_out(*job)
    tell(os.getpid())
    return end


def on_event(event):
    if event.kind == "done":
        tell("self")


# What imports brought need not be looked through after every cell.
gc.freeze()
if __name__ == "__mp_main__":  # a worker, which imports the file that started it
    local.attempt = attempt
if __name__ == "__main__":
    run(load_study(sys.argv[1]), out=sys.argv[2], workers=2, on_event=on_event)
