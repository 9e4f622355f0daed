"""Which samples belong together, such as the turns of one conversation."""

import json
from collections.abc import Callable, Hashable

from ragmetrics_core.data.cells import follow
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample

GroupBy = str | Callable[[Sample], object] | None
"""What tells which samples belong together: a name or dotted path of the sample or its metadata, a callable that
gets the sample, ``"auto"``, or None for samples that are independent."""

_CONVERSATIONS = ("conversation_id", "conversation", "session_id", "thread_id", "chat_id")
_LEDGER = "ledger.conversation"
_CAPTURED = (*_CONVERSATIONS, _LEDGER, "document_id", "source_document")  # a name that the caller gave comes first


def group_of(sample: Sample | None, by: GroupBy) -> Hashable | None:
    """The key that a sample is grouped by; None for a sample without one, which then stands alone.

    ``by`` is a name or dotted path (``"conversation_id"``, ``"metadata.user.id"``), a callable, ``"auto"`` for the
    conversation that the metadata or else the ledger name, else the source document of the metadata, or None.
    """
    if by is None or sample is None:
        return None
    conversation = sample.ledger.conversation if sample.ledger else None
    if callable(by):
        return _hashable(by(sample))
    if by == "auto":
        own = {**sample.metadata, _LEDGER: conversation}
        return next((f"{name}={_hashable(own[name])}" for name in _CAPTURED if own.get(name) is not None), None)
    if not by:
        raise SettingError('cluster= takes a name, a path, a callable, "auto" or None; got ""')
    found = follow(sample.metadata, by.removeprefix("metadata.").split("."))[1]
    found = conversation if found is None and by == "conversation" else found
    return _hashable(getattr(sample, by) if found is None and by in Sample.model_fields else found)


def _hashable(value: object) -> Hashable | None:
    return value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)


def numbering(by: GroupBy) -> Callable[[Sample | None], int]:
    """A function that numbers the groups of samples in order of appearance; −1 for a sample that stands alone."""
    known: dict[Hashable, int] = {}

    def number_of(sample: Sample | None) -> int:
        key = group_of(sample, by)
        return -1 if key is None else known.setdefault(key, len(known))

    return number_of
