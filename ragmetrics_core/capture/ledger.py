"""Stage 5: the ledger of one answer: each call that brought evidence, in order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ragmetrics_core.capture.calls import (
    CUT,
    AskedTurn,
    Brought,
    Calls,
    FoundAnswer,
    FoundEvidence,
    Order,
    Origins,
    tools_of,
)
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.shown import shows
from ragmetrics_core.capture.structures import (
    as_one_line,
    find_instances,
    long_lines,
    parse_json,
    query_of_tool,
    texts_of_query,
)
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.data import Context, EvidenceCall, Ledger

_SHOWN_BEGINNING = 100  # letters of a tool's text that tell that it was shown
_PIECE = 24  # letters of it that are a document's


def ledger(
    turn: AskedTurn,
    origins: Origins,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
) -> Ledger:
    """List the searches and tool calls of a conversation up to this answer.

    Example: in turn 1 a search found A, in turn 2 another found B and C, and the prompt
    of turn 2 shows A and C: two calls, with the indexes shown (0,) and (1,).

    Args:
        turn: The question, and the calls that were made for it.
        origins: What was found.
        found_answer: The answer.
        found_evidence: What the calls brought, and what the answer was shown of it.
    """
    tree = turn.tree
    n_user_turns = sum(said.role == "user" for said in tree.history)
    number = tree.turn_number or 1 + n_user_turns
    order = Order(turn.calls)
    calls = [
        call.model_copy(update={"shown": _places_shown(call.items, found_evidence)})
        for call in tree.earlier_calls
    ]
    texts = [
        replace(each, shown=_places_shown(each.documents, found_evidence))
        for each in _texts_brought(turn.calls, origins, found_answer, found_evidence)
    ]
    brought = [*texts, *found_evidence.brought]
    # what a call made of what was found inside it stands after that
    brought.sort(
        key=lambda each: order.sort_keys(
            [*each.call.walk()][-1] if each.is_made_of_others else each.call
        )
    )
    # what a tool that searched in vain brought from elsewhere stands for these searches
    told = {each.call for each in brought if each.documents}
    told = {call for call in told if turn.calls.searched_in_vain(call)}
    answer = letters_of(found_answer.text)
    for each in brought:
        is_told = not told.isdisjoint(turn.calls.paths[each.call])
        if is_told and each.kind == "retrieval" and not each.documents:
            continue
        is_answer = each.kind == "written" and any(
            letters_of(document.text) == answer for document in each.documents
        )
        # what counts only if it was shown
        is_left_out = each.shown == () if each.is_of_unknown_origin else is_answer
        if not is_left_out or each.shown:
            calls.append(_evidence_call(each, number, turn.calls, order))
    return Ledger(conversation=tree.conversation_id, turn=number, calls=tuple(calls))


def _evidence_call(
    brought: Brought, number: int, calls: Calls, order: Order
) -> EvidenceCall:
    """Make the ledger's record of what one call brought; its name is that of a tool around it."""
    tools = tools_of(calls.paths[brought.call])
    name = tools[-1].name if tools else None
    query = brought.call.query
    if query is None and brought.call.arguments:
        query = query_of_tool(brought.call.arguments)
    is_asked = brought.kind != "given" and brought.call.kind not in (
        "model",
        "reranker",
    )
    return EvidenceCall(
        kind=brought.kind,
        turn=number,
        step=order.step_of(brought.call),
        name=brought.call.name if brought.call.by_provider else name,
        query=query if is_asked else None,
        items=tuple(document.context() for document in brought.documents),
        shown=brought.shown,
        agent=order.agent_of(brought.call),
        error=brought.error,
    )


def _places_shown(
    texts: Sequence[Context | Document], found_evidence: FoundEvidence
) -> tuple[int, ...] | None:
    """Return the places of the texts that stand in the prompts; None without prompts."""
    if not texts:
        return ()
    if found_evidence.prompts is None:
        return None
    context_letters = [letters_of(each.text) for each in found_evidence.contexts or ()]
    return tuple(
        place
        for place, each in enumerate(texts)
        if _is_shown(each.text, found_evidence.prompts, context_letters)
    )


def _is_shown(
    text: str, prompts: Sequence[str], context_letters: Sequence[str]
) -> bool:
    """Whether prompts show a text, or some of it.

    They show a text that holds one of the contexts. Of any other they hold a short text
    whole, or a long beginning of one of its parts: JSON and cut texts have several.
    """
    letters = letters_of(text)
    if any(len(each) >= SHORTEST and each in letters for each in context_letters):
        return True
    if len(letters) < SHORTEST:
        return shows(prompts, text)
    parts = map(letters_of, (*text.split(CUT), *find_instances(parse_json(text), str)))
    beginnings = {part[:_SHOWN_BEGINNING] for part in parts if len(part) >= SHORTEST}
    shown = [letters_of(prompt) for prompt in prompts]
    return any(beginning in each for beginning in beginnings for each in shown)


# The texts that tools and models brought


