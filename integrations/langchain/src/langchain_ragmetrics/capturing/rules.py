"""The rules S, Q and A: which root is a sample, its question and its answer; one small function each.

All are pure: they read a tree of runs and change nothing. The rules D are in ``documents``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.prompt_values import PromptValue
from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing.documents import Call, Retrieval, introduced, retrievals
from langchain_ragmetrics.capturing.tree import children, is_model, metadata_of, walk
from langchain_ragmetrics.values import (
    Said,
    compact,
    context_of,
    contexts_in,
    conversation,
    fields_of,
    is_command,
    said,
)
from ragmetrics_core import Turn

QUESTION_KEYS = ("question", "query", "input", "user_input", "user_question", "prompt", "messages")
ANSWER_KEYS = ("answer", "result", "output_text", "output", "response", "generation", "text", "content")
HISTORY_KEYS = ("chat_history", "history")


# S: which root is a sample


def roots_of(run: RunBase) -> list[RunBase]:
    """S1, S3: the runs that count as roots: items of ``map``; no childless wrapper of fallbacks."""
    if run.name.startswith("RunnableEach<"):
        return [root for child in children(run) for root in roots_of(child)]
    return [] if is_fallbacks(run) and not children(run) and not run.error else [run]


def is_fallbacks(run: RunBase) -> bool:
    """S3: a wrapper of fallbacks, whose alternatives are recorded beside it."""
    return run.name == "RunnableWithFallbacks"


def has_retrieval(run: RunBase, context_tools: Collection[str]) -> bool:
    """S2: something was retrieved, or a retriever ran and found nothing."""
    tried = any(one.run_type == "retriever" for one in walk(run))
    return tried or any(retrievals(run, context_tools)) or any(introduced(run))


def handed_in(run: RunBase) -> Iterator[Retrieval]:
    """D1: documents that the caller passed to a root together with a question, retrieved where no run was seen."""
    found = tuple(contexts_in(run.inputs)) if run.run_type == "chain" else ()
    if found and question_in(run.inputs) is not None and any(map(is_model, walk(run))):
        yield Retrieval(run, found)


def error_of(run: RunBase) -> str | None:
    """S4: the error with which the run ended, without its traceback."""
    return run.error.split("Traceback (most recent call last)")[0].strip() or "error" if run.error else None


def is_interrupted(run: RunBase) -> bool:
    """S5: a node of the graph waits for a person."""
    waits = any((one.error or "").startswith("GraphInterrupt(") for one in walk(run))
    return run.error is None and waits and thread_of(run) is not None


def is_continuation(run: RunBase) -> bool:
    """S5: the run resumes a graph instead of asking something new."""
    value = run.inputs.get("input") if len(run.inputs) == 1 else None
    return is_command(value) or (not run.inputs or (set(run.inputs) == {"input"} and value is None))


def thread_of(run: RunBase) -> str | None:
    """S5: the conversation that a checkpointer keeps."""
    thread = metadata_of(run).get("thread_id")
    return None if thread is None else f"{run.name}/{thread}"


def is_retrieval_only(run: RunBase) -> bool:
    """S6: a retrieval that stands alone; a later model call may belong to it."""
    if run.run_type == "retriever":
        return True
    outputs = run.outputs or {}
    only_documents = run.run_type == "tool" or (set(outputs) == {"output"} and any(contexts_in(outputs)))
    return only_documents and not any(map(is_model, walk(run)))


# Q: the question


def given(run: RunBase) -> Mapping[str, Any]:
    """Q: what the caller said in the metadata of the call."""
    found = metadata_of(run).get("ragmetrics")
    return found if isinstance(found, Mapping) else {}


def question_in(value: object, *, depth: int = 4) -> str | None:
    """Q: the question in a root's inputs: a text, the last human message, or a field of a usual name."""
    if isinstance(value, str):
        return value if value.strip() else None
    message = said(value)
    if message is not None:
        return (message.text.strip() and message.text) or None if message.role == "user" else None
    messages = conversation(value)
    if messages is not None:
        return next((one.text for one in reversed(messages) if one.role == "user" and one.text.strip()), None)
    fields = fields_of(value) if depth and context_of(value) is None and not isinstance(value, PromptValue) else None
    if fields is None:
        return None
    for key in QUESTION_KEYS:
        found = question_in(fields.get(key), depth=depth - 1)
        if found is not None:
            return found
    texts = [item for item in fields.values() if isinstance(item, str) and item.strip()]
    if len(texts) == 1:
        return texts[0]
    return question_in(next(iter(fields.values())), depth=depth - 1) if len(fields) == 1 and not texts else None


def question_in_state(outputs: Mapping[str, Any]) -> str | None:
    """Q: the question that a resumed graph keeps in its state; never its messages, which steps rewrite."""
    keys = ("question", "query", "user_input", "user_question")
    return next((text for key in keys if isinstance(text := outputs.get(key), str) and text.strip()), None)


