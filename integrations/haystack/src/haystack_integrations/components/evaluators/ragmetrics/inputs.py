"""What the component's sockets hold, as samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer
from haystack_integrations.tracing.ragmetrics.nodes import copied

from ragmetrics_core import Context, Sample
from ragmetrics_core.capture import Answer, CaptureNotes, SettingError

_PARTS = ("query", "documents", "replies")
_LISTS = {
    "questions": "question",
    "contexts": "contexts",
    "predicted_answers": "answer",
    "ground_truth_answers": "reference",
}
_SOCKETS = ("answers", *_PARTS, *_LISTS, "reference")


def samples(*sockets: Any, **named: Any) -> tuple[list[Sample], list[str]]:
    """The samples that the sockets of the component describe, and what they may lack.

    Args:
        *sockets: Values in the order of the parameters of ``RagMetricsEvaluator.run``.
        **named: Values by the names of these parameters.

    Returns:
        The samples, and warnings about them; no sample if no socket holds a value.

    Raises:
        SettingError: If sockets of several groups hold values, or lists differ in
            length.
    """
    values = {**dict(zip(_SOCKETS, sockets, strict=False)), **named}
    filled = {name: value for name, value in values.items() if value is not None}
    reference = filled.pop("reference", None)
    _check_one_group(filled)
    if "answers" in filled:
        answers = filled["answers"]
        samples_of_answers = [_of_answer(answer) for answer in answers]
        return _with_references(samples_of_answers, reference), _cut(answers)
    if filled.keys() & _LISTS.keys():
        if reference is not None:
            raise SettingError("with lists give ground_truth_answers, not reference")
        rows = _rows_of_lists(filled)
    else:
        rows = _rows_of_replies(filled)
    samples_of_rows = [
        Sample.model_validate({**row, "contexts": _contexts(row.get("contexts"))})
        for row in rows
    ]
    return _with_references(samples_of_rows, reference), []


def _check_one_group(filled: Mapping[str, Any]) -> None:
    """Refuse, by ``SettingError``, values in sockets of several groups."""
    groups: list[str] = []
    for group in (["answers"], _PARTS, _LISTS):
        names = [name for name in group if name in filled]
        if names:
            groups.append(", ".join(names))
    if len(groups) > 1:
        raise SettingError(
            f"give one group of inputs, got {'; '.join(groups)}: answers, or"
            " query/documents/replies, or lists"
        )


def _rows_of_lists(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each place of the lists, which are columns; they must be equally long."""
    lengths = {name: len(column) for name, column in filled.items()}
    if len(set(lengths.values())) > 1:
        lengths_in_words = [f"{name} {length}" for name, length in lengths.items()]
        raise SettingError(f"lists differ in length: {', '.join(lengths_in_words)}")
    fields = [_LISTS[name] for name in filled]
    rows = zip(*filled.values(), strict=True)
    return [dict(zip(fields, row, strict=True)) for row in rows]


def _rows_of_replies(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each reply to the one query; one without an answer if there is none."""
    if not filled:
        return []
    given_replies = filled.get("replies")
    if not isinstance(given_replies, list):
        given_replies = [given_replies]
    replies = given_replies or [None]
    texts = [
        reply.text if isinstance(reply, ChatMessage) else reply for reply in replies
    ]
    return [
        {
            "question": filled.get("query"),
            "contexts": filled.get("documents"),
            "answer": text,
        }
        for text in texts
    ]


def _contexts(
    documents: Sequence[Document | str] | None,
) -> tuple[Context, ...] | None:
    """Contexts from texts, and from documents that hold a text; None if unknown."""
    if documents is None:
        return None
    wrong = next(
        (
            type(document).__name__
            for document in documents
            if not isinstance(document, (str, Document))
        ),
        None,
    )
    if wrong is not None:
        raise SettingError(f"contexts are texts or Documents, got {wrong}")
    holding_text = [
        document
        for document in documents
        if isinstance(document, str) or (document.content or "").strip()
    ]
    return tuple(
        Context(text=document)
        if isinstance(document, str)
        else copied(document).context()
        for document in holding_text
    )


def _of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Sample:
    """The sample of an answer of Haystack.

    Its contexts are the answer's documents that hold a text. It has notes only if the
    documents look as if some had been cut off: the notes warn of that.

    Raises:
        SettingError: If it is no answer of Haystack.
    """
    # ``copied`` makes values of the core of Haystack's objects
    copied_answer = copied(answer)
    if not isinstance(copied_answer, Answer):
        raise SettingError(
            "answers must be GeneratedAnswer or ExtractedAnswer, got"
            f" {type(answer).__name__}"
        )
    signs_of_cut = _cut([answer])
    contexts = tuple(
        document.context()
        for document in copied_answer.documents or ()
        if document.text.strip()
    )
    notes = (
        CaptureNotes(
            provenance={"contexts": "the answer's documents"},
            warnings=tuple(signs_of_cut),
        )
        if signs_of_cut
        else None
    )
    return Sample(
        question=copied_answer.question,
        contexts=contexts,
        answer=copied_answer.text,
        generator=copied_answer.model,
        capture=notes,
    )


def _cut(answers: Sequence[GeneratedAnswer | ExtractedAnswer]) -> list[str]:
    """Warn if documents look as if some had been left out of an answer.

    An ``AnswerBuilder`` may keep only those that the answer cites. All are then marked
    as referenced, or their source indices have gaps; a cut tail cannot be seen.

    Returns:
        The warning; empty if nothing looks cut.
    """
    for answer in answers:
        metas = (
            [document.meta or {} for document in answer.documents or ()]
            if isinstance(answer, GeneratedAnswer)
            else []
        )
        marks = [meta["referenced"] for meta in metas if "referenced" in meta]
        places = [
            meta["source_index"]
            for meta in metas
            if isinstance(meta.get("source_index"), int)
        ]
        if (marks and all(marks)) or places != list(range(1, len(places) + 1)):
            return [
                "the documents look cut to those that the answer cites"
                " (reference_pattern): scores are those of the cited documents only;"
                " set return_only_referenced_documents=False in the AnswerBuilder"
            ]
    return []


def _with_references(
    answered: list[Sample], reference: str | Sequence[str] | None
) -> list[Sample]:
    """The samples with their references; unchanged without any.

    One text is the reference of all.

    Raises:
        SettingError: If there are not as many references as samples.
    """
    if reference is None:
        return answered
    references = (
        [reference] * len(answered) if isinstance(reference, str) else list(reference)
    )
    if len(references) != len(answered):
        raise SettingError(
            f"{len(answered)} answers and {len(references)} references; give one for each,"
            " or one text"
        )
    return [
        sample.model_copy(update={"reference": (text,)})
        for sample, text in zip(answered, references, strict=True)
    ]
