"""The command line as tests ask it."""

from functools import partial

from typer.testing import CliRunner

from latecomer.commands.app import app


def invoke(*arguments: str, held: bytes | None = None) -> tuple[int, str, str]:
    """Return exit code and what went to both outputs; ``held`` is standard input."""
    done = CliRunner().invoke(app, list(arguments), input=held, prog_name="latecomer")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def text(*arguments: str) -> str:
    """Return what a command prints that has nothing to complain of."""
    code, out, err = invoke(*arguments)
    assert (code, err) == (0, "")
    return out


certified = partial(text, "certify")
