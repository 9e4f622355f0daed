"""What other calls than the answering call were shown. A part of stage 3. Pure.

An application may ask a model once for each passage, and take one of the replies: the
one with the best score, or the first that does not decline. The others were asked the
same. Their prompts are equal, but for the passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import NO_ANSWER, Calls
from ragmetrics_core.capture.document_versions import unite_shown_documents
from ragmetrics_core.capture.findings import Finding
from ragmetrics_core.capture.memory_summaries import keys_summed_up
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.plain_values import as_one_line, texts_in
from ragmetrics_core.capture.prompt_contents import PromptContents
from ragmetrics_core.capture.prompt_search import ShownDocument
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_UNKNOWN_WRITER = "a call was shown it, and it is not known which call answered"
_ALSO_HANDED_OUT = "a call was shown it whose reply the run gave beside the answer"
SUMMED_UP = (
    "a memory had a model sum it up, and the answering call was shown this summary, of"
    " which nobody knows what it keeps"
)
# Fewer letters of a title or id stand in a template by chance, as "a" of "a.txt" does.
_FEWEST_LETTERS = 3
_DIGITS = lazy_pattern(rb"[0-9]+")


@dataclass(frozen=True)
class ShownToOtherCalls:
    """The documents that other calls than the answering call were shown.

    Attributes:
        shown_to_calls_asked_the_same_question: What other calls, to which the
            application put the same question with other documents, were shown: the
            documents by their keys. The application left their replies out.
        why_unknown_if_shown: For the key of each other document that calls were shown,
            in words, why it is unknown whether a call that answered was shown it.
    """

    shown_to_calls_asked_the_same_question: Mapping[DocumentKey, ShownDocument] = field(
        default_factory=dict
    )
    why_unknown_if_shown: Mapping[DocumentKey, str] = field(default_factory=dict)

    def finding_if_asked_the_same_question(
        self, document_key: DocumentKey
    ) -> Finding | None:
        """Return what calls asked the same question show of a document; None: nothing."""
        shown_documents = self.shown_to_calls_asked_the_same_question
        if document_key not in shown_documents:
            return None
        _, finding = shown_documents[document_key]
        return finding


def shown_to_other_calls(
    found_answer: FoundAnswer, calls: Calls, prompt_contents: PromptContents
) -> ShownToOtherCalls:
    """Find the documents that were shown to other calls than the answering call.

    Example: one prompt is passage A and "When did it open?", another passage B and the
    same question. The application takes the reply to the first as the answer: B was
    shown to another call that was asked the same.

    Args:
        found_answer: The answer, and the call that wrote it.
        calls: The calls of the turn.
        prompt_contents: What their prompts show.
    """
    writing_call = found_answer.writing_call
    if writing_call is None:
        return ShownToOtherCalls()
    shown_by_call = _shown_by_other_call(writing_call, calls, prompt_contents)
    is_writer_uncertain = bool(found_answer.doubts)
    if is_writer_uncertain:
        return ShownToOtherCalls(
            why_unknown_if_shown=_why_unknown_without_writer(shown_by_call, calls)
        )
    shown_when_reply_was_left_out: list[Mapping[DocumentKey, ShownDocument]] = []
    why_unknown_if_shown = _why_unknown_of_summaries(
        writing_call, calls, prompt_contents
    )
    for call, shown in shown_by_call.items():
        if not _have_same_template(call, writing_call, prompt_contents):
            continue  # it was asked something else
        if _is_given_beside_answer(call, writing_call, calls):
            # two pipelines are compared: the user reads both replies as answers
            why_unknown_if_shown |= dict.fromkeys(shown, _ALSO_HANDED_OUT)
        else:
            shown_when_reply_was_left_out.append(shown)
    return ShownToOtherCalls(
        shown_to_calls_asked_the_same_question=unite_shown_documents(
            shown_when_reply_was_left_out
        ),
        why_unknown_if_shown=why_unknown_if_shown,
    )


def _why_unknown_of_summaries(
    writing_call: Node, calls: Calls, prompt_contents: PromptContents
) -> dict[DocumentKey, str]:
    """Say of the documents that a memory summed up why it is unknown what was shown.

    The answering call was shown the summary, and nobody knows what it keeps of them.
    """
    answering_calls = prompt_contents.shown_to(writing_call).calls
    keys_in_summaries = keys_summed_up(answering_calls, calls)
    return dict.fromkeys(keys_in_summaries, SUMMED_UP)


def _why_unknown_without_writer(
    shown_by_call: Mapping[Node, Mapping[DocumentKey, ShownDocument]], calls: Calls
) -> dict[DocumentKey, str]:
    """Say of the documents of calls that may have answered why this is not known.

    It is not known which call wrote the answer. Each call that wrote a text may have;
    one that wrote a grade has not.
    """
    why: dict[DocumentKey, str] = {}
    for call, shown in shown_by_call.items():
        if calls.looks_like_answer(call):
            why |= dict.fromkeys(shown, _UNKNOWN_WRITER)
    return why


def _shown_by_other_call(
    writing_call: Node, calls: Calls, prompt_contents: PromptContents
) -> dict[Node, Mapping[DocumentKey, ShownDocument]]:
    """Return what other calls were shown, if the answering call was not shown all of it.

    Example: the answering call was shown A, another call B, and a third one A: only the
    second call, with what it shows of B. Left out are calls that answer nothing, such as
    one that only chooses a tool.

    Args:
        writing_call: The answering call.
        calls: The calls of the turn.
        prompt_contents: What their prompts show.
    """
    document_keys_shown = prompt_contents.shown_to(writing_call).shown_documents.keys()
    keys_found = {document.key for document in chain(*calls.lists())}
    is_all_shown = keys_found <= document_keys_shown
    if is_all_shown:  # the usual run: no other prompt need be searched
        return {}
    shown_by_call: dict[Node, Mapping[DocumentKey, ShownDocument]] = {}
    for call, form in calls.reply_forms.items():
        if form != NO_ANSWER:
            shown = prompt_contents.shown_to(call).shown_documents
            if not shown.keys() <= document_keys_shown:
                shown_by_call[call] = shown
    return shown_by_call


def _is_given_beside_answer(call: Node, writing_call: Node, calls: Calls) -> bool:
    """Whether the output of the run holds a call's reply beside another one, the answer."""
    line = calls.replies[call].line
    if line == calls.replies[writing_call].line:
        return False
    return any(as_one_line(text) == line for text in texts_in(calls.tree.output))


def _have_same_template(
    call: Node, other: Node, prompt_contents: PromptContents
) -> bool:
    """Whether two prompts are equal but for the documents that they show.

    Their numbers, titles and ids may differ as well, as in "Source 1 (a.txt)".
    """
    documents = [
        document
        for each in (call, other)
        for document, _ in prompt_contents.shown_to(each).shown_documents.values()
    ]
    names = _normalized_names(documents)
    return _template(
        prompt_contents.normalized_text_around_documents(call), names
    ) == _template(prompt_contents.normalized_text_around_documents(other), names)


def _template(normalized: bytes, names: Iterable[bytes]) -> bytes:
    """Return a prompt, normalized, without digits and names of documents."""
    template = _DIGITS.sub(b"", normalized)
    for name in names:
        template = template.replace(name, b"")
    return template


def _normalized_names(documents: Iterable[Document]) -> list[bytes]:
    """Return ids and metadata, normalized, without digits; longest first."""
    names = set()
    for document in documents:
        for value in (document.id or "", *document.metadata.values()):
            name = _DIGITS.sub(b"", normalize_text(str(value)))
            if len(name) >= _FEWEST_LETTERS:
                names.add(name)
    return sorted(names, key=len, reverse=True)
