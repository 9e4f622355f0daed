"""Settings of the framework under test."""

import os

# Read when haystack is imported, which is after this file.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
