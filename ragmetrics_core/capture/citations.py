"""What a captured answer cites, in three sure forms; else unknown, with a reason. Pure.

1. What the model's provider says of a context.
2. Marks such as ``[2]``, where the prompt numbers each context on the line on which it
   begins.
3. The numbers in a structured reply, by the same numbering.

Example: the prompt shows "[1] It is old. [2] It fell." in two lines, and the answer is
"It fell [2].": it cites the second context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ragmetrics_core.capture.calls import Evidence, FoundAnswer, Turn
from ragmetrics_core.capture.forms import SHORTEST, form_of, letters_of
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Citation, Context
from ragmetrics_core.data.citations import (
    cites_otherwise,
    marks_in,
    may_cite,
    read_citations,
)
from ragmetrics_core.data.sentences import split_sentences

NOTHING_CITES = "nothing in the answer cites, and no provider says that it does"
NO_NUMBERING = "the prompt does not number each context on the line on which it begins"
SEVERAL_CONTEXTS = "a number or name fits several contexts, or none"
OTHER_NOTATION = "the answer may cite in another notation than [1]"
CHANGED = "the answer was changed after the model had written it"

# what numbers a context on its line: "[1]", "1.", "Document[1]:", 'id="a-7"'
_LABELS = (
    re.compile(r"\[(?:Source|Document|Doc)?\s?#?(\w{1,20})\]\W{0,4}", re.IGNORECASE),
    re.compile(r"(?:Source|Document)\s?[\[#]?(\d{1,3})\b\W{0,6}", re.IGNORECASE),
    re.compile(r"(\d{1,3})[.):]\s{0,4}"),
    re.compile(
        r"<\w+ (?:id|index)=[\"']?([\w.-]{1,40})[\"']?\s?>\s{0,4}", re.IGNORECASE
    ),
)
_BEFORE_LABEL = " \t\r\"'>*#-"
_CITING_FIELD = re.compile(
    r"citation|cited|source|reference|document|context|chunk|passage", re.IGNORECASE
)
_PLAIN_NUMBER = re.compile(r"\d{1,3}")


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """What is known of the citations of one answer.

    Attributes:
        citations: What it cites; None if that is not known.
        why_unknown: One of the five reasons; "" if it is known.
    """

    citations: tuple[Citation, ...] | None = None
    why_unknown: str = ""


def cited_by(
    turn: Turn, found_answer: FoundAnswer, found_evidence: Evidence
) -> CitationsFound:
    """Find out which contexts an answer cites.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        found_evidence: The contexts.
    """
    text = found_answer.text
    contexts = found_evidence.contexts or ()
    if text is None:
        return CitationsFound(None, NOTHING_CITES)
    sources = _sources_named(found_answer)
    marks = marks_in(text)
    writer = found_answer.writer
    may_have_searched = writer is not None and writer.may_have_searched
    if marks and (sources or may_have_searched):  # what they number is not told
        return CitationsFound(None, OTHER_NOTATION)
    if sources:
        citations = _of_sources(text, sources, contexts)
        return CitationsFound(citations, "" if citations else SEVERAL_CONTEXTS)
    lists = _lists_of_structure(turn, found_answer)
    numbers = _plain_numbers(lists)
    if not marks and numbers is None:
        is_other = bool(lists) or may_cite(text)
        return CitationsFound(None, OTHER_NOTATION if is_other else NOTHING_CITES)
    numbering = _numbering(found_answer, contexts)
    if numbering is None:
        return CitationsFound(None, NO_NUMBERING)
    if not _is_as_written(turn, found_answer):
        return CitationsFound(None, CHANGED)
    if not marks:
        return _of_numbers(text, numbers or (), numbering)
    labels = {label for mark in marks for label in mark.labels}
    if cites_otherwise(text):
        return CitationsFound(None, OTHER_NOTATION)
    if lists and set(numbers or ()) != labels:
        return CitationsFound(None, SEVERAL_CONTEXTS)
    if _repeats_marks(turn, found_answer):
        return CitationsFound(None, SEVERAL_CONTEXTS)
    citations = read_citations(text, numbering).citations
    return CitationsFound(citations, "" if citations else OTHER_NOTATION)


def _repeats_marks(turn: Turn, found_answer: FoundAnswer) -> bool:
    """Whether an answer of an earlier turn has marks: a model may repeat one of them."""
    texts = {said.content for said in turn.tree.history if said.role == "assistant"}
    prompt = () if found_answer.writer is None else found_answer.writer.prompt
    texts |= {message.text for message in prompt if message.role == "assistant"}
    texts -= {reply.text for reply in turn.calls.replies.values()}
    return any(map(marks_in, texts))


def _is_plain(label: str) -> bool:
    return _PLAIN_NUMBER.fullmatch(label) is not None


def _is_as_written(turn: Turn, found_answer: FoundAnswer) -> bool:
    """Whether the answer's text stands in the reply of its writer, signs included."""
    reply = turn.calls.replies.get(found_answer.writer) if found_answer.writer else None
    if reply is None:
        return False
    answer = "".join((found_answer.text or "").split())
    texts = (reply.text, *reply.texts)
    return any(answer == "".join(text.split()) for text in texts)


# 1. What the provider says


