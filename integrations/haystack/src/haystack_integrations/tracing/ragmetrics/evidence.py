"""Which documents reached a call: rules for prompts, for agents and for what was retrieved. All are pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    AGENT_TOOL,
    COMPONENT,
    Doc,
    Node,
    Run,
    ToolResult,
)
from haystack_integrations.tracing.ragmetrics.reading import documents, messages, normal, texts
from haystack_integrations.tracing.ragmetrics.rules import prompt

_STEPS = 12
_PART = 20  # characters from which a text counts as found inside a longer one
_BEGINNING = 40  # characters by which a shortened document is still known


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


def evidence(run: Run, call: Node, tools: Collection[str] | None = None) -> Evidence:
    """Documents that reached a call: those of its agent, else those of the prompt.

    Args:
        run: The run.
        call: The call.
        tools: Names of the tools whose text counts where they return no documents; None counts those of all.
    """
    agent = next((node for node in call.ancestors if node.operation == AGENT), None)
    if agent is None:
        return prompt_evidence(run, prompt(call), call.opened, prompt(call))
    given = tuple(documents({name: value for name, value in agent.input.items() if name != "messages"}))
    before = next((node.opened for node in agent.ancestors), agent.opened)
    if given:
        first = kept_in_prompt(given, prompt(call), f"{agent.path or 'agent'} input")
    else:
        first = prompt_evidence(run, texts(agent.input.get("messages")), before, prompt(call))
    found, searched = tool_evidence(run, agent, call, tools)
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


def as_shown(groups: list[tuple[str, tuple[Doc, ...]]], shown: tuple[str, ...]) -> list[tuple[str, tuple[Doc, ...]]]:
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
    kept = tuple(
        doc for doc in readable if doc in whole or (_beginning(doc) in seen and _beginning(doc) not in explained)
    )
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


def tool_evidence(
    run: Run, agent: Node, call: Node, tools: Collection[str] | None = None
) -> tuple[tuple[Doc | str, ...], bool]:
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
        written = any(texts(node.output)) and (tools is None or node.name in tools)
        searched = searched or bool(docs) or written or _holds_list(node.output)
        if docs:
            found += docs
        elif written:
            found.append(seen.text if seen is not None and seen.text.strip() else "\n".join(texts(node.output)))
    return once(tuple(found)), searched


def _agent_of(node: Node) -> Node | None:
    return next((outer for outer in node.ancestors if outer.operation == AGENT), None)


def _holds_list(value: object) -> bool:
    return isinstance(value, tuple) or (
        isinstance(value, dict) and any(isinstance(item, tuple) for item in value.values())
    )


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
