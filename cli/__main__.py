"""``python -m latecomer``."""

from latecomer.commands.app import main

if __name__ == "__main__":
    main()