def history_in(value: object, *, depth: int = 3) -> tuple[Turn, ...]:
    """Q: earlier turns of the conversation: what stands before the last human message."""
    messages = conversation(value)
    if messages is not None:
        last = max((place for place, one in enumerate(messages) if one.role == "user"), default=0)
        return turns(messages[:last])
    fields = fields_of(value) if depth and not isinstance(value, str) else None
    if fields is None:
        return ()
    for key in HISTORY_KEYS:
        earlier = conversation(fields.get(key))
        if earlier is not None:
            return turns(earlier)
    for key in ("input", "messages", *(fields if len(fields) == 1 else ())):
        found = history_in(fields.get(key), depth=depth - 1)
        if found:
            return found
    return ()


def history_loaded(run: RunBase, question: str | None) -> tuple[Turn, ...]:
    """Q: earlier turns that ``RunnableWithMessageHistory`` loaded."""
    loads = (one for one in walk(run) if one.run_type == "chain" and one.name == "load_history")
    found = next((conversation((one.outputs or {}).get("output")) or () for one in loads), ())
    earlier = turns(found)
    return earlier[:-1] if earlier and earlier[-1].content == question else earlier


def turns(messages: Iterable[Said]) -> tuple[Turn, ...]:
    """Q: what user and assistant said; no tool calls and no instructions."""
    spoken = (one for one in messages if one.role in ("user", "assistant") and one.text.strip())
    return tuple(Turn(role=one.role, content=one.text) for one in spoken)


def query_of(run: RunBase) -> str | None:
    """Q: what a retriever was asked."""
    query = run.inputs.get("query")
    return query if isinstance(query, str) and query.strip() else None


# A: the answer


def answer_in(outputs: Mapping[str, Any] | None, calls: Sequence[Call]) -> tuple[str | None, str]:
    """A: the answer in a root's outputs.

    Returns:
        The answer, None if there is none, and where it was found.
    """
    outputs = outputs or {}
    if outputs.get("structured_response") is not None:
        return structured(outputs["structured_response"]), "outputs['structured_response']"
    for key in ANSWER_KEYS:
        found = answer_text(outputs.get(key))
        if found is not None:
            return found, f"outputs[{key!r}]"
    found = last_answer(conversation(outputs.get("messages")) or ())
    if found is not None:
        return found, "the last message in outputs['messages']"
    written = next(model_texts(outputs, calls), None)
    return written, "a model call whose text occurs in the outputs" if written else "nothing in the outputs"


def answer_text(value: object) -> str | None:
    """A: the answer in one value: a text, a message, the last of several messages, or a structured answer."""
    if isinstance(value, str):
        return value if value.strip() else None
    message = said(value)
    if message is not None:
        return message.text if message.text.strip() and message.role in ("assistant", "other", "tool") else None
    if isinstance(value, (list, tuple)) and fields_of(value) is None:
        return last_answer(() if any(isinstance(item, str) for item in value) else conversation(value) or ())
    return None if context_of(value) is not None else structured(value)


def structured(value: object) -> str | None:
    """A: the answer field of a structured answer; without one, all of it as compact JSON."""
    if isinstance(value, str):
        return value if value.strip() else None
    fields = fields_of(value)
    if fields is None:
        found = getattr(value, "answer", None)  # an object of any class
        return found if isinstance(found, str) and found.strip() else None
    for key in ANSWER_KEYS:
        found = fields.get(key)
        if isinstance(found, str) and found.strip():
            return found
        message = said(found)
        if message is not None and message.text.strip():
            return message.text
    if "messages" in fields:
        return last_answer(conversation(fields["messages"]) or ())
    return compact(value) if fields and not any(contexts_in(fields)) else None


def last_answer(messages: Sequence[Said]) -> str | None:
    """A: the last message of the assistant after the last human one that calls no tool; else a direct tool result."""
    last_human = max((place for place, one in enumerate(messages) if one.role == "user"), default=-1)
    said_after = messages[last_human + 1 :]
    spoken = [one for one in said_after if one.role == "assistant" and not one.calls and one.text.strip()]
    if spoken:
        return spoken[-1].text
    direct = said_after[-1] if said_after else None
    return direct.text if direct is not None and direct.role == "tool" and direct.text.strip() else None


def model_texts(outputs: Mapping[str, Any], calls: Sequence[Call]) -> Iterator[str]:
    """A: texts of model calls that occur in the outputs, as they are or parsed from JSON; the last call first."""
    held = list(_texts(outputs))
    for call in reversed(calls):
        text = call.text.strip()
        if text and any(text in one for one in held):
            yield call.text
        elif text[:1] == "{" and outputs and _parsed(text) == dict(outputs):
            yield compact(dict(outputs))


def _parsed(text: str) -> object:
    try:
        return json.loads(re.sub(r"^```\w*|```$", "", text))
    except ValueError:
        return None


def _texts(value: object, depth: int = 3) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, depth - 1)
