"""The page about the next site holds what its program makes, and what its words say of it."""

import pytest

LIMITS = (0.2, 0.2, 0.2, 0.05, 0.2)


@pytest.fixture(scope="module")
def program(building):
    return building("next_site")


@pytest.fixture(scope="module")
def page(program):
    return program.PAGE.read_text("utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_the_example_is_computed_anew(program, page, block):
    assert block(page, "example") == program.example_lines()


@pytest.mark.slow
def test_a_line_is_drawn_from_seeds(program):
    world = program.WORLDS["hopeless"]
    drawn = [program.missed(world, 6, seed)["sets"] for seed in range(20)]
    assert drawn == [program.missed(world, 6, seed)["sets"] for seed in range(20)]
    assert len(set(drawn)) > 1


def test_certificates_keep_what_they_state_and_intervals_do_not(program, page, block):
    lines = [cells(line) for line in block(page, "misses")]
    assert [(one[0], int(one[1])) for one in lines] == [
        (world.words, sites) for world in program.WORLDS.values() for sites in program.SITES
    ]
    for line in lines:
        for share, limit in list(zip(map(float, line[2:]), LIMITS, strict=True))[2:]:
            assert share <= limit + 2 * (limit * (1 - limit) / program.TRIALS) ** 0.5
    skewed = next(one for one in lines if one[0].startswith("skewed") and one[1] == "30")
    assert float(skewed[2]) > 0.3
