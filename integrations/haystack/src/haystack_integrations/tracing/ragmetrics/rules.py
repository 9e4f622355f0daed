"""What a run tells about question, contexts and answer: one small function per rule. All are pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    AGENT_TOOL,
    COMPONENT,
    PIPELINE,
    Doc,
    Message,
    Node,
    Reply,
    Run,
    ToolResult,
    strings,
)

# Sockets that usually hold the question, the usual ones first.
QUESTION_SOCKETS = ("question", "query", "user_query", "text", "user_input", "input", "prompt", "queries", "value", "messages")
_NO_QUESTION = frozenset({"template", "prompt_template", "system_prompt", "filters", "generation_kwargs", "meta"})
_STEPS = 12
_PART = 20  # characters from which a text counts as found inside a longer one
_BEGINNING = 40  # characters by which a shortened document is still known


@lru_cache(maxsize=512)
def normal(text: str) -> str:
    """A text with each run of whitespace as one space."""
    return " ".join(text.split())


def documents(value: object) -> Iterator[Doc]:
    """All documents in a copied value, in order; those that an answer carries are not among them."""
    if isinstance(value, Doc):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from documents(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from documents(item)


def messages(value: object) -> Iterator[Message]:
    """All messages in a copied value, in order."""
    if isinstance(value, Message):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from messages(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from messages(item)


def answers(value: object) -> Iterator[Reply]:
    """All answers in a copied value, in order."""
    if isinstance(value, Reply):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from answers(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from answers(item)


def texts(value: object) -> tuple[str, ...]:
    """All texts in a copied value that say something: plain ones, those of messages, tool results and answers."""
    said = [message.text or "" for message in messages(value)]
    shown = [result.text for message in messages(value) for result in message.results]
    answered = [answer.text or "" for answer in answers(value)]
    return tuple(text for text in (*strings(value), *said, *shown, *answered) if text.strip())


# Calls of models


def is_call(run: Run, node: Node) -> bool:
    """True if a span called a chat model itself: messages in, replies out, and no such span inside it."""
    if node.operation == AGENT_LLM:
        return True
    if node.operation != COMPONENT or "replies" not in (node.tags.get("haystack.component.output_spec") or node.sockets):
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


# Contexts


@dataclass(frozen=True)
class Evidence:
    """Documents that reached a call.

    Args:
        docs: The documents, or texts where a tool returned only texts; in the order of the prompt.
        place: Where they were found.
        warnings: What was ambiguous.
        searched: True if a list of documents was there, be it empty: something was retrieved for the call.
    """

    docs: tuple[Doc | str, ...] = ()
    place: str = ""
    warnings: tuple[str, ...] = ()
    searched: bool = field(default=False)


def evidence(run: Run, call: Node) -> Evidence:
    """Documents that reached a call: those of its agent, else those of the prompt."""
    agent = next((node for node in call.ancestors if node.operation == AGENT), None)
    if agent is None:
        return prompt_evidence(run, prompt(call), call.opened, prompt(call))
    given = tuple(documents({name: value for name, value in agent.input.items() if name != "messages"}))
    before = next((node.opened for node in agent.ancestors), agent.opened)
    if given:
        first = kept_in_prompt(given, prompt(call), f"{agent.path or 'agent'} input")
    else:
        first = prompt_evidence(run, texts(agent.input.get("messages")), before, prompt(call))
    found, searched = tool_evidence(run, agent, call)
    if not found and not searched:
        return first
    merged = once((*first.docs, *found))
    place = ", ".join(filter(None, (first.place, "tools")))
    return Evidence(merged, place, first.warnings, True)


def prompt_evidence(run: Run, said: tuple[str, ...], before: int, shown: tuple[str, ...]) -> Evidence:
    """Documents behind a prompt: search backwards, from the component that wrote it to what that one was given.

    Args:
        run: The run.
        said: Texts whose origin is looked for.
        before: Only components that ended before this position.
        shown: Everything that the model saw.
    """
    frontier = [(text, before) for text in said]
    for _ in range(_STEPS):
        makers = list(dict.fromkeys(maker for text, limit in frontier if (maker := producer(run, text, limit))))
        found = [(maker, *group) for maker in makers for group in as_shown(document_sockets(run, maker), shown)]
        if any(docs for _, _, docs in found):
            place = ", ".join(f"{maker.path}.{socket}" for maker, socket, docs in found if docs)
            several = len({maker for maker, _, docs in found if docs}) > 1
            together = tuple(doc for _, _, docs in found for doc in docs)
            return kept_in_prompt(once(together) if several else together, shown, place)  # type: ignore[arg-type]
        if found:
            return Evidence(place=", ".join(f"{maker.path}.{socket}" for maker, socket, _ in found), searched=True)
        frontier = [(text, maker.opened) for maker in makers for text in dict.fromkeys(texts(maker.input))]
    return seen_in_prompt(run, before, shown)


def producer(run: Run, text: str, before: int) -> Node | None:
    """The latest component that ended before a position and whose output holds a text; the innermost of nested ones."""
    wanted = normal(text)
    holding = [
        node
        for node in run.nodes
        if node.operation in (COMPONENT, AGENT_LLM) and 0 < node.closed < before and _holds(texts(node.output), wanted)
    ]
    innermost = (node for node in holding if not any(other.within(node) for other in holding))
    return max(innermost, key=lambda node: node.closed, default=None)


def _holds(said: tuple[str, ...], wanted: str) -> bool:
    return any(wanted == normal(text) or (len(wanted) >= _PART and wanted in normal(text)) for text in said)


def document_sockets(run: Run, node: Node) -> list[tuple[str, tuple[Doc, ...]]]:
    """Input sockets of a component that hold lists of documents, in socket order; empty lists are among them."""
    spec: Mapping[str, Any] = node.tags.get("haystack.component.input_spec") or dict.fromkeys(node.input)
    order = [*(name for name in spec if name in node.input), *(name for name in node.input if name not in spec)]
    found = []
    for name in order:
        docs = tuple(documents(node.input[name]))
        if docs or (node.input[name] == () and _for_documents(run, spec.get(name))):
            found.append((name, docs))
    return found


def as_shown(
    groups: list[tuple[str, tuple[Doc, ...]]], shown: tuple[str, ...]
) -> list[tuple[str, tuple[Doc, ...]]]:
    """Sockets in the order in which their documents stand in the prompt; a template's own order is arbitrary."""
    seen = "\n".join(map(normal, shown))

    def position(group: tuple[str, tuple[Doc, ...]]) -> tuple[int, str]:
        places = [seen.find(_beginning(doc)) for doc in group[1] if doc.content]
        return min((place for place in places if place >= 0), default=len(seen)), group[0]

    return sorted(groups, key=position)


