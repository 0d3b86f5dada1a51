"""Property tests draw the same examples in every run, whatever the speed of the machine."""

from hypothesis import settings

settings.register_profile("seeded", derandomize=True, deadline=None)
settings.load_profile("seeded")
