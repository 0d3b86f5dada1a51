"""Training: the method's contract, schedules, local steps and the loop of rounds."""

from latecomer.extras import require

require("torch")