def _texts_brought(
    calls: Calls,
    origins: Origins,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
) -> list[Brought]:
    """List the texts of tools, summaries, and what sub-agents wrote and no tool handed on.

    A tool whose text became documents arrived with these, but where the answer was shown
    all of its text; what a tool inside a retriever found, the retriever returned.
    """
    brought: list[Brought] = []
    texts_of_tools: set[str] = set()
    with_passages = {each.call for each in origins.lists}
    prompts = found_evidence.prompts or ()
    found = {each.call: each.documents for each in found_evidence.brought}
    told = set(calls.named_tools)
    for node in calls.nodes:
        is_search = node in calls.named_tools and node in with_passages
        if node.kind != "tool" or node.is_control or is_search:
            continue
        if calls.is_in_search(node):
            continue
        documents = found.get(node, ()) if node in calls.text_tools else ()
        if documents:
            told.add(node)
            if not shows(prompts, node.text or ""):
                continue
        if calls.is_handed_on(node, told):
            continue
        each = _result_of_tool(node, calls, origins, documents)
        if each is not None:
            brought.append(each)
            told.add(node)
            texts_of_tools |= {as_one_line(text.text) for text in each.documents}
        texts_of_tools.add(as_one_line(node.text))
    answer = as_one_line(found_answer.text)
    # summaries of earlier messages, each with the call that was first shown it; what an
    # earlier turn was shown already is a call of that turn
    summaries: dict[str, Node] = {}
    known = {item.text for call in calls.tree.earlier_calls for item in call.items}
    for call in calls.prompted:
        for message in call.prompt:
            if message.role == "summary" and message.text not in known:
                summaries.setdefault(message.text, call)
    for summary, call in summaries.items():
        brought.append(Brought("written", call, (Document(summary),)))
    for node in calls.nodes[1:]:
        if node.kind == "agent" and node.text and node.text.strip():
            line = as_one_line(node.text)
            is_handed_on = any(line in text for text in texts_of_tools)
            if not is_handed_on and line != answer:
                brought.append(Brought("written", node, (Document(node.text),)))
    return brought


def _result_of_tool(
    tool: Node, calls: Calls, origins: Origins, made: tuple[Document, ...]
) -> Brought | None:
    """Return what a tool brought beside documents, or its error; None if its text only presents these.

    Args:
        tool: The tool.
        calls: The calls of the run.
        origins: What was found.
        made: Documents that a step made of its text.
    """
    if tool.error:
        searches = [node for node in tool.walk() if node.kind == "retriever"]
        if any(search.error for search in searches):
            return None  # a search inside tells it
        is_search = bool(searches) or tool.name in calls.named_to_search
        has_model = any(inner.kind == "model" for inner in tool.walk())
        is_retrieval = is_search and not has_model
        return Brought("retrieval" if is_retrieval else "tool", tool, error=tool.error)
    if tool.ended is None or calls.says_it_found_nothing(tool):
        return None
    if tool not in origins.texts_of_tools:
        has_documents = any(inner.documents is not None for inner in tool.walk())
        return None if has_documents else Brought("tool", tool)
    kind, text = origins.texts_of_tools[tool]
    lists = [inner.documents for inner in tool.walk() if inner.documents is not None]
    named = [each for each in origins.lists if each.call in calls.named_tools]
    lists += [each.documents for each in named if tool in calls.paths[each.call]]
    lists += [made] if made else []
    if kind == "tool" and presents_documents(text, tool.query, lists):
        return None
    return Brought(kind, tool, (Document(text),))


def presents_documents(
    text: str, query: str | None, lists: Sequence[Sequence[Document]]
) -> bool:
    """Whether a tool's text shows documents, and tells no more.

    What shows nothing of them came from elsewhere: a long line, or in JSON some words.

    Args:
        text: The text.
        query: What the tool was asked, which it may repeat.
        lists: Lists of documents, as searches returned them.
    """
    letters = letters_of(text)
    documents = list(chain.from_iterable(lists))
    forms = [letters_of(form) for each in documents for form in each.texts]
    beginnings = [form[:_SHOWN_BEGINNING] for form in forms if form]
    if all(lists) and not any(each in letters for each in beginnings):
        return False
    around = texts_of_query(query)
    around += [str(dict(each.metadata)) for each in documents]
    around += find_instances([each.metadata for each in documents], str)
    known_texts = (*forms, *map(letters_of, around))
    pieces: set[str] = set()
    for known in known_texts:
        pieces.update(known[at : at + _PIECE] for at in range(0, len(known), _PIECE))

    def shows_nothing(letters: str) -> bool:
        runs = (letters[at : at + _PIECE] for at in range(len(letters)))
        return pieces.isdisjoint(runs)

    values = [each.strip() for each in find_instances(parse_json(text), str)]
    words = {letters_of(each) for each in values if " " in each and "\n" not in each}
    words -= {each for each in words if any(each in known for known in known_texts)}
    if len("".join(filter(shows_nothing, words))) >= _PIECE:
        return False
    return not any(shows_nothing(letters_of(line)) for line in long_lines(text))
