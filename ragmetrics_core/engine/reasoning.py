"""A model's reasoning in what it said, ``<think>…</think>``: no judge is shown it.

A server without a parser for its model's reasoning hands it on with the answer. Tags
that open in the middle of a line, or stand in backticks or quotes, are ones that the
answer speaks of; the former are told.
"""

import re
from collections.abc import Iterable, Iterator

from ragmetrics_core.data.citations import Citation
from ragmetrics_core.data.frozen import none_if_blank
from ragmetrics_core.data.messages import known_role
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import CaptureNotes

REASONING = "reasoning"
"""The code of the doubt about an answer without its reasoning."""

_NOTE = (
    "the {} held a model's reasoning, such as <think>…</think>, which was left out and"
    " not judged; let the server parse it"
)
_WITHIN_A_LINE = (
    "the answer holds a tag of a model's reasoning within a line, such as <think>, and"
    " was judged as it stands; let the server parse its reasoning"
)
# "<think>", "[THINK]", "<seed:think>", "<chain_of_thought>", "<|think|>", "◁think▷"
_NAME = (
    r"(?:(?:(?!(?:start|begin|end)_)\w{1,30}[:_])?(?:(?:ant)?think(?:ing)?|thoughts?|reasoning|reflection)"
    r"(?:_process)?|scratch_?pad|analysis|cot)"
)
_OPENING = rf"[<\[◁]\|?{_NAME}(?: [^<>\n]{{0,80}})?\|?[>\]▷]"
_CLOSING = rf"[<\[◁]\|?/{_NAME}\|?[>\]▷]"
# a line's code, and tags in quotes
_QUOTED = re.compile(
    rf"`(?!\s)[^`\n]+(?<!\s)`|(['\"])(?:{_OPENING}|{_CLOSING})+\1", re.IGNORECASE
)
_TAGS = re.compile(
    # how any of them begins: few places are looked at further
    r"(?=[<\[◁]|^[ \t.]|\AT|assistantf)(?:"
    # at the beginning of a line, or right behind a text
    rf"(?P<opening>^[ \t]*(?:{_OPENING}|<\|channel\|>(?:analysis|commentary)\b"
    r"|<\|channel>thought\b|<\|START_THINKING\|>|<\|begin_of_thought\|>|<(?:unused|ctrl)94>thought\b"
    r"|<details type=.reasoning\b[^>\n]{0,80}>|<details[^>\n]{0,160}>\s*<summary>\s*(?:think|thought|reason))"
    # as the command line of Ollama writes it
    r"|\AThinking\.\.\.\n(?=(?s:.)*^\.\.\.done thinking\.$)"
    rf"|(?<=[^\s(]){_OPENING})"
    rf"|(?P<perhaps_opening>{_OPENING})"
    # what closes other things, too, and amid a sentence
    r"|(?P<closing_of_opened><channel\|>|</details>|<(?:unused|ctrl)95>|^\.\.\.done thinking\.$"
    rf"|<\|END_THINKING\|>(?:<\|START_RESPONSE\|>)?"
    rf"|<\|end_of_thought\|>(?:\s*<\|begin_of_solution\|>)?|(?<=\w ){_CLOSING}(?= (?-i:[a-z])))"
    # alone at the beginning or end of a line
    rf"|(?P<closing_of_line>(?<=\n){_CLOSING}|{_CLOSING}(?=[ \t]*\n))"
    # and the final channel of gpt-oss, with and without signs
    rf"|(?P<closing>{_CLOSING}"
    r"|<\|channel\|>final\b[^\n]{0,40}?<\|message\|>|assistantfinal(?=\S)"
    r"|^\[BEGIN FINAL RESPONSE\]))",
    re.IGNORECASE | re.MULTILINE,
)
_BLANKS = re.compile(r"\s*")


def leave_out_reasoning(sample: Sample) -> Sample:
    """Return a sample whose answer is what follows the model's reasoning, with a note.

    So it is with its references, and with what the assistant said in earlier turns. The
    sample itself is returned where none of them has any. What the answer cites moves
    with it, and what the reasoning cites is left out.

    Examples:
        >>> leave_out_reasoning(Sample(answer="<think>Two?</think>It fell.")).answer
        'It fell.'
    """
    answer = sample.answer or ""
    spans = _spans_of_reasoning(answer)
    references = map(without_reasoning, sample.reference)
    said: dict[str, object] = {
        "answer": none_if_blank(_without(answer, spans)) if spans else sample.answer,
        "reference": tuple(filter(none_if_blank, references)),
        "history": tuple(
            turn.model_copy(update={"content": without_reasoning(turn.content)})
            if known_role(turn.role) == "assistant"
            else turn
            for turn in sample.history
        ),
    }
    notes = sample.capture or CaptureNotes()
    holders = [field for field in said if said[field] != getattr(sample, field)]
    note = (
        _NOTE.format(" and ".join(holders)) if holders else notes.doubts.get(REASONING)
    )
    if not note and any(not tag["closing_of_opened"] for tag in _tags_of(answer)):
        note = _WITHIN_A_LINE
    if not holders and note == notes.doubts.get(REASONING):
        return sample

    def moved(place: int) -> int:
        return len(_without(answer[:place], spans))

    citations: list[Citation] = []
    for citation in sample.citations or ():
        changes: dict[str, object] = {
            "start": moved(citation.start),
            "end": moved(citation.end),
        }
        if citation.mark is not None:
            changes["mark"] = (moved(citation.mark[0]), moved(citation.mark[1]))
        cited = citation.model_copy(update=changes)
        if cited.start < cited.end and cited.mark != (cited.start, cited.start):
            citations.append(cited)
    doubts = {**notes.doubts, REASONING: note}
    return sample.model_copy(
        update={
            **said,
            "citations": None if sample.citations is None else tuple(citations),
            "capture": notes.model_copy(update={"doubts": doubts}),
        }
    )


def _tags_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a text that do not stand in quotes or in a line's code."""
    return _TAGS.finditer(_QUOTED.sub(lambda quoted: "." * len(quoted[0]), text))


def without_reasoning(text: str) -> str:
    """Return what a model said without its reasoning."""
    return _without(text, _spans_of_reasoning(text))


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text without some parts of it."""
    pieces = []
    end_of_last = 0
    for start, end in spans:
        pieces.append(text[end_of_last:start])
        end_of_last = end
    return "".join([*pieces, text[end_of_last:]])


def _spans_of_reasoning(text: str) -> list[tuple[int, int]]:
    """Return where reasoning begins and what follows it, with the blanks between.

    A tag that opens behind a blank amid a line is one that the answer speaks of, unless
    what closes it begins or ends a line. The prompt of some models writes the opening
    tag: all that stands before a closing tag alone is reasoning. So is all of a text
    that begins with reasoning which is never closed: it was cut off.
    """
    spans: list[tuple[int, int]] = []
    start: int | None = None
    is_sure = False
    for tag in _tags_of(text):
        if tag["opening"] is not None or tag["perhaps_opening"] is not None:
            if start is None:
                start, is_sure = tag.start(), tag["opening"] is not None
            continue
        end = tag.end()
        if start is not None:
            is_reasoning = is_sure or tag["closing_of_line"] is not None
        else:
            is_reasoning = tag["closing_of_opened"] is None
            spans = [] if is_reasoning else spans
            start = 0
        if is_reasoning:
            is_amid_line = start > 0 and not text[start - 1].isspace()
            if not is_amid_line and (blanks := _BLANKS.match(text, end)):
                end = blanks.end()
            spans.append((start, end))
        start = None
    if start is not None and not text[:start].strip():
        spans.append((start, len(text)))
    return spans
