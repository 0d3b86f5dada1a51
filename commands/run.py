"""``latecomer run``: a study from its file to its report."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latecomer.commands.arguments import real_option, whole_option

Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Change the study, as in train.rounds=300."),
]
Scale = Annotated[
    str | None, typer.Option(help="smoke, reduced or paper; as the study is written if not.")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A variant that the study names; may be repeated."),
]
DeviceName = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or auto, as train.device; cpu if the study does not say."),
]
ExecutorOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="More of an executor, as in partition=gpu."),
]
Sources = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="Take over finished cells of another run directory."),
]
Extend = Annotated[
    bool,
    typer.Option("--extend", help="Add methods, seeds or shifts to what the directory holds."),
]
Workers = Annotated[
    int | None,
    whole_option(
        "--workers", "Cores to use: for cells, then for their clients; all, or a process a GPU."
    ),
]
Gpus = Annotated[float | None, real_option("--gpus-per-cell", "GPUs of a cell, for slurm and ray.")]
Memory = Annotated[float | None, real_option("--memory-per-cell", "GiB of memory of a cell.")]
EverySeconds = Annotated[
    float, real_option("--checkpoint-seconds", "Time between two checkpoints of a training.")
]
EveryRounds = Annotated[
    int | None, whole_option("--checkpoint-rounds", "Rounds between two, if that comes sooner.")
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Try cells again that failed before.")]
Out = Annotated[Path | None, typer.Option(help="Run directory; runs/<study> unless given.")]
ExecutorName = Annotated[
    str, typer.Option(help="Where cells are carried out: local, slurm or ray.")
]
Address = Annotated[str | None, typer.Option(help="Of the Ray cluster; found by Ray unless given.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Tell tensorboard, mlflow or module:function of rounds and results; may be repeated.",
    ),
]
StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="Name of a shipped study, or a YAML file.")
]


def run_study(
    study: StudyName,
    overrides: Changes = None,
    out: Out = None,
    scale: Scale = None,
    variant: Variants = None,
    workers: Workers = None,
    device: DeviceName = None,
    executor: ExecutorName = "local",
    address: Address = None,
    gpus_per_cell: Gpus = None,
    memory_per_cell: Memory = None,
    executor_option: ExecutorOptions = None,
    adopt: Sources = None,
    retry_failed: Retry = False,
    extend: Extend = False,
    checkpoint_seconds: EverySeconds = 60.0,
    checkpoint_rounds: EveryRounds = None,
    track: Track = None,
) -> None:
    """Run a study: train, evaluate, certify, report.

    Finished cells are never run again: the same command continues an interrupted run from the
    last checkpoint of each cell.  Several commands may work in one directory at a time.
    """
    changes = [*(overrides or []), *([f"train.device={device}"] if device else [])]
    elsewhere = (executor != "local", address, gpus_per_cell, memory_per_cell, executor_option)
    if not any((*elsewhere, adopt, retry_failed, extend, track)):
        from latecomer.commands.run_directories import said_again

        lines = said_again(out, study, changes, variant or (), scale)
        if lines is not None:
            typer.echo("\n".join(lines))
            return
    from latecomer.commands.run_display import run_and_report
    from latecomer.eval.runs.executors import choose_executor
    from latecomer.eval.training.checkpoint_slots import CheckpointEvery

    flags: dict[str, Any] = {"workers": workers, "address": address}
    flags |= {"gpus-per-cell": gpus_per_cell, "memory-per-cell": memory_per_cell}
    choice = choose_executor(executor, flags, executor_option or [])
    succeeded = run_and_report(
        study,
        changes,
        out=out,
        scale=scale,
        variants=variant or (),
        where=choice.where,
        workers=choice.workers,
        executor=choice.executor,
        every=CheckpointEvery(seconds=checkpoint_seconds, rounds=checkpoint_rounds),
        adopt=adopt or (),
        retry_failed=retry_failed,
        extend=extend,
        track=track or (),
    )
    if not succeeded:
        raise typer.Exit(1)
