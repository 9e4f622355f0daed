"""What a user may say about where a run's question, contexts and answer are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data.cells import follow
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample

Source = str | Callable[[Any], Any]


@dataclass(frozen=True)
class Overrides:
    """Where to find a field, instead of the adapter's rules.

    Args:
        question_from: A key or dotted path into the run's inputs or outputs, or a callable that gets the run.
        contexts_from: The same for the contexts.
        answer_from: The same for the answer.
        build: A callable from the run to its samples, instead of all rules.
    """

    question_from: Source | None = None
    contexts_from: Source | None = None
    answer_from: Source | None = None
    build: Callable[[Any], Iterable[Sample]] | None = None

    def find(self, field: str, run: Any, *places: Any) -> tuple[bool, Any]:
        """Look a field up as the user said.

        Args:
            field: ``question``, ``contexts`` or ``answer``.
            run: What a callable gets.
            *places: Mappings that a key or path is followed through, the first hit wins.

        Returns:
            Whether the user said where the field is and something is there, and what.

        Raises:
            SettingError: If a source is neither a text nor callable.
        """
        source = getattr(self, f"{field}_from")
        if source is None:
            return False, None
        if callable(source):
            return True, source(run)
        if not isinstance(source, str):
            raise SettingError(f"{field}_from must be a key, a path or a callable, got {type(source).__name__}")
        for place in places:
            for path in ([source], source.split(".")):
                there, value = follow(place, path)
                if there:
                    return True, value
        return False, None
