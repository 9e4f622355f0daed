"""What the component's sockets hold, as samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer

from ragmetrics_core import Context, Sample
from ragmetrics_core.capturing import CaptureNotes, SettingError


class Answers(NamedTuple):
    """The one wire."""

    answers: list[GeneratedAnswer | ExtractedAnswer] | None


class Single(NamedTuple):
    """The parts of one answer."""

    query: str | None
    documents: list[Document] | None
    replies: list[ChatMessage] | list[str] | str | None


class Batch(NamedTuple):
    """The lists of Haystack's own evaluators."""

    questions: list[str] | None
    contexts: list[list[str]] | None
    predicted_answers: list[str] | None
    ground_truth_answers: list[str] | None


def samples(
    answers: Answers, single: Single, batch: Batch, reference: str | Sequence[str] | None
) -> tuple[list[Sample], list[str]]:
    """Samples of the one group of sockets that holds values; none if none does.

    Returns:
        The samples, and warnings about what they may lack.

    Raises:
        SettingError: If several groups hold values, or lists differ in length.
    """
    groups = [group for group in (answers, single, batch) if any(value is not None for value in group)]
    if len(groups) > 1:
        names = "; ".join(", ".join(_filled(group)) for group in groups)
        raise SettingError(
            f"give one group of inputs, got {names}: answers alone, or query/documents/replies, or lists"
        )
    if isinstance(reference, (list, tuple)) and batch in groups:
        raise SettingError("with lists give ground_truth_answers, not reference")
    if answers in groups:
        made = [_of_answer(answer) for answer in answers.answers or ()]
        return _with_references(made, reference), _cut(answers.answers or ())
    if single in groups:
        return _with_references(_of_parts(single), reference), []
    return _of_lists(batch), []


def _filled(group: Answers | Single | Batch) -> list[str]:
    return [name for name, value in group._asdict().items() if value is not None]


def context(document: Document | str) -> Context | None:
    """A context from a document; None without text."""
    if isinstance(document, str):
        return Context(text=document)
    if not isinstance(document, Document):
        raise SettingError(f"contexts are texts or Documents, got {type(document).__name__}")
    if not document.content or not document.content.strip():
        return None
    metadata = dict(document.meta or {})
    return Context(text=document.content, id=document.id, score=document.score, metadata=metadata)


def _contexts(documents: Sequence[Document | str] | None) -> tuple[Context, ...]:
    return tuple(found for document in documents or () if (found := context(document)) is not None)


def _of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Sample:
    if isinstance(answer, ExtractedAnswer):
        documents = [answer.document] if answer.document is not None else []
        return Sample(question=answer.query, contexts=_contexts(documents), answer=answer.data)
    if not isinstance(answer, GeneratedAnswer):
        raise SettingError(f"answers must be GeneratedAnswer or ExtractedAnswer, got {type(answer).__name__}")
    cut = _cut([answer])
    model = (answer.meta or {}).get("model")
    return Sample(
        question=answer.query,
        contexts=_contexts(answer.documents),
        answer=answer.data,
        generator=model if isinstance(model, str) else None,
        capture=CaptureNotes(provenance={"contexts": "the answer's documents"}, warnings=tuple(cut)) if cut else None,
    )


def _cut(answers: Sequence[GeneratedAnswer | ExtractedAnswer]) -> list[str]:
    """Say when documents look as if an ``AnswerBuilder`` had kept only those that the answer cites."""
    if any(isinstance(answer, GeneratedAnswer) and looks_cut(answer) for answer in answers):
        return [
            "the documents look cut to those that the answer cites (reference_pattern): scores are those of the "
            "cited documents only; set return_only_referenced_documents=False in the AnswerBuilder"
        ]
    return []


def looks_cut(answer: GeneratedAnswer) -> bool:
    """True if all documents are marked as referenced, or their source indices have gaps; a cut tail cannot be seen."""
    metas = [document.meta or {} for document in answer.documents or ()]
    marks = [meta["referenced"] for meta in metas if "referenced" in meta]
    places = [meta["source_index"] for meta in metas if isinstance(meta.get("source_index"), int)]
    return (bool(marks) and all(marks)) or places != list(range(1, len(places) + 1))


def _of_parts(single: Single) -> list[Sample]:
    replies = single.replies
    said: list[str | None]
    if replies is None:
        said = [None]
    elif isinstance(replies, str):
        said = [replies]
    else:
        said = [reply.text if isinstance(reply, ChatMessage) else reply for reply in replies] or [None]
    contexts = _contexts(single.documents)
    return [Sample(question=single.query, contexts=contexts, answer=text) for text in said]


def _with_references(made: list[Sample], reference: str | Sequence[str] | None) -> list[Sample]:
    if reference is None:
        return made
    references = [reference] * len(made) if isinstance(reference, str) else list(reference)
    if len(references) != len(made):
        raise SettingError(f"{len(made)} answers and {len(references)} references; give one for each, or one text")
    return [one.model_copy(update={"reference": (text,)}) for one, text in zip(made, references, strict=True)]


def _of_lists(batch: Batch) -> list[Sample]:
    lengths = {name: len(value) for name, value in batch._asdict().items() if value is not None}
    if len(set(lengths.values())) > 1:
        raise SettingError(f"lists differ in length: {', '.join(f'{name} {n}' for name, n in lengths.items())}")
    count = next(iter(lengths.values()), 0)
    return [
        Sample(
            question=batch.questions[row] if batch.questions else None,
            contexts=_contexts(batch.contexts[row]) if batch.contexts else (),
            answer=batch.predicted_answers[row] if batch.predicted_answers else None,
            reference=batch.ground_truth_answers[row] if batch.ground_truth_answers else (),
        )
        for row in range(count)
    ]