def _for_documents(run: Run, socket: Any) -> bool:
    """True if a socket is for documents by its type, or because a sender emits documents only."""
    if not isinstance(socket, Mapping):
        return False
    senders = set(socket.get("senders") or ())
    return "Document" in str(socket.get("type")) or any(
        node.name in senders and _emits_documents(node) for node in run.components()
    )


def _emits_documents(node: Node) -> bool:
    spec = node.tags.get("haystack.component.output_spec") or {}
    return any("Document" in str(socket.get("type")) for socket in spec.values())


def kept_in_prompt(docs: tuple[Doc, ...], shown: tuple[str, ...], place: str) -> Evidence:
    """Those documents whose content is in the prompt; all of them, with a warning, if none can be found there."""
    seen = "\n".join(map(normal, shown))
    readable = tuple(doc for doc in docs if doc.content and doc.content.strip())
    warnings = []
    if len(readable) < len(docs):
        warnings.append(f"{len(docs) - len(readable)} documents without text are no contexts")
    whole = [doc for doc in readable if normal(doc.content or "") in seen]
    explained = {_beginning(doc) for doc in whole}
    kept = tuple(doc for doc in readable if doc in whole or (_beginning(doc) in seen and _beginning(doc) not in explained))
    if not kept:
        kept = readable
    if len(whole) < len(kept):
        warnings.append("unverified: the prompt does not hold the documents word for word")
    if len(kept) < len(readable):
        warnings.append(f"{len(readable) - len(kept)} documents did not reach the prompt")
    return Evidence(kept, place, tuple(warnings), True)


def _beginning(doc: Doc) -> str:
    return normal(doc.content or "")[:_BEGINNING]


