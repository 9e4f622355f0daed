"""Which call wrote an answer, and what the user asked: one small function per rule. All are pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_LLM, COMPONENT, PIPELINE, Message, Node, Run
from haystack_integrations.tracing.ragmetrics.reading import messages, normal, texts

# Sockets that usually hold the question, the usual ones first.
QUESTION_SOCKETS = (
    *("question", "query", "user_query", "text", "user_input", "input", "prompt", "queries", "value", "messages"),
)
_NO_QUESTION = frozenset({"template", "prompt_template", "system_prompt", "filters", "generation_kwargs", "meta"})


# Calls of models


def is_call(run: Run, node: Node) -> bool:
    """True if a span called a chat model itself: messages in, replies out, and no such span inside it."""
    if node.operation == AGENT_LLM:
        return True
    if node.operation != COMPONENT or "replies" not in (
        node.tags.get("haystack.component.output_spec") or node.sockets
    ):
        return False
    prompted = any(texts(node.input.get(socket)) for socket in ("messages", "prompt"))
    return prompted and not any(inner.within(node) for inner in run.nodes if inner.operation in (PIPELINE, AGENT))


def calls(run: Run, generator: str | None = None) -> list[Node]:
    """Calls of chat models, in the order in which they ended; those still open come last.

    Args:
        run: The run.
        generator: Only calls of this component, by its dotted path.
    """
    found = [node for node in run.nodes if is_call(run, node) and (generator is None or _named(node, generator))]
    return sorted(found, key=lambda node: (not node.closed, node.closed, node.opened))


def _named(node: Node, name: str) -> bool:
    """True for the component of this path, and for the calls inside it."""
    return f"{node.path}.".startswith(f"{name}.") or f".{node.path}.".endswith(f".{name}.")


def replies(call: Node) -> tuple[str, ...]:
    """Texts that a call returned."""
    return texts(call.sockets.get("replies"))


def model_of(call: Node) -> str | None:
    """Name of the model as the reply gives it."""
    return next((message.model for message in messages(call.sockets.get("replies")) if message.model), None)


def prompt(call: Node) -> tuple[str, ...]:
    """Texts that a call was given, system message and tool results included."""
    return texts({name: call.input.get(name) for name in ("messages", "prompt")})


def call_behind(found: list[Node], answer: str | None, said: Iterable[str]) -> tuple[Node | None, bool]:
    """The call that wrote an answer: matched by value, because wiring leads astray at routers and joiners.

    Args:
        found: Calls in the order in which they ended.
        answer: Text of the answer.
        said: Replies that the answer was built from, where it names them.

    Returns:
        The last call with an equal reply, else with one that contains the answer, else the last one (the text was
        changed after the call); and whether the value matched.
    """
    ended = [call for call in found if call.output is not None]
    equal = {normal(text) for text in (*said, answer or "") if text.strip()}
    for call in reversed(ended):
        if equal & {normal(text) for text in replies(call)}:
            return call, True
    if answer and answer.strip():
        for call in reversed(ended):
            if any(normal(answer) in normal(text) for text in replies(call)):
                return call, True
    return (found[-1] if found else None), False


# The question


@dataclass
class Given:
    """A text that the user gave.

    Args:
        text: The text.
        places: ``component.socket`` of each socket that got it.
        names: Names of these sockets.
        history: Earlier turns, where it is the last user message of several.
    """

    text: str
    places: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    history: tuple[Message, ...] = ()


def given_texts(run: Run) -> list[Given]:
    """Texts that the user gave, each once: of messages the last of the user, of lists the first."""
    found: dict[str, Given] = {}
    for place, name, value in _inputs(run):
        text, history = _as_question(value)
        if text is None or not text.strip() or name in _NO_QUESTION:
            continue
        entry = found.setdefault(normal(text), Given(text))
        entry.places.append(place)
        entry.names.append(name)
        entry.history = entry.history or history
    return list(found.values())


def _inputs(run: Run) -> Iterator[tuple[str, str, Any]]:
    parts = {"": run.input} if run.root.operation == AGENT else run.input
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                yield from ((f"{place}.{key}", key, item) for key, item in value.items())


def _as_question(value: object) -> tuple[str | None, tuple[Message, ...]]:
    if isinstance(value, str):
        return value, ()
    if isinstance(value, Message):
        return value.text, ()
    if isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
        return value[0], ()
    said = tuple(messages(value)) if isinstance(value, tuple) else ()
    last = next(
        (place for place in reversed(range(len(said))) if said[place].role == "user" and said[place].text), None
    )
    if last is None:
        return None, ()
    return said[last].text, tuple(one for one in said[:last] if one.text and one.role in ("user", "assistant"))


def question(run: Run, shown: tuple[str, ...], query: str | None) -> tuple[str | None, str | None, Given | None]:
    """The question in the user's own words.

    Args:
        run: The run.
        shown: What the model saw.
        query: The question that the answer carries.

    Returns:
        The question; a rewrite of it, where the answer carries one; and what the user gave.
    """
    given = given_texts(run)
    same = next((one for one in given if query and normal(one.text) == normal(query)), None)
    if same is not None:
        return same.text, None, same
    seen = "\n".join(map(normal, shown))
    likely = [one for one in given if _known(one) or _contained(one, seen)]
    best = max(likely, key=lambda one: (_contained(one, seen), len(one.places), -_rank(one)), default=None)
    if best is None:
        return query, None, None
    return best.text, query, best


def _rank(given: Given) -> int:
    return min(
        QUESTION_SOCKETS.index(name) if name in QUESTION_SOCKETS else len(QUESTION_SOCKETS) for name in given.names
    )


def _known(given: Given) -> bool:
    return _rank(given) < len(QUESTION_SOCKETS)


def _contained(given: Given, seen: str) -> bool:
    """True if the model saw it as whole words; a single word of an unknown socket proves nothing."""
    text = normal(given.text)
    if not _known(given) and " " not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", seen) is not None
