"""Tells by the lengths of recorded values that an SDK cut them at a limit. Pure.

An SDK of OpenTelemetry cuts each text at its limit of attribute length, and leaves no
count of that.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ragmetrics_core.data import PassageNote, Sample, json_value
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.unread import with_unread_texts
from ragmetrics_core.traces.notes import (
    DOCUMENTS_ARE_IN_PART,
    DOCUMENTS_IN_PART,
    VALUES_CUT,
    VALUES_WERE_CUT,
)
from ragmetrics_core.traces.spans import Span

_SHORTEST_LIMIT = 64  # shorter texts have one length by chance
_JSON_BEGINS = ("{", "[")
_JSON_ENDS = ("}", "]")
# JSON and no text that begins with a bracket, such as "[1] The bridge"
_SURE_JSON_BEGINS = lazy_pattern(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_LONGEST_TOKEN = 6  # "\\u00e9": behind its first letter JSON may break off within it
_FEWEST_CUT = 2  # unlike values of one length
# what capture says of documents that it did not find in the prompt
_NOT_SHOWN = "retrieved documents were not shown to the model"
# and of a document whose note of its cutting stands in no prompt
_CONTEXT_CUT = lazy_pattern(r"context \d+ was cut to .*")


def cut_spans_of(spans: Sequence[Span]) -> set[str]:
    """Find the spans of a trace whose values were cut at a limit of their length.

    Example: three values of a trace have 4096 characters, and one of the three is JSON
    that ends with ``{"text": "Ro``: the spans of all three were cut.

    Args:
        spans: The spans of one trace.

    Returns:
        The ids of the spans; empty if nothing was cut.
    """
    limits = _limits_of_length(_texts_of(spans))
    ids = set()
    for span in spans:
        lengths = {len(text) for text in _texts_of([span])}
        if not limits.isdisjoint(lengths):
            ids.add(span.id)
    return ids


def _limits_of_length(texts: Iterable[str]) -> set[int]:
    """Find the lengths at which texts of a trace were cut, by JSON that breaks off.

    There may be several: 4096 for a prompt, and 1000 for a tool's result. Plain texts
    of one length are no sign: a splitter makes chunks of one length.
    """
    texts_by_length: dict[int, set[str]] = {}
    for text in texts:
        if len(text) >= _SHORTEST_LIMIT:
            texts_by_length.setdefault(len(text), set()).add(text)
    greatest_length = max(texts_by_length, default=0)
    limits = set()
    for length, texts_of_length in texts_by_length.items():
        if len(texts_of_length) < _FEWEST_CUT:
            continue
        # Longer texts are there, so this length may be chance: a surer sign is needed.
        if length < greatest_length:
            is_limit = _hold_json_cut_at_its_end(texts_of_length)
        else:
            is_limit = _hold_broken_json(texts_of_length)
        if is_limit:
            limits.add(length)
    return limits


def _hold_broken_json(texts: Collection[str]) -> bool:
    """Whether some texts begin as JSON, and none is whole JSON.

    Example: "Rome is old. It f" and ``{"text": "Rome is``. Whole JSON of the same length,
    ``{"text": "Rome."}``, would show that there is no limit.
    """
    has_json = any(map(_SURE_JSON_BEGINS.match, texts))
    return has_json and not any(map(_is_whole_json, texts))


def _hold_json_cut_at_its_end(texts: Collection[str]) -> bool:
    """Whether a text is JSON up to its very end, and none ends with a closing bracket.

    Text that only begins as JSON is no such sign, as "[{'a': 1}] is a list" in Python.
    """
    has_whole_json = any(
        text.startswith(_JSON_BEGINS) and text.endswith(_JSON_ENDS) for text in texts
    )
    return not has_whole_json and any(map(_is_json_that_breaks_off, texts))


def forget_losses_behind_cuts(sample: Sample) -> Sample:
    """Make unknown what a sample of texts in part says of lost passages.

    A passage that is not found may stand behind the cut, in the prompt or in what a step
    returned. So it is not known whether a step dropped it, or whether the model was
    shown it. Of a document that was recorded in part nobody knows either whether it was
    shown whole. Such a sample is *incomplete*; any other is returned as it is.
    """
    if _is_warned_of(sample, VALUES_WERE_CUT):
        reason = VALUES_CUT.format("some")
        sample = _with_unknown_passages(sample, _without_loss, reason)
    if _is_warned_of(sample, DOCUMENTS_ARE_IN_PART):
        reason = DOCUMENTS_IN_PART.format("some")
        sample = _with_unknown_passages(sample, _without_share, reason)
    return sample


def _is_warned_of(sample: Sample, what: str) -> bool:
    """Whether a warning of the sample holds some words."""
    notes = sample.capture
    return notes is not None and any(what in words for words in notes.warnings)


def _with_unknown_passages(
    sample: Sample, forget: Callable[[PassageNote], PassageNote], reason: str
) -> Sample:
    """Return a sample as *incomplete*, with what is unknown taken out of its passages.

    Example: a prompt was cut, so a passage that was not found in it may stand behind
    the cut: the note "not shown" and the warning of it go. A sample without notes is
    returned as it is.

    Args:
        sample: The sample.
        forget: Takes a passage's note, and returns it without what is unknown.
        reason: Why the sample may lack texts that were retrieved, in words.
    """
    notes = sample.capture
    if notes is None:
        return sample
    passages = notes.passages
    if passages is not None:
        passages = tuple(map(forget, passages))
    warnings = tuple(
        words
        for words in notes.warnings
        if _NOT_SHOWN not in words and not _CONTEXT_CUT.fullmatch(words)
    )
    changes = {"grade": "incomplete", "passages": passages, "warnings": warnings}
    notes = with_unread_texts(notes.model_copy(update=changes), reason)
    return sample.model_copy(update={"capture": notes})


def _without_loss(note: PassageNote) -> PassageNote:
    """The note of a passage, where a loss that it tells becomes unknown."""
    changes: dict[str, None] = {}
    if note.share is not None and note.share < 1:
        changes["share"] = None
    if note.kept is False:
        changes |= {"kept": None, "dropped_by": None}
    return note.model_copy(update=changes)


def _without_share(note: PassageNote) -> PassageNote:
    """The note of a passage, where it is unknown how much of it was shown."""
    return _without_loss(note).model_copy(update={"share": None})


def _texts_of(spans: Sequence[Span]) -> Iterator[str]:
    """Yield the texts that spans recorded, also texts inside lists."""
    for span in spans:
        for value in span.attributes.values():
            yield from _texts_in(value)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the text that a value is, or the texts of a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, str):
                yield element


def _is_whole_json(text: str) -> bool:
    """Whether a text is a whole list or object of JSON."""
    if not text.startswith(_JSON_BEGINS):
        return False
    try:
        json_value(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_json_that_breaks_off(text: str) -> bool:
    """Whether a text is JSON up to its end, and lacks what should stand behind that."""
    if not _SURE_JSON_BEGINS.match(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_open_text = error.msg.startswith("Unterminated string")
        return is_open_text or error.pos >= len(text) - _LONGEST_TOKEN
    except (ValueError, RecursionError):
        return False  # a number that is too long, or too many brackets
    return False
