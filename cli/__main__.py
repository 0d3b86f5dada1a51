"""The command ``latecomer``, and ``python -m latecomer``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is loaded ends it in one line, as it does later."""
    try:
        from latecomer.commands.app import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("latecomer: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
