"""Drawing one cohort's minibatches from a FEMNIST-sized population (aim: 2 ms)."""

from populations import cifar_shaped

from latecomer.models.engine.schedule import Schedule, TrainConfig

CLIENTS, SUPPORT = 3_597, 227


def test_cohort(benchmark):
    clients = cifar_shaped(CLIENTS, SUPPORT, 1, shape=(1,))
    schedule = Schedule(0, clients, TrainConfig(500, cohort=5, local_steps=50, batch_size=32))
    drawn = benchmark(schedule.cohort, 7)
    assert drawn.rows.shape == (5, 50, 1, 32)
