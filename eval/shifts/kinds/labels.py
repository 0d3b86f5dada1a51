"""Shifts of labels: new clients instead of new inputs."""

from latecomer.eval.shifts.kinds.declaration import Shift

SHIFTS = (
    Shift(
        name="extrapolation",
        description="new clients with other class proportions, dealt from the reserve",
        unit="Dirichlet alpha",
        low=1e-4,
        high=1e6,
        above_zero=True,
        neutral=None,
        images=False,
        joint="draws other clients, so that the certified ones are no sample of a pool",
        axis="Dirichlet alpha of the new clients",
    ),
)
