"""Tells that spans hold texts in part: cut by an SDK, or previews of documents. Pure.

A limit of length shows itself: several unlike texts have it, and none is longer; or
JSON breaks off there. Nothing is mended. A sample of such spans is *incomplete*, and
what became of its passages is unknown.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data import PassageNote, Sample
from ragmetrics_core.traces.spans import Span

_SHORTEST_LIMIT = 64  # of a length at which an SDK cuts texts
# JSON and no text that begins with a bracket, such as "[1] The bridge"
_SURE_JSON_BEGINS = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_LONGEST_TOKEN = 6  # "\\u00e9": behind its first letter JSON may break off within it

_DOTS = ("...", "…", "...]", "…]", "...)", "…)")


def cut_spans_of(spans: Sequence[Span]) -> set[str]:
    """Find the spans of a trace whose values were cut at a limit of their length.

    JSON that breaks off at its end was cut, so its length is the limit. Example: a text
    of 4096 characters ends with ``{"text": "Ro``: each span with a text of this length
    was cut.

    Args:
        spans: The spans of one trace.

    Returns:
        The ids of the spans; empty if nothing was cut.
    """
    texts = list(chain.from_iterable(map(_texts_of, spans)))
    limits = {len(text) for text in texts if _is_json_that_breaks_off(text)}
    if not limits:
        return set()
    return {
        span.id
        for span in spans
        if any(len(text) in limits for text in _texts_of(span))
    }


def _at_a_limit(texts: Collection[str]) -> set[str]:
    """The texts that end at a limit: several unlike ones that are as long as the longest."""
    longest = max(map(len, texts), default=0)
    unlike_texts = {text for text in texts if len(text) == longest}
    is_limit = longest >= _SHORTEST_LIMIT and len(unlike_texts) > 1
    return unlike_texts if is_limit else set()


def _texts_of(span: Span) -> Iterator[str]:
    """Yield the texts that a span recorded, also those in lists."""
    for value in span.attributes.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, str):
                    yield element


def _is_json_that_breaks_off(text: str) -> bool:
    """Whether a text is JSON up to its end, and lacks what should stand behind that."""
    if len(text) < _SHORTEST_LIMIT or not _SURE_JSON_BEGINS.match(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_open_text = error.msg.startswith("Unterminated string")
        return is_open_text or error.pos >= len(text) - _LONGEST_TOKEN
    except (ValueError, RecursionError):
        return False  # a number that is too long, or too many brackets
    return False


def are_documents_cut(root: Node) -> bool:
    """Whether documents of a run are recorded in part.

    They end at one length, unless a prompt shows that they do, or in dots that no prompt
    shows. Example: a span holds "Rome has been the…", and a prompt shows more of it.
    """
    texts: set[str] = set()
    shown_texts: list[str] = []
    for node in root.walk():
        for document in (*(node.documents or ()), *node.input_documents):
            texts.add(document.text)
        if node.kind == "model":
            shown_texts += [message.text for message in node.prompt]
    at_limit = _at_a_limit(texts)
    # Do prompts show some of these, and none in the midst of words? Then a splitter made
    # passages equally long.
    letters_behind = [
        shown[shown.index(text) + len(text) :][:1]
        for text in at_limit
        for shown in shown_texts
        if text in shown
    ]
    do_end_in_words = any(
        letter.isalnum() or letter == " " for letter in letters_behind
    )
    if at_limit and (do_end_in_words or not letters_behind):
        return True
    if _at_a_limit({*texts, *shown_texts}):
        return True
    return any(
        text.rstrip().endswith(_DOTS)
        and not any(text.strip() in shown for shown in shown_texts)
        for text in texts
    )


def with_unknown_fates(sample: Sample) -> Sample:
    """Make unknown what became of the passages of a sample that lacks recorded texts.

    A passage that is not found may stand behind a cut, in the prompt or in what a step
    returned. Any other sample is returned as it is.
    """
    notes = sample.capture
    if notes is None or "not_recorded" not in notes.doubts:
        return sample
    unknown = tuple(PassageNote() for _ in sample.retrieved or ())
    changed_notes = notes.model_copy(update={"passages": unknown})
    return sample.model_copy(update={"capture": changed_notes})
