"""``python -m latecomer``."""

from latecomer.cli import main

if __name__ == "__main__":
    main()
