"""Training: the method's contract, schedules, local steps and the loop of rounds."""

from latecomer.errors import require

require("torch")
