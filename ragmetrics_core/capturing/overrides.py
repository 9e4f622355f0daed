"""What a user may say about where a run's question, contexts and answer are."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data.cells import follow
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample

Source = str | Callable[[Any], Any]


@dataclass(frozen=True)
class Overrides:
    """Where to find a field, instead of the adapter's rules; see ``FrontDoor.capture``.

    Raises:
        SettingError: If a source is neither a text nor callable, or names are given as one text.
    """

    question_from: Source | None = None
    contexts_from: Source | None = None
    answer_from: Source | None = None
    context_tools: Collection[str] | None = None
    build: Callable[[Any], Iterable[Sample]] | None = None

    def __post_init__(self) -> None:
        for name in ("question_from", "contexts_from", "answer_from"):
            source = getattr(self, name)
            if source is not None and not isinstance(source, str) and not callable(source):
                raise SettingError(f"{name} must be a key, a path or a callable, got {type(source).__name__}")
        if isinstance(self.context_tools, str):
            raise SettingError(f"context_tools must be a set of names, got one text; write {{{self.context_tools!r}}}")

    @property
    def needs_data(self) -> bool:
        """Whether a run's inputs and outputs are needed whole, for keys, paths and callables of the user."""
        return any(one is not None for one in (self.question_from, self.contexts_from, self.answer_from, self.build))

    def find(self, field: str, run: Any, *places: Any) -> tuple[bool, Any]:
        """Look a field up as the user said: a callable gets the run, keys lead into the first place that fits.

        Returns:
            Whether the user said where the field is and something is there, and what.
        """
        source = getattr(self, f"{field}_from")
        if source is None:
            return False, None
        if callable(source):
            return True, source(run)
        for place in places:
            for path in ([source], source.split(".")):
                there, value = follow(place, path)
                if there:
                    return True, value
        return False, None
