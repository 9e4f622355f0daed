"""A model's reasoning in an answer, ``<think>…</think>``: nobody judges it as answered.

A server without a parser for its model's reasoning hands it on with the answer. The tag
in the middle of a line, or in backticks, is one that the answer speaks of.
"""

import re

from ragmetrics_core.data.citations import Citation
from ragmetrics_core.data.frozen import none_if_blank
from ragmetrics_core.data.sample import CaptureNotes, Sample

REASONING = "reasoning"
"""The code of the doubt about an answer without its reasoning."""

_NOTE = (
    "the answer held the model's reasoning, such as <think>…</think>, which was left out"
    " and not judged; let the server parse it"
)
_TAG = "(?:think|thinking|thought|reasoning)"
# The prompt of some models writes the opening tag: then the closing one stands alone.
_TAGS = re.compile(
    rf"^[ \t]*(?P<opening>[<\[]{_TAG}[>\]])"
    rf"|(?P<lone>(?:\n[<\[]/{_TAG}[>\]]|(?<!`)[<\[]/{_TAG}[>\]](?=[ \t]*\n)))"
    rf"|(?P<closing>(?<!`)[<\[]/{_TAG}[>\]])",
    re.IGNORECASE | re.MULTILINE,
)
_BLANKS = re.compile(r"\s*")


def leave_out_reasoning(sample: Sample) -> Sample:
    """Return a sample whose answer is what follows the model's reasoning, with a note.

    The sample itself is returned where its answer has none. What the answer cites moves
    with it, and what the reasoning cites is left out.

    Examples:
        >>> leave_out_reasoning(Sample(answer="<think>Two?</think>It fell.")).answer
        'It fell.'
    """
    answer = sample.answer or ""
    spans = _spans_of_reasoning(answer)
    if not spans:
        return sample

    def moved(place: int) -> int:
        return place - sum(
            min(place, end) - start for start, end in spans if start < place
        )

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
    notes = sample.capture or CaptureNotes()
    doubts = {**notes.doubts, REASONING: _NOTE}
    pieces = []
    end_of_last = 0
    for start, end in spans:
        pieces.append(answer[end_of_last:start])
        end_of_last = end
    pieces.append(answer[end_of_last:])
    return sample.model_copy(
        update={
            "answer": none_if_blank("".join(pieces)),
            "citations": None if sample.citations is None else tuple(citations),
            "capture": notes.model_copy(update={"doubts": doubts}),
        }
    )


def _spans_of_reasoning(answer: str) -> list[tuple[int, int]]:
    """Return where reasoning begins and what follows it, with the blanks between.

    Reasoning with which an answer begins, and that is never closed, was cut off: all of
    the answer is reasoning.
    """
    spans: list[tuple[int, int]] = []
    start: int | None = None
    for tag in _TAGS.finditer(answer):
        if tag["opening"] is not None:
            start = tag.start() if start is None else start
            continue
        is_first_tag = start is None and not spans and tag["lone"] is not None
        if start is None and not is_first_tag:
            continue
        blanks = _BLANKS.match(answer, tag.end())
        end = len(answer) if blanks is None else blanks.end()
        spans.append((start or 0, end))
        start = None
    if start is not None and answer[: start + 1].strip() in ("", "<"):
        spans.append((start, len(answer)))
    return spans
