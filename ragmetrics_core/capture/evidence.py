"""Stage 3: what an answer could rest on. Pure.

It finds the contexts, what was retrieved, and what each call brought. The rules of the
contexts stand in ``CONTEXT_RULES`` and are tried in order; the first that finds
something decides. This stage and its parts (``showings``, ``arrivals``, ``origins``,
``brought``) are the only ones that locate texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import Answered
from ragmetrics_core.capture.arrivals import Arrivals
from ragmetrics_core.capture.brought import Brought, Seen
from ragmetrics_core.capture.calls import Calls, Key, end_of
from ragmetrics_core.capture.labelled_passages import unknown_passages
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.order import CallOrder
from ragmetrics_core.capture.passage_notes import Passages, passages_of
from ragmetrics_core.capture.passages import SHORTEST, share_a_passage
from ragmetrics_core.capture.plain_values import as_one_line, contexts_in
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.showings import Showings, Shown
from ragmetrics_core.capture.tree import DISTANCE_KEYS, Document, Node, Tree
from ragmetrics_core.data import (
    Context,
    EvidenceCall,
    EvidenceFrom,
    Grade,
)

_UNTOLD = (
    "the answering prompt does not tell which retrieved texts it shows; all stand"
    " for it"
)
_UNSEEN = (
    "no retrieved text occurs in the answering prompt; all retrieved ones stand for it"
)
_NONE_NAMED = (
    "contexts_from= led to a place without any text; if something was retrieved, name"
    " the place that holds it"
)
_UNKNOWN = "context {}: the prompt does not tell whether it was shown"
_CUT = "context {} was cut to {}"
_TAKEN_OUT = "what the tools found was taken out of the prompt before the answer"
_UNNAMED_TOOL = (
    "tool {} returned text without documents; if that is evidence, name it in"
    " context_tools"
)
_FOUND_BY_PROVIDER = (
    "what the provider's {} found for an earlier call of the model may have been shown"
    " to the answering call, too; the prompt does not tell"
)
_FROM_ELSEWHERE = (
    "the prompt shows {} passages labelled like the contexts that no recorded search"
    " found; say where all of them are by contexts_from"
)
_DISTANCE = (
    "documents carry a distance (lower is better); it is not taken as their score"
)


@dataclass(frozen=True)
class Contexts:
    """What reached the generator, as one rule found it.

    Attributes:
        items: The contexts, in their order.
        keys: The keys of the documents behind them; numbers where the user named them.
        place: Where they were found, in words.
        evidence_from: What tells them; None if nothing does.
        grades: What weakens the grade of the sample; empty if nothing does.
        warnings: What the user should know of them.
    """

    items: tuple[Context, ...] = ()
    # of the documents behind them; by number where the user named them
    keys: tuple[Key, ...] = ()
    place: str = ""  # where they were found, in words
    evidence_from: EvidenceFrom | None = None
    grades: frozenset[Grade] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def by_key(self) -> dict[Key, Context]:
        """The contexts by the documents behind them."""
        return dict(zip(self.keys, self.items, strict=True))


@dataclass(frozen=True, eq=False)
class Evidenced:
    """What one answer could rest on: the result of stage 3.

    A call **feeds** the answering call if that read its reply.
    """

    contexts: Contexts
    retrieved: tuple[Document, ...] | None  # None if that is unknown
    passages: Passages  # what became of each of them
    sources: tuple[str, ...]  # names of the calls that retrieved
    feeding: tuple[Node, ...]  # calls of models whose replies the answering call read
    brought: tuple[Brought, ...]  # in the order of the ledger
    # of earlier turns, with what of them is still shown
    earlier: tuple[EvidenceCall, ...]
    order: CallOrder
    # tools whose text may be evidence, and is no context
    unnamed_tools: tuple[Node, ...]
    warnings: tuple[str, ...]


def evidence(
    turn: Turn, answered: Answered, showings: Showings, arrivals: Arrivals
) -> Evidenced:
    """What one answer of a turn could rest on.

    Args:
        turn: The turn.
        answered: The answer, and the call that wrote it.
        showings: What the turn's calls were shown.
        arrivals: What arrived in the turn.
    """
    search = _Search(turn, answered, showings, arrivals)
    contexts = _with_doubt_of_provider(search, _contexts(search))
    by_key = contexts.by_key
    # where the user named the contexts, prompts have no say in them
    is_named = contexts.evidence_from == "named"
    shown = None if is_named else search.shown
    feeding = _feeding(answered.call, shown)
    added = arrivals.documents_of_steps(by_key)
    retrieved = arrivals.documents_retrieved(() if is_named else contexts.keys, added)
    arrived = arrivals.arrivals_to_tell(answered.text, turn.tree.earlier, added)
    prompts = _prompts(answered.call, feeding)
    brought, earlier = Seen(by_key, prompts, turn.known).of(arrived, turn.tree.earlier)
    unnamed_tools = _tools_beside_contexts(turn, contexts, brought)
    doubtful = _warnings_of_documents_and_tools(contexts, retrieved, unnamed_tools)
    documents_of = {**turn.calls.retrievals, **added}
    passages = passages_of(
        retrieved,
        documents_of,
        turn.calls,
        answered.call,
        by_key,
        contexts.evidence_from,
        shown,
    )
    return Evidenced(
        contexts=contexts,
        retrieved=retrieved,
        passages=passages,
        sources=_names_of(documents_of),
        feeding=feeding,
        brought=brought,
        earlier=earlier,
        order=arrivals.order,
        unnamed_tools=unnamed_tools,
        warnings=(*contexts.warnings, *passages.warnings, *doubtful),
    )


def _names_of(calls: Iterable[Node]) -> tuple[str, ...]:
    """The names of some calls, each once."""
    return tuple(dict.fromkeys(call.name for call in calls))


# The contexts


@dataclass(frozen=True, eq=False)
class _Search:
    """What the rules of the contexts look at.

    Attributes:
        turn: The turn.
        answered: The answer, and the call that wrote it.
        showings: What the turn's calls were shown.
        arrivals: What arrived in the turn.
    """

    turn: Turn
    answered: Answered
    showings: Showings
    arrivals: Arrivals

    @property
    def tree(self) -> Tree:
        return self.turn.tree

    @property
    def calls(self) -> Calls:
        return self.turn.calls

    @cached_property
    def shown(self) -> Shown | None:
        """What the answering call was shown; None if no call is known."""
        return (
            None if self.answered.call is None else self.showings.of(self.answered.call)
        )


def by_the_users_place(search: _Search) -> Contexts | None:
    """The place that ``contexts_from=`` names.

    langchain-ai/open_deep_research, src/open_deep_research/state.py: what was found is
    kept as texts, under ``raw_notes``.
    """
    if "contexts" not in search.turn.named:
        return None
    contexts = tuple(contexts_in(search.turn.named["contexts"]))
    keys = tuple(("named", str(place)) for place in range(len(contexts)))
    if not contexts:
        return Contexts(
            (), (), "contexts_from", "named", frozenset({"inferred"}), (_NONE_NAMED,)
        )
    return Contexts(contexts, keys, "contexts_from", "named")


def by_the_prompt(search: _Search) -> Contexts | None:
    """What occurs in the prompts of the answering call and of those that feed it, in their order.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: what was retrieved is
    put into the prompt.
    """
    call, shown = search.answered.call, search.shown
    if call is None or shown is None or not shown.found:
        return None
    tool_texts = {node.text for node in search.calls.tool_texts}
    is_undivided = {document.text for document, _ in shown.found.values()} <= tool_texts
    contexts = tuple(_context_of_showing(key, shown) for key in shown.order)
    doubts = [
        _doubt_of(rank, key, shown) for rank, key in enumerate(shown.order, start=1)
    ]
    weakening = [doubt for doubt in doubts if doubt is not None]
    grades = frozenset(grade for grade, _ in weakening)
    warnings = tuple(warning for _, warning in weakening)
    foreign = _passages_from_elsewhere(search, call, contexts)
    if foreign:
        grades |= {"inferred"}
        warnings = (*warnings, _FROM_ELSEWHERE.format(foreign))
    evidence_from: EvidenceFrom = "undivided" if is_undivided else "prompt"
    return Contexts(
        contexts,
        shown.order,
        _place_of_prompts(call, shown.showing),
        evidence_from,
        grades,
        warnings,
    )


def _passages_from_elsewhere(
    search: _Search, call: Node, contexts: Sequence[Context]
) -> int:
    """Count passages that look like contexts in a prompt and come from nowhere known.

    Such a passage stands beside the contexts under a label of the same form. It counts
    unless its text is known: from a list of documents, an earlier reply or result, an
    earlier turn, the question, the history or the instructions.
    """
    calls, tree = search.calls, search.tree
    known_texts = [
        text
        for documents in calls.lists()
        for document in documents
        for text in document.texts
    ]
    known_texts += [text for document in tree.root.taken for text in document.texts]
    before = [node for node in calls.nodes if end_of(node) <= call.began]
    known_texts += [node.text for node in before if node.text]
    known_texts += [
        calls.replies[node].text for node in before if node in calls.replies
    ]
    known_texts += [
        context.text for earlier in tree.earlier for context in earlier.items
    ]
    known_texts += [context.text for context in contexts]
    known_texts += search.turn.known
    prompts = [message.text for message in call.prompt if message.role != "assistant"]
    return unknown_passages(
        prompts, [context.text for context in contexts], known_texts
    )


def by_a_cleared_prompt(search: _Search) -> Contexts | None:
    """None, where all results of tools were taken out of the prompt before the answer.

    langchain-ai/langchain,
    libs/langchain_v1/langchain/agents/middleware/context_editing.py:
    ``ContextEditingMiddleware`` clears earlier results of tools.
    """
    call = search.answered.call
    if call is None or not _is_cleared(search.calls, call):
        return None
    return Contexts(
        (), (), f"the prompt of {call.name}", "prompt", frozenset(), (_TAKEN_OUT,)
    )


def by_the_answers_documents(search: _Search) -> Contexts | None:
    """The documents that the answer carries.

    run-llama/llama_index,
    llama-index-core/llama_index/core/response_synthesizers/type.py: the mode
    ``generation`` shows the model nothing of what was found.
    """
    answer = search.answered.answer
    if answer.documents is None:
        return None
    return _contexts_of_list(search, answer.documents, f"documents of {answer.place}")


def by_the_frameworks_flow(search: _Search) -> Contexts | None:
    """The documents that reached the generator by the framework's own word.

    deepset-ai/haystack-cookbook,
    notebooks/improve-retrieval-by-embedding-metadata.ipynb: documents at the end of a
    pipeline.
    """
    tree = search.tree
    return (
        None
        if tree.flow is None
        else _contexts_of_list(search, tree.flow, tree.flow_at)
    )


def by_the_last_step(search: _Search) -> Contexts | None:
    """What the last step behind the retrieval returned: a reranker, a filter, a compressor; of parallel ones all.

    langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: a chain that only
    searches ends in a function that fuses ranks.
    """
    calls = search.calls
    last_retrieval = max((node.ended or 0 for node in calls.retrievals), default=0.0)
    if not any((node.ended or 0) > last_retrieval for node in calls.reworking):
        return None
    steps = _last_steps(calls.reworking)
    returned = {
        document.key: document for node in steps for document in node.documents or ()
    }
    names = ", ".join(dict.fromkeys(node.name for node in steps))
    return _contexts_of_list(search, tuple(returned.values()), f"what {names} returned")


def _last_steps(steps: Sequence[Node]) -> list[Node]:
    """Those steps whose documents no later step worked on.

    A later step worked on documents if it took some of them, or them and more. A step
    of which nobody knows what it took worked on all.

    Args:
        steps: The steps, in the order in which they ended.
    """
    last_steps = []
    for place, node in enumerate(steps):
        given_names = {
            document.id or document.text for document in node.documents or ()
        }
        takes = [
            {document.id or document.text for document in later.taken}
            for later in steps[place + 1 :]
        ]
        if all(
            taken_names
            and not (taken_names <= given_names or given_names <= taken_names)
            for taken_names in takes
        ):
            last_steps.append(node)
    return last_steps


def by_everything_retrieved(search: _Search) -> Contexts | None:
    """Everything retrieved, else what was handed in; none where a search found none.

    samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: no model is called.
    """
    calls, tree = search.calls, search.tree
    retrieved = search.arrivals.documents_retrieved() or ()
    texts = [Document(node.text or "") for node in calls.tool_texts]
    handed_in = () if retrieved else tree.root.taken
    return _contexts_of_list(
        search, (*retrieved, *texts, *handed_in), "everything retrieved"
    )


CONTEXT_RULES: tuple[Callable[[_Search], Contexts | None], ...] = (
    by_the_users_place,
    by_the_prompt,
    by_a_cleared_prompt,
    by_the_answers_documents,
    by_the_frameworks_flow,
    by_the_last_step,
    by_everything_retrieved,
)


def _contexts(search: _Search) -> Contexts:
    """The contexts by the first rule that finds them."""
    tried = (rule(search) for rule in CONTEXT_RULES)
    return next(contexts for contexts in tried if contexts is not None)


def _with_doubt_of_provider(search: _Search, contexts: Contexts) -> Contexts:
    """The contexts, in doubt where a provider found something for an earlier call alone.

    Providers may show it to later calls of the same conversation without a word of it
    in the prompt.
    """
    shown = search.shown
    if shown is None or contexts.evidence_from == "named":
        return contexts
    paths = search.calls.paths
    prompts = [stream(part.text) for call in shown.calls for part in call.prompt]
    names = [
        node.name
        for node in search.calls.nodes
        if node.by_provider
        and paths[node][-2] not in shown.calls
        and not _is_in_prompts(node, prompts)
    ]
    if not names:
        return contexts
    warnings = [_FOUND_BY_PROVIDER.format(name) for name in dict.fromkeys(names)]
    return replace(
        contexts,
        grades=contexts.grades | {"inferred"},
        warnings=(*contexts.warnings, *warnings),
    )


def _is_in_prompts(found: Node, prompts: Sequence[bytes]) -> bool:
    """Whether all texts that a call brought stand in prompts, by their letters."""
    texts = [document.text for document in found.documents or ()]
    texts.append(found.text or "")
    return all(any(stream(text) in prompt for prompt in prompts) for text in texts)


def _contexts_of_list(
    search: _Search, documents: Sequence[Document], place: str
) -> Contexts:
    """Documents of a list as contexts, where no prompt tells that they were shown.

    They are inferred. Without documents there are no contexts, and it is said whether a
    search found none, or found documents whose texts were not recorded.
    """
    tree, call = search.tree, search.answered.call
    if not documents:
        nothing: EvidenceFrom | None = "none_found" if search.calls.tried else None
        return Contexts(
            evidence_from="ids_only" if nothing and search.calls.unread else nothing
        )
    evidence_from: EvidenceFrom = (
        "retrieved_only" if call is None and tree.gives_documents else "listed"
    )
    warnings: tuple[str, ...] = ()
    if search.shown is not None and search.answered.text is not None:
        is_traced = any(document.key in search.shown.traces for document in documents)
        warnings = (_UNTOLD if is_traced else _UNSEEN,)
    contexts = tuple(document.context() for document in documents)
    keys = tuple(document.key for document in documents)
    return Contexts(
        contexts, keys, place, evidence_from, frozenset({"inferred"}), warnings
    )


def _context_of_showing(key: Key, shown: Shown) -> Context:
    """A document as a context, in the words that were shown of it.

    It has all of its text where the prompts do not tell.
    """
    if key not in shown.found:
        return shown.unknown[key].context()
    document, showing = shown.found[key]
    return document.context(showing.text)


def _doubt_of(rank: int, key: Key, shown: Shown) -> tuple[Grade, str] | None:
    """The grade that a context lowers the sample to, with the reason in words.

    A context of which the prompts do not tell makes the sample *inferred*. One that was
    cut makes it *located*. None if the context was shown whole.
    """
    if key not in shown.found:
        return "inferred", _UNKNOWN.format(rank)
    _, showing = shown.found[key]
    if showing.extent != "whole":
        return "located", _CUT.format(rank, showing.percentage)
    return None


def _place_of_prompts(call: Node, showing: Sequence[Node]) -> str:
    """Say in words which prompts show the contexts.

    These may be earlier prompts: the answering call read only what was written there.
    """
    if not showing or call in showing:
        return f"what occurs in the prompt of {call.name}"
    names = ", ".join(dict.fromkeys(shown_call.name for shown_call in showing))
    if names == call.name:
        return (
            f"what occurs in earlier prompts of {names}; the last one holds what was"
            " written there"
        )
    return (
        f"what occurs in the prompt of {names}; that of {call.name} holds what was"
        " written there"
    )


def _is_cleared(calls: Calls, call: Node) -> bool:
    """Whether the results of tools that earlier prompts showed are gone from this one.

    Some results must still stand there in other words: a prompt without any result
    tells nothing. Calls inside tools are loops of their own, and do not count.
    """
    outer = [
        node
        for node, path in calls.paths.items()
        if not any(around.kind == "tool" for around in path[:-1])
    ]
    if call not in outer:
        return False
    results = {as_one_line(node.text) for node in outer if node.kind == "tool"}
    loop = [
        earlier_call
        for earlier_call in calls.models
        if earlier_call in outer and earlier_call.began < call.began
    ]
    before = {
        line for earlier_call in loop for line in _results_in(earlier_call)
    } & results
    now = _results_in(call)
    return bool(now and before) and before.isdisjoint(now)


def _results_in(call: Node) -> set[str]:
    """The results of tools in a prompt."""
    return {
        as_one_line(message.text) for message in call.prompt if message.role == "tool"
    }


def _warnings_of_documents_and_tools(
    contexts: Contexts,
    retrieved: Sequence[Document] | None,
    unnamed_tools: Iterable[Node],
) -> Iterator[str]:
    """Yield a warning if documents carry a distance, and one for each unnamed tool.

    The text of such a tool may be evidence.
    """
    carriers: Sequence[Document | Context] = retrieved or contexts.items
    if any(key in carrier.metadata for carrier in carriers for key in DISTANCE_KEYS):
        yield _DISTANCE
    for tool in unnamed_tools:
        yield _UNNAMED_TOOL.format(tool.name)


def _feeding(call: Node | None, shown: Shown | None) -> tuple[Node, ...]:
    """The calls whose replies the answering call read; none if no call is known."""
    if shown is None:
        return ()
    return tuple(feeder for feeder in shown.calls if feeder is not call)


def _prompts(call: Node | None, feeding: Sequence[Node]) -> list[str] | None:
    """The messages that an answering call, and those that feed it, were shown.

    None if no call is known.
    """
    if call is None:
        return None
    return [message.text for reader in (*feeding, call) for message in reader.prompt]


def _tools_beside_contexts(
    turn: Turn, contexts: Contexts, brought: Sequence[Brought]
) -> tuple[Node, ...]:
    """Tools whose text may be evidence, so that the user is told to name them.

    These are all tools with text where there are no contexts. Beside contexts, the text
    must be shown, be no mere number, and be no page that a step made a context of.
    """
    if contexts.evidence_from is None:
        return tuple(turn.calls.texts_of_tools)
    if contexts.evidence_from == "named":
        return ()
    streams = [stream(context.text) for context in contexts.items]
    tools = []
    for brought_text in brought:
        letters = stream(brought_text.arrival.text or "")
        is_shown_passage = bool(brought_text.shown) and len(letters) >= SHORTEST
        if brought_text.arrival.kind != "tool" or not is_shown_passage:
            continue
        if not any(share_a_passage(letters, context) for context in streams):
            tools.append(brought_text.arrival.node)
    return tuple(tools)
