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

from ragmetrics_core.capture.calls import (
    AskedTurn,
    FoundAnswer,
    FoundEvidence,
    messages_of,
)
from ragmetrics_core.capture.forms import SHORTEST, form_of, letters_of
from ragmetrics_core.capture.tree import CitedSource, Node
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
_PLAIN = re.compile(r"\d{1,3}")


def cited_by(
    turn: AskedTurn, found_answer: FoundAnswer, found_evidence: FoundEvidence
) -> tuple[tuple[Citation, ...] | None, str]:
    """Find out which contexts an answer cites.

    Returns what it cites, None if that is not known, and why not: one of the five reasons.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        found_evidence: The contexts.
    """
    text = found_answer.text
    contexts = found_evidence.contexts or ()
    if text is None:
        return None, NOTHING_CITES
    writer = found_answer.writer
    reply = None if writer is None else turn.calls.replies.get(writer)
    marks = marks_in(text)

    # 1. what the model's provider says
    sources: Sequence[CitedSource] = ()
    if writer is not None and writer.reply is not None:
        sources = writer.reply.cited_sources or ()
    may_have_searched = writer is not None and writer.may_have_searched
    if marks and (sources or may_have_searched):  # what they number is not told
        return None, OTHER_NOTATION
    if sources:
        citations = _of_sources(text, sources, contexts)
        return citations, "" if citations else SEVERAL_CONTEXTS

    # what the fields of a structured reply that name sources hold
    lists: list[list[object]] = []
    values = () if reply is None else reply.values
    for fields in [value for value in values if isinstance(value, Mapping)]:
        for name, inner in fields.items():
            if inner and _CITING_FIELD.search(str(name)):
                is_list = isinstance(inner, (list, tuple))
                lists.append(list(inner) if is_list else [inner])
    # the one list, if it holds numbers alone
    numbers: list[str] | None = None
    if len(lists) == 1:
        numbers = [str(each) for each in lists[0] if type(each) in (int, str)]
        if len(numbers) < len(lists[0]) or not all(map(_PLAIN.fullmatch, numbers)):
            numbers = None
    if not marks and numbers is None:
        is_other = bool(lists) or may_cite(text)
        return None, OTHER_NOTATION if is_other else NOTHING_CITES
    numbering = None if writer is None else _numbering(writer, contexts)
    if numbering is None:
        return None, NO_NUMBERING
    written = () if reply is None else (reply.text, *reply.texts)
    answer = "".join(text.split())  # signs included
    if not any(answer == "".join(each.split()) for each in written):
        return None, CHANGED

    # 3. the numbers of a structured reply are those of the whole answer
    if not marks:
        if not set(numbers or ()) <= set(numbering):
            return None, SEVERAL_CONTEXTS
        places = tuple(dict.fromkeys(numbering[number] for number in numbers or ()))
        citation = Citation(start=0, end=len(text), contexts=places)
        return (citation,), ""

    # 2. marks
    labels = {label for mark in marks for label in mark.labels}
    if cites_otherwise(text):
        return None, OTHER_NOTATION
    if lists and set(numbers or ()) != labels:
        return None, SEVERAL_CONTEXTS
    # an answer of an earlier turn has marks, which a model may repeat
    earlier = {said.content for said in turn.tree.history if said.role == "assistant"}
    prompt = () if writer is None else writer.prompt
    earlier |= {message.text for message in prompt if message.role == "assistant"}
    earlier -= {each.text for each in turn.calls.replies.values()}
    if any(map(marks_in, earlier)):
        return None, SEVERAL_CONTEXTS
    read = read_citations(text, numbering).citations
    return read, "" if read else OTHER_NOTATION


def _of_sources(
    answer: str, sources: Sequence[CitedSource], contexts: Sequence[Context]
) -> tuple[Citation, ...] | None:
    """Return a citation for each source; None if one of them names no context alone.

    None as well if it is not surely named for one sentence.
    """
    citations = []
    for source in sources:
        place = _context_of_source(source, contexts)
        part = answer if source.part is None else source.part.strip()
        is_sentence = answer.count(part) == 1 and len(split_sentences(part)) == 1
        if place is None or not is_sentence:
            return None
        start = answer.index(part)
        citations.append(
            Citation(start=start, end=start + len(part), contexts=(place,))
        )
    return tuple(dict.fromkeys(citations))


def _context_of_source(source: CitedSource, contexts: Sequence[Context]) -> int | None:
    """Return the place of the one context that a source names; None if not one does.

    A file's id goes before its title, which several files may have.
    """
    quote = letters_of(source.quote)
    ways = []
    if len(quote) >= SHORTEST:
        ways.append([quote in letters_of(context.text) for context in contexts])
    for name in filter(None, source.names):
        ways.append(
            [
                name == context.id or name in context.metadata.values()
                for context in contexts
            ]
        )
    for fits in ways:
        if fits.count(True) == 1:
            return fits.index(True)
    return None


# 2. The numbering of the prompt


def _numbering(writer: Node, contexts: Sequence[Context]) -> dict[str, int] | None:
    """Return the place of the context for each label; None if not each has one of its own.

    Only the prompt of the writer counts.
    """
    if not contexts:
        return None
    messages = messages_of([writer])
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
