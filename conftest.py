"""Settings of all tests."""

from hypothesis import settings

# Times differ by machine and load: no test may fail for them.
settings.register_profile("any machine", deadline=None, database=None)
settings.load_profile("any machine")
