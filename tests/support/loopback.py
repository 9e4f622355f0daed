"""The shipped server under the short name by which the tests and the processes they start import it."""

from ragmetrics_core.testing.loopback import *  # noqa: F403
