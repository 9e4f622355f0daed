"""Settings of all tests."""

import os

from hypothesis import settings

# Tests call no host, so the frameworks must not either; they read this when they are imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"

# Times differ by machine and load: no test may fail for them.
settings.register_profile("any machine", deadline=None, database=None)
settings.load_profile("any machine")