def seen_in_prompt(run: Run, before: int, shown: tuple[str, ...]) -> Evidence:
    """Any document of the run whose content occurs in the prompt, by position; the last resort."""
    seen = "\n".join(map(normal, shown))
    places: dict[str, tuple[int, Doc]] = {}
    for node in run.nodes:
        if 0 < node.closed < before:
            for doc in documents(node.output):
                position = seen.find(normal(doc.content)) if doc.content and doc.content.strip() else -1
                if position >= 0:
                    places[doc.id] = (position, doc)
    docs = tuple(doc for _, doc in sorted(places.values(), key=lambda found: found[0]))
    return Evidence(docs, "the prompt", ("found by their text in the prompt",), True) if docs else Evidence()


def tool_evidence(run: Run, agent: Node, call: Node) -> tuple[tuple[Doc | str, ...], bool]:
    """Documents, else texts, that an agent's tools returned before a call, in the order of the tool calls.

    Returns:
        The evidence, and whether any tool returned a list of documents or a text.
    """
    used = [node for node in run.nodes if node.operation == AGENT_TOOL and _agent_of(node) is agent]
    done = [node for node in used if 0 < node.closed < call.opened]
    shown = [result for message in messages(call.input.get("messages")) for result in message.results]
    pairs: list[tuple[Node, ToolResult | None]] = []
    for result in shown:
        match = next((node for node in done if node.name == result.tool and node.input == result.arguments), None)
        if match is not None:
            done.remove(match)
            pairs.append((match, result))
    pairs += [(node, None) for node in done if not shown]
    found: list[Doc | str] = []
    searched = False
    for node, seen in pairs:
        if node.failed or (seen is not None and seen.failed):
            continue
        docs = tuple(doc for doc in documents(node.output) if doc.content and doc.content.strip())
        written = any(texts(node.output))
        searched = searched or bool(docs) or written or _holds_list(node.output)
        if docs:
            found += docs
        elif written:
            found.append(seen.text if seen is not None and seen.text.strip() else "\n".join(texts(node.output)))
    return once(tuple(found)), searched


def _agent_of(node: Node) -> Node | None:
    return next((outer for outer in node.ancestors if outer.operation == AGENT), None)


def _holds_list(value: object) -> bool:
    return isinstance(value, tuple) or (isinstance(value, dict) and any(isinstance(item, tuple) for item in value.values()))


def once(docs: tuple[Doc | str, ...]) -> tuple[Doc | str, ...]:
    """The first occurrence per id, or per text where there is no document."""
    first: dict[str, Doc | str] = {}
    for doc in docs:
        first.setdefault(doc.id if isinstance(doc, Doc) else doc, doc)
    return tuple(first.values())


# What was retrieved


def sources(run: Run, before: int | None) -> list[Node]:
    """Components that made documents out of none: retrievers; the innermost of nested ones, last visit only."""
    made = [node for node in run.components() if node.closed and (before is None or node.closed < before)]
    made = [node for node in made if _retrieves(node)]
    innermost = [node for node in made if not any(other.within(node) for other in made)]
    last = {_outermost(node).path: _outermost(node) for node in innermost}
    return [node for node in innermost if last[_outermost(node).path] is _outermost(node)]


def _retrieves(node: Node) -> bool:
    spec = node.tags.get("haystack.component.input_spec") or {}
    given = any(documents(node.input)) or any("Document" in str(socket.get("type")) for socket in spec.values())
    return not given and (any(documents(node.sockets)) or (_emits_documents(node) and _holds_list(node.output)))


def _outermost(node: Node) -> Node:
    return [outer for outer in (node, *node.ancestors) if outer.operation == COMPONENT][-1]


def retrieved(found: list[Node], contexts: tuple[Doc | str, ...]) -> tuple[Doc, ...] | None:
    """What the retrievers behind some contexts returned, each document once; None if none is known.

    Args:
        found: Retrievers.
        contexts: Contexts of the call; () takes all retrievers.
    """
    ids = {doc.id for doc in contexts if isinstance(doc, Doc)}
    behind = [node for node in found if not contexts or ids & {doc.id for doc in documents(node.sockets)}]
    docs = once(tuple(doc for node in behind for doc in documents(node.sockets)))
    return tuple(doc for doc in docs if isinstance(doc, Doc)) if behind else None


def written(run: Run) -> bool:
    """True if the run filled a document store instead of asking it something."""
    return any("documents_written" in node.sockets for node in run.components())


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
    last = next((place for place in reversed(range(len(said))) if said[place].role == "user" and said[place].text), None)
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
