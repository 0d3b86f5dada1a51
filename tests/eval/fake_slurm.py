"""Slurm's commands for one machine, as far as submitit asks for them.

``install(folder)`` writes ``sbatch``, ``srun``, ``sacct`` and ``scancel``; a job is a group of
processes.  A file ``<job>.state`` in the folder is the state that ``sacct`` gives for
a job that is over.
"""

import sys
from pathlib import Path

_START = """#!{python} -IS
import os, signal, subprocess, sys
from pathlib import Path
here = Path({folder!r})

def alive(job):
    try:
        pid = (here / (job + ".pid")).read_text()
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False

"""

_COMMANDS = {
    "sbatch": """
if (here / "full").exists():
    sys.exit("sbatch: error: Batch job submission failed: no more jobs for you")
job = str(len(list(here.glob("*.sh"))) + 1)
text = Path(sys.argv[1]).read_text()
(here / (job + ".sh")).write_text(text)
env = {**os.environ, "SLURM_JOB_ID": job}
done = subprocess.Popen(
    ["bash", str(here / (job + ".sh"))], env=env, start_new_session=True,
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
(here / (job + ".pid")).write_text(str(done.pid))
print("Submitted batch job", job)
""",
    "srun": """
words = sys.argv[1:]
files = {}
while words[0].startswith("-"):
    word = words.pop(0)
    if word in ("--output", "--error"):
        name = words.pop(0).replace("%j", os.environ["SLURM_JOB_ID"]).replace("%t", "0")
        files[word] = open(name, "ab")
env = {**os.environ, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
       "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "localhost"}
sys.exit(subprocess.call(words, env=env, stdout=files["--output"], stderr=files["--error"]))
""",
    "sacct": """
print("JobID|State|NodeList")
for job in [word for before, word in zip(sys.argv, sys.argv[1:]) if before == "-j"]:
    state = here / (job + ".state")
    over = state.read_text() if state.exists() else "COMPLETED"
    print(f"{job}|{'RUNNING' if alive(job) else over}|localhost")
""",
    "scancel": """
with (here / "cancelled").open("a") as file:
    file.write(sys.argv[1] + "\\n")
if alive(sys.argv[1]):
    os.killpg(int((here / (sys.argv[1] + ".pid")).read_text()), signal.SIGTERM)
""",
}


def install(folder: Path) -> Path:
    """Write the commands into ``folder / "bin"`` and return that."""
    place = folder / "bin"
    place.mkdir(parents=True)
    for name, text in _COMMANDS.items():
        command = place / name
        command.write_text(_START.format(python=sys.executable, folder=str(folder)) + text)
        command.chmod(0o755)
    return place
