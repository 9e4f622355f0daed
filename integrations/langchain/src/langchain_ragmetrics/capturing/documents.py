"""The rules D: which documents a run brought in, in which order, and which of them the model saw."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from langchain_core.messages import ToolMessage
from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing.tree import children, is_model, metadata_of, walk
from langchain_ragmetrics.values import SCORE_KEYS, artifacts_of, compact, contexts_in, said, text_of
from ragmetrics_core import Context

OBSERVED = "ragmetrics-observed"


@dataclass(frozen=True)
class Retrieval:
    """Documents that one run brought in.

    Args:
        run: The run.
        contexts: Its documents, in its order.
        path: The runs above it, from the root down, and itself.
    """

    run: RunBase
    contexts: tuple[Context, ...]
    path: tuple[RunBase, ...] = ()

    def beside(self, other: Retrieval) -> bool:
        """True if both ran at the same time, or in branches that did."""
        pairs = itertools.zip_longest(self.path, other.path)
        one, two = next(((one, two) for one, two in pairs if one is not two), (None, None))
        return one is not None and two is not None and one.start_time < _end(two) and two.start_time < _end(one)


def _end(run: RunBase) -> datetime:
    return run.end_time or run.start_time


def retrievals(run: RunBase, context_tools: Collection[str], above: tuple[RunBase, ...] = ()) -> Iterator[Retrieval]:
    """D1, D6: outermost retriever runs that succeeded, and what tools returned beside their text."""
    path = (*above, run)
    if run.run_type == "retriever":
        if not run.error:
            yield Retrieval(run, with_scores(tuple(contexts_in((run.outputs or {}).get("documents"))), run), path)
        return
    below = [found for child in children(run) for found in retrievals(child, context_tools, path)]
    yield from below
    if run.run_type == "tool" and not run.error:
        known = {context.text for found in below for context in found.contexts}
        brought = tuple(context for context in tool_contexts(run, context_tools) if context.text not in known)
        if brought:
            yield Retrieval(run, brought, path)


def tool_contexts(run: RunBase, context_tools: Collection[str]) -> Iterator[Context]:
    """D1, D6: documents in a tool's artifact; its text only if the user says that it is context."""
    output = (run.outputs or {}).get("output")
    found = [context for artifact in artifacts_of(output) for context in contexts_in(artifact)]
    yield from found
    if run.name in context_tools and not found:
        message = said(output)
        text = message.text if message is not None else text_of(output)
        if text.strip():
            yield Context(text=text)


def introduced(run: RunBase) -> Iterator[Retrieval]:
    """D1: documents in the outputs of chain steps that were not in their inputs, in the order the steps ended."""
    steps = [one for one in walk(run) if one.run_type == "chain" and (one is not run or not children(run))]
    for step in sorted(steps, key=lambda step: step.end_time or step.start_time):
        before = {(context.id, context.text) for context in contexts_in(step.inputs)}
        found = tuple(c for c in contexts_in(step.outputs or {}) if (c.id, c.text) not in before)
        if found:
            yield Retrieval(step, found)


def with_scores(contexts: tuple[Context, ...], run: RunBase) -> tuple[Context, ...]:
    """D4: scores that an observed search below a retriever reported for the same documents."""
    observed = [one for one in walk(run) if OBSERVED in (one.tags or ()) and one is not run]
    if not observed or all(context.score is not None for context in contexts):
        return contexts
    known = {key_of(c): c.score for one in observed for c in contexts_in((one.outputs or {}).get("documents"))}
    return tuple(
        context if context.score is not None else context.model_copy(update={"score": known.get(key_of(context))})
        for context in contexts
    )


