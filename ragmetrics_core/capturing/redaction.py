"""Taking out of a sample what nobody else may see, before anybody does."""

from __future__ import annotations

from collections.abc import Callable

from ragmetrics_core.capturing.guarded import Problems, guarded
from ragmetrics_core.data.sample import Sample

Redact = Callable[[Sample], Sample]


class Redaction:
    """Applies the user's function to each sample as it is made.

    Args:
        redact: Gives the sample to keep; None keeps samples as they are.
        problems: Where samples are counted that were dropped because the function failed.
    """

    def __init__(self, redact: Redact | None, problems: Problems) -> None:
        self._redact = redact
        self.problems = problems

    @guarded
    def redact(self, sample: Sample) -> Sample | None:
        """The sample to keep; None, counted, where the function raises or gives no sample."""
        if self._redact is None:
            return sample
        found: object = self._redact(sample)
        if isinstance(found, Sample):
            return found
        self.problems.note(f"redact= must return a Sample and returned {type(found).__name__}: the sample is dropped")
        return None
