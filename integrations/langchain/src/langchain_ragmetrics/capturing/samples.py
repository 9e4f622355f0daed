"""From the roots of one question to its sample; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing import documents, rules, tree
from langchain_ragmetrics.capturing.documents import Call, Retrieval
from langchain_ragmetrics.capturing.finding import Finding
from langchain_ragmetrics.values import DISTANCE_KEYS, contexts_in, text_of
from ragmetrics_core import Context, Sample, Turn
from ragmetrics_core.capturing import CaptureNotes


def sample_from(parts: Sequence[RunBase], finding: Finding, before: Sequence[RunBase] = ()) -> Sample:
    """Make one sample.

    Args:
        parts: Roots of one question: the interrupted ones, and last the one that answers.
        finding: Where things are.
        before: Roots that only retrieved for it.
    """
    root = parts[-1]
    notes = _Notes({"run": str(root.id)}, [])
    given = {key: value for part in reversed((*before, *parts)) for key, value in rules.given(part).items()}
    calls = [call for part in parts for call in documents.calls_of(part)]
    answer = _answer(root, finding, calls, notes)
    call = documents.answering_call(calls, answer)
    found = _retrieved((*before, *parts), finding, call, calls)
    retrieved = documents.distinct(found)
    if found:
        notes.provenance["retrieved"] = ", ".join(dict.fromkeys(one.run.name for one in found))
    question = _question(parts, before, finding, given, found, notes)
    asked = [*parts, *filter(rules.is_retrieval_only, before)]
    own = {one.id for part in asked for one in tree.walk(part)}
    queries = {query for one in found if one.run.id in own and (query := rules.query_of(one.run)) is not None}
    return Sample(
        question=question,
        contexts=_contexts((*before, *parts), finding, retrieved, call, notes),
        retrieved=retrieved,
        answer=answer,
        reference=_references(given.get("reference")),
        facts=given.get("facts"),
        standalone_question=queries.pop() if len(queries) == 1 and question not in queries else None,
        history=_history(root, question),
        generator=documents.model_of(call) if call is not None else None,
        error=rules.error_of(root),
        id=None if given.get("id") is None else str(given["id"]),
        metadata=_own_metadata(given),
        capture=CaptureNotes(
            provenance=notes.provenance,
            warnings=tuple(notes.warnings),
            complete=not root.error and not _is_empty(root.outputs),
        ),
    )


def _history(root: RunBase, question: str | None) -> tuple[Turn, ...]:
    if root.run_type != "chain":
        return ()
    found = rules.history_in(root.inputs) or rules.history_in(root.outputs)
    return found or rules.history_loaded(root, question)


@dataclass
class _Notes:
    provenance: dict[str, str]
    warnings: list[str]


def _is_empty(outputs: Mapping[str, Any] | None) -> bool:
    """True for a stream that was abandoned and a run that never ended."""
    return not outputs or (set(outputs) == {"output"} and outputs["output"] is None)


def _references(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(str(item) for item in items if item is not None)


def _own_metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    own = given.get("metadata")
    fields = ("question", "reference", "facts", "id", "metadata", "answer")
    rest = {str(key): value for key, value in given.items() if key not in fields}
    return {**rest, **own} if isinstance(own, Mapping) else rest


def _override(field: str, finding: Finding, runs: Sequence[RunBase]) -> tuple[bool, Any]:
    places = [place for run in runs for place in (run.inputs, run.outputs or {})]
    return finding.find(field, runs[-1], *places)


def _question(
    parts: Sequence[RunBase],
    before: Sequence[RunBase],
    finding: Finding,
    given: Mapping[str, Any],
    found: Sequence[Retrieval],
    notes: _Notes,
) -> str | None:
    said, value = _override("question", finding, parts)
    if said:
        notes.provenance["question"] = "question_from"
        return rules.question_in(value)
    if given.get("question") is not None:
        notes.provenance["question"] = "metadata['ragmetrics']['question']"
        return str(given["question"])
    for run in (*parts, *before):
        asked = rules.question_in(run.inputs) if run.run_type == "chain" and not rules.is_continuation(run) else None
        if asked is not None:
            notes.provenance["question"] = f"inputs of {run.name}"
            return asked
    for run in parts:
        asked = rules.question_in_state(run.outputs or {})
        if asked is not None:
            notes.provenance["question"] = f"outputs of {run.name}"
            return asked
    asked = next((query for one in (*(r.run for r in found), *before, *parts) if (query := rules.query_of(one))), None)
    if asked is None:
        notes.warnings.append("no question was found")
        return None
    notes.provenance["question"] = "query of the first retriever"
    if not before and not rules.is_retrieval_only(parts[-1]):
        notes.warnings.append("the question was not found in the inputs; the retriever's query stands for it")
    return asked


def _answer(root: RunBase, finding: Finding, calls: Sequence[Call], notes: _Notes) -> str | None:
    said, value = _override("answer", finding, (root,))
    if said:
        notes.provenance["answer"] = "answer_from"
        return rules.answer_text(value)
    if root.error or rules.is_retrieval_only(root):
        return None
    if tree.is_model(root):
        notes.provenance["answer"] = "the model call"
        return calls[-1].text if calls else None
    answer, notes.provenance["answer"] = rules.answer_in(root.outputs, calls)
    if answer is None:
        notes.warnings.append("no answer was found in the outputs")
    elif "model call" in notes.provenance["answer"] and len(set(rules.model_texts(root.outputs or {}, calls))) > 1:
        notes.warnings.append("the outputs hold the texts of several model calls; the last one is taken as the answer")
    return answer


def _retrieved(runs: Sequence[RunBase], finding: Finding, call: Call | None, calls: Sequence[Call]) -> list[Retrieval]:
    found = [one for run in runs for one in finding.retrieved_in(run)]
    if found:
        ids = [name for one in calls for name in one.ids]
        return documents.in_order(found, call.prompt if call is not None else "", ids)
    found = [one for run in runs for one in documents.introduced(run)]
    return found or [one for run in runs for one in rules.handed_in(run)]


def _contexts(
    runs: Sequence[RunBase], finding: Finding, retrieved: tuple[Context, ...], call: Call | None, notes: _Notes
) -> tuple[Context, ...]:
    said, value = _override("contexts", finding, runs)
    if said:
        notes.provenance["contexts"] = "contexts_from"
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(
            context
            for item in items
            for context in (contexts_in(item) if not isinstance(item, str) else (Context(text=text_of(item)),))
        )
    if any(key in context.metadata for context in retrieved for key in DISTANCE_KEYS):
        notes.warnings.append("documents carry a distance (lower is better); it is not taken as their score")
    reworked = documents.reworked((one for run in runs for one in documents.introduced(run)), retrieved)
    candidates = (*retrieved, *reworked)
    in_prompt = documents.shown(candidates, call.prompt) if call is not None else ()
    if not in_prompt:
        notes.provenance["contexts"] = "everything retrieved"
        if retrieved and call is not None:
            notes.warnings.append("no retrieved text occurs in the answering prompt; all retrieved ones stand for it")
        return retrieved
    notes.provenance["contexts"] = f"what occurs in the prompt of {call.run.name}" if call is not None else ""
    hidden = len(retrieved) - len([context for context in in_prompt if context in retrieved])
    if hidden and not reworked:
        notes.warnings.append(f"{hidden} of {len(retrieved)} retrieved documents were not shown to the model")
    return in_prompt