def _sources_named(found_answer: FoundAnswer) -> list[CitedSource]:
    """List the sources that the model's provider says are cited."""
    writer = found_answer.writer
    if writer is None or writer.reply is None:
        return []
    return list(writer.reply.cited_sources or ())


def _of_sources(
    answer: str, sources: Sequence[CitedSource], contexts: Sequence[Context]
) -> tuple[Citation, ...] | None:
    """Return a citation for each source; None if one of them names no context alone."""
    citations = []
    for source in sources:
        place = _context_of_source(source, contexts)
        span = _span(source, answer)
        if place is None or span is None:
            return None
        start, end = span
        citations.append(Citation(start=start, end=end, contexts=(place,)))
    return tuple(dict.fromkeys(citations))


def _context_of_source(source: CitedSource, contexts: Sequence[Context]) -> int | None:
    """Return the place of the one context that a source names; None if not one does.

    A file's id goes before its title, which several files may have.
    """
    ways = [partial(_has_quote, source.quote)]
    ways += [partial(_has_name, name) for name in source.names if name]
    for fits in ways:
        places = [place for place, context in enumerate(contexts) if fits(context)]
        if len(places) == 1:
            return places[0]
    return None


def _has_quote(quote: str | None, context: Context) -> bool:
    letters = letters_of(quote)
    return len(letters) >= SHORTEST and letters in letters_of(context.text)


def _has_name(name: str, context: Context) -> bool:
    return name == context.id or name in context.metadata.values()


def _span(source: CitedSource, answer: str) -> tuple[int, int] | None:
    """Return the sentence that a source is named for; None if it is not surely one."""
    part = answer if source.part is None else source.part.strip()
    if answer.count(part) != 1 or len(split_sentences(part)) != 1:
        return None
    start = answer.index(part)
    return start, start + len(part)


# 2. The numbering of the prompt


def _numbering(
    found_answer: FoundAnswer, contexts: Sequence[Context]
) -> dict[str, int] | None:
    """Return the place of the context for each label; None if not each has one of its own.

    Only the prompt of the writer counts.
    """
    if found_answer.writer is None or not contexts:
        return None
    messages = [
        message.text
        for message in found_answer.writer.prompt
        if message.role != "assistant"
    ]
    for pattern in _LABELS:
        labels = [_labels_of(context.text, messages, pattern) for context in contexts]
        if any(len(each) != 1 for each in labels):
            continue
        numbering = {label: place for place, (label,) in enumerate(labels)}
        all_labels: list[str] = []  # an example in the prompt may repeat them
        for message in messages:
            all_labels += set(_labels_of_lines(message.splitlines(), pattern))
        if len(numbering) == len(contexts) and sorted(all_labels) == sorted(numbering):
            return numbering
    return None


def _labels_of(
    text: str, messages: Iterable[str], pattern: re.Pattern[str]
) -> set[str]:
    """Return the labels on the lines on which a text begins, and on the lines before."""
    labels: set[str] = set()
    beginning = letters_of(text)[:100]
    for message in messages:
        form = form_of(message)
        start = form.letters.find(beginning)
        while beginning and start >= 0:
            place, _ = form.place_in_source(start, start + 1)
            lines_before = message[:place].split("\n")
            line = lines_before.pop() + message[place:].partition("\n")[0]
            found = _labels_of_lines([line], pattern)
            labels.update(found or _labels_of_lines(lines_before[-1:], pattern))
            start = form.letters.find(beginning, start + 1)
    return labels


def _labels_of_lines(lines: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the labels of the lines that begin with one."""
    matches = [pattern.match(line.lstrip(_BEFORE_LABEL)) for line in lines]
    return [match.group(1) for match in matches if match is not None]


# 3. The numbers of a structured reply


def _lists_of_structure(turn: Turn, found_answer: FoundAnswer) -> list[list[object]]:
    """List what the fields of a structured reply that name sources hold."""
    writer = found_answer.writer
    if writer is None or writer not in turn.calls.replies:
        return []
    lists: list[list[object]] = []
    for value in turn.calls.replies[writer].values:
        fields = value.items() if isinstance(value, Mapping) else ()
        for name, inner in fields:
            if inner and _CITING_FIELD.search(str(name)):
                is_list = isinstance(inner, (list, tuple))
                lists.append(list(inner) if is_list else [inner])
    return lists


def _plain_numbers(lists: Sequence[Sequence[object]]) -> tuple[str, ...] | None:
    """Return the numbers of the one list of sources; None if it has anything else."""
    if len(lists) != 1:
        return None
    numbers = tuple(str(number) for number in lists[0] if type(number) in (int, str))
    is_plain = len(numbers) == len(lists[0]) and all(map(_is_plain, numbers))
    return numbers if is_plain else None


def _of_numbers(
    answer: str, numbers: Sequence[str], numbering: Mapping[str, int]
) -> CitationsFound:
    """Return one citation of the whole answer for the numbers of a structured reply."""
    if not set(numbers) <= set(numbering):
        return CitationsFound(None, SEVERAL_CONTEXTS)
    places = tuple(dict.fromkeys(numbering[number] for number in numbers))
    return CitationsFound((Citation(start=0, end=len(answer), contexts=places),))