def in_order(found: Iterable[Retrieval], prompt: str, calls: Sequence[str] = ()) -> list[Retrieval]:
    """D2: by start; those that ran beside each other by their place in the prompt, else by branch or tool call."""
    groups: list[list[Retrieval]] = []
    for one in sorted(found, key=lambda one: one.run.start_time):
        if groups and any(one.beside(other) for other in groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    places = _Prompt(prompt)

    def rank(one: Retrieval) -> tuple[float, int, str]:
        key = call_of(one.run)
        return places.first(one.contexts), calls.index(key) if key in calls else len(calls), branch_of(one.path)

    return [one for group in groups for one in sorted(group, key=rank)]


def branch_of(path: Iterable[RunBase]) -> str:
    """D2: the key of the parallel branch that a run belongs to."""
    return next((tag for run in path for tag in run.tags or () if tag.startswith("map:key:")), "")


def call_of(run: RunBase) -> str | None:
    """D2: the id of the tool call that the run answers."""
    output = (run.outputs or {}).get("output") if run.run_type == "tool" else None
    return output.tool_call_id if isinstance(output, ToolMessage) else None


def key_of(context: Context) -> tuple[str, ...]:
    """D3: what makes a document the same: its id, else text and metadata without scores."""
    if context.id is not None:
        return ("id", context.id)
    rest = sorted((key, repr(value)) for key, value in context.metadata.items() if key not in SCORE_KEYS)
    return ("text", context.text, repr(rest))


def distinct(found: Iterable[Retrieval]) -> tuple[Context, ...]:
    """D3: each document once, at its first rank; a tool or step that repeats a known text adds nothing."""
    kept: dict[tuple[str, ...], Context] = {}
    texts: set[str] = set()
    for one in found:
        fresh = (c for c in one.contexts if one.run.run_type == "retriever" or c.text not in texts)
        for context in list(fresh):
            kept.setdefault(key_of(context), context)
            texts.add(context.text)
    return tuple(kept.values())


def reworked(found: Iterable[Retrieval], known: Iterable[Context]) -> tuple[Context, ...]:
    """D5: texts that chain steps introduced beside the retrieved ones, e.g. compressed or rewritten."""
    texts = {context.text for context in known}
    fresh: dict[str, Context] = {}
    for context in itertools.chain.from_iterable(one.contexts for one in found):
        if context.text not in texts:
            fresh.setdefault(context.text, context)
    return tuple(fresh.values())


def shown(contexts: Sequence[Context], prompt: str) -> tuple[Context, ...]:
    """D5: the documents whose text occurs in a prompt, in their order; a text inside a longer one counts once."""
    places = _Prompt(prompt)
    by_length = sorted(range(len(contexts)), key=lambda place: -len(contexts[place].text))
    kept = {place for place in by_length if places.take(contexts[place].text)}
    return tuple(context for place, context in enumerate(contexts) if place in kept)


class _Prompt:
    """A prompt in which texts are looked up, whatever their line breaks and escapes."""

    def __init__(self, prompt: str) -> None:
        self._text = _flat(prompt)

    def first(self, contexts: Iterable[Context]) -> float:
        """Where the first of some documents begins; infinity if none occurs."""
        places = (self._text.find(form) for context in contexts for form in _forms(context.text))
        return min((place for place in places if place >= 0), default=float("inf"))

    def take(self, text: str) -> bool:
        """Take one occurrence of a text out of the prompt; False if there is none."""
        for form in _forms(text):
            place = self._text.find(form)
            if place >= 0:
                self._text = self._text[:place] + "\0" + self._text[place + len(form) :]
                return True
        return False


def _flat(text: str) -> str:
    return " ".join(text.split())


def _forms(text: str) -> list[str]:
    """How a text may stand in a prompt: as it is, or inside JSON."""
    quoted = (json.dumps(text.strip(), ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True))
    return [form for form in dict.fromkeys(map(_flat, (text, *quoted))) if form]


# D5, A: model calls


@dataclass(frozen=True)
class Call:
    """One model call that succeeded.

    Args:
        run: Its run.
        text: What the model said.
        arguments: The arguments of its tool calls, which hold a structured answer.
        ids: Ids of its tool calls, in order.
    """

    run: RunBase
    text: str
    arguments: tuple[str, ...]
    ids: tuple[str, ...]

    @property
    def everything(self) -> str:
        """Text and arguments, on one line."""
        return _flat("\n".join((self.text, *self.arguments)))

    @property
    def prompt(self) -> str:
        """What the model was shown."""
        return prompt_of(self.run)


def calls_of(run: RunBase) -> list[Call]:
    """D5: model calls that succeeded, in start order."""
    return [_call(one) for one in walk(run) if is_model(one) and not one.error]


def _call(run: RunBase) -> Call:
    batches = (run.outputs or {}).get("generations") or [[]]
    first = batches[0][0] if batches[0] and isinstance(batches[0][0], Mapping) else {}
    message = said(first.get("message"))
    text = first.get("text") or (message.text if message is not None else "")
    stored = first.get("message")
    fields = stored.get("kwargs", stored) if isinstance(stored, Mapping) else {}
    info = first.get("generation_info") or {}
    raw = fields.get("tool_calls") or info.get("ragmetrics_tool_calls") or ()
    made = [call for call in raw if isinstance(call, Mapping)]
    arguments = tuple(compact(call.get("args")) for call in made)
    return Call(run, str(text), arguments, tuple(str(call.get("id")) for call in made))


def prompt_of(run: RunBase) -> str:
    """D5: everything that a model was shown, as one text."""
    prompts = run.inputs.get("prompts")
    if isinstance(prompts, list):
        return "\n".join(str(prompt) for prompt in prompts)
    batches = run.inputs.get("messages") or []
    messages = [said(item) for batch in batches for item in (batch if isinstance(batch, list) else [batch])]
    return "\n".join(message.text for message in messages if message is not None)


def answering_call(calls: Sequence[Call], answer: str | None) -> Call | None:
    """D5: the call that wrote the answer: the same text, else one that holds it or is part of it; else the last."""
    wanted = _flat(answer or "")
    if wanted:
        same = [call for call in calls if _flat(call.text) == wanted]
        holding = [call for call in calls if any(form in call.everything for form in _forms(wanted))]
        part = [call for call in calls if len(_flat(call.text)) > 1 and _flat(call.text) in wanted]
        part.sort(key=lambda call: len(_flat(call.text)))
        for found in (same, holding, part):
            if found:
                return found[-1]
    return calls[-1] if calls else None


def model_of(call: Call) -> str | None:
    """The model that wrote the answer, as LangChain names it."""
    name = metadata_of(call.run).get("ls_model_name")
    return name if isinstance(name, str) else None
