"""Errors of the command line: one plain line on stderr, exit code 2; 130 when asked to stop.

The libraries underneath draw boxes around errors, wrap them at the terminal's width and spread a
usage error over three lines; a script reading stderr wants the cause and nothing else.
"""

import contextlib
import errno
import os
import re
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from latecomer.errors import InputError, nearest, one_line
from latecomer.eval.runs.stopping import signals_interrupt
from latecomer.extras import advice
from latecomer.files import at_home

_LONG, _SHORT = 500, 60
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_HOME = re.compile(r"(?s)(?<=^--)([\w-]+=)(~.*)$")
# Typer carries its own copy of click or imports the installed one; this finds the one in use.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]


class OneLineErrors(TyperGroup):
    """A command group that turns every expected error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit with 0, 1, 2 or 130."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except InputError as error:
            code = fail(str(error))
        except _CommandLineError as error:
            code = fail(_usage(error))
        except ModuleNotFoundError as error:
            code = fail(_absent(error))
        except OSError as error:
            # Who reads a pipe may leave, as head does: nothing is wrong, and nobody listens.
            code = 1 if error.errno == errno.EPIPE else fail(_system(error))
        _end_output()
        raise SystemExit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C ends it with exit code 130 and the command's own message.

        So does a signal that asks to stop, which by itself would leave drafts of files behind.
        """
        try:
            os.getcwd()
        except FileNotFoundError:
            # Every relative path would fail there, and torch ends the process as it is imported.
            told = "the working directory no longer exists: change to another one"
            raise InputError(told) from None
        try:
            with signals_interrupt():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            fail(str(error) or "interrupted")
            raise typer.Exit(130) from error

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Put home folders in place of ``--out=~/runs``, which shells leave as it is."""
        return super().parse_args(ctx, [_with_home(one) for one in args])

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order in which they are declared."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a subcommand, or name the nearest one."""
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            raise InputError(
                f"no command {args[0]!r}{nearest(args[0], names)}; commands: {', '.join(names)}"
            )
        name, command, rest = super().resolve_command(ctx, args)
        _check_given(type(ctx)(command, info_name=name, parent=ctx), rest)
        return name, command, rest


def _check_given(ctx: Any, args: list[str]) -> None:
    """Refuse an option that is given twice, of which the last would count, or as no text.

    As a path no text is the folder one is in; most often it is a variable that was never set. An
    option whose default is no text may be given as that.
    """
    values, _, given = ctx.command.make_parser(ctx).parse_args(list(args))
    for place, one in enumerate(given):
        option = one.param_type_name == "option"
        called = one.opts[0] if option else one.metavar
        if option and one in given[:place] and not (one.multiple or one.is_flag):
            raise InputError(f"{called} must be given once, got it twice")
        held = values.get(one.name)
        if one.default != "" and "" in (held if isinstance(held, list) else [held]):
            raise InputError(f"{called} must not be empty, got ''")


def _with_home(word: str) -> str:
    return _HOME.sub(lambda option: f"{option[1]}{at_home(option[2])}", word)


def fail(message: str) -> int:
    """Print ``latecomer: message`` as one line on stderr and return exit code 2."""
    # A damaged file may be quoted as one word as long as the whole file.
    line = re.sub(rf"\S{{{_LONG},}}", _shortened, one_line(message))
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    with contextlib.suppress(OSError):  # a terminal that hung up hears nothing
        typer.echo(f"latecomer: {plain}", err=True)
    return 2


def open_streams() -> None:
    """Make every standard stream one that can be written to, whatever the shell has closed.

    A closed one becomes the null device, in its own place: the next file that is opened would get
    its number, and what others print would get into that file.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _end_output() -> None:
    """Write out what is left; where nobody takes it, Python shall not complain as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:_SHORT]}... ({len(word[0])} characters)"


def _usage(error: Any) -> str:
    if hasattr(error, "possibilities") and error.ctx is not None:
        given = error.option_name
        options = [
            o for parameter in error.ctx.command.get_params(error.ctx) for o in parameter.opts
        ]
        return f"no option {given!r} of {error.ctx.command_path!r}{nearest(given, options)}"
    message = str(error.format_message()).strip().removesuffix(".")
    return message[:1].lower() + message[1:]


def _absent(error: ModuleNotFoundError) -> str:
    line = advice(error)
    if not line:
        raise error
    return line


def _system(error: OSError) -> str:
    cause = error.strerror or str(error)
    # Files that are written name themselves.
    where = error.filename or ("standard output" if error.errno in _FULL else "")
    return f"{where}: {cause}" if where else cause
