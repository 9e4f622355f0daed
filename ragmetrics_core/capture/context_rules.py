"""The contexts of an answer, by a table of rules. A part of stage 3.

The rules stand in ``CONTEXT_RULES`` and are tried in order; the first that finds
something decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.arrivals import Arrivals
from ragmetrics_core.capture.calls import (
    Calls,
    end_of,
    names_of,
    text_of,
    texts_not_of_models,
)
from ragmetrics_core.capture.labelled_passages import unknown_passages
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.passages import is_contained_in
from ragmetrics_core.capture.plain_values import as_one_line, contexts_in
from ragmetrics_core.capture.prompt_contents import PromptContents, ShownToCall
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.transcripts import words_of_assistant
from ragmetrics_core.capture.tree import Document, DocumentKey, Node, Tree
from ragmetrics_core.data import Context, EvidenceFrom, Grade

_UNTOLD = (
    "the answering prompt does not tell which retrieved texts it shows; all stand"
    " for it"
)
_UNSEEN = (
    "no retrieved text occurs in the answering prompt; all retrieved ones stand for it"
)
_SHOWN_TO_OTHERS = (
    "no retrieved text occurs in the answering prompt, though the prompts of earlier"
    " calls that judge or route show some: none counts as a context"
)
_NO_PROMPT = (
    "no prompt tells which texts the answer rests on; the contexts are taken from: {}"
)
_NONE_NAMED = (
    "contexts_from= led to a place without any text; if something was retrieved, name"
    " the place that holds it"
)
_QUOTED = (
    "context {} stands in what the prompt tells as said by the assistant: an earlier"
    " answer may quote it, and whether and where it is shown as found is not certain"
)
_UNKNOWN = "context {}: the prompt does not tell whether it was shown"
_CUT = "context {} was cut to {}"
_TAKEN_OUT = "what the tools found was taken out of the prompt before the answer"
_FOUND_BY_PROVIDER = (
    "what the provider's {} found for an earlier call of the model may have been shown"
    " to the answering call, too; the prompt does not tell"
)
_FROM_ELSEWHERE = (
    "the prompt shows {} passages labelled like the contexts that no recorded search"
    " found; say where all of them are by contexts_from"
)
_IMAGINED = (
    "a model inside {} wrote a document that the answer was shown: it is evidence only"
    " if the model had searched"
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
        n_from_elsewhere: How many passages stand beside them in the prompt that nothing
            recorded has found.
    """

    items: tuple[Context, ...] = ()
    keys: tuple[DocumentKey, ...] = ()
    place: str = ""
    evidence_from: EvidenceFrom | None = None
    grades: frozenset[Grade] = frozenset()
    warnings: tuple[str, ...] = ()
    n_from_elsewhere: int = 0

    @property
    def by_key(self) -> dict[DocumentKey, Context]:
        """The contexts by the documents behind them."""
        return dict(zip(self.keys, self.items, strict=True))


# What the rules look at, and the rules


@dataclass(frozen=True, eq=False)
class ContextSearch:
    """What the rules of the contexts look at.

    Attributes:
        turn: The turn.
        found_answer: The answer, and the call that wrote it.
        showings: What the turn's calls were shown.
        arrivals: What arrived in the turn.
    """

    turn: Turn
    found_answer: FoundAnswer
    showings: PromptContents
    arrivals: Arrivals

    @property
    def tree(self) -> Tree:
        """The run of the turn."""
        return self.turn.tree

    @property
    def calls(self) -> Calls:
        """The calls of the turn."""
        return self.turn.calls

    @cached_property
    def shown(self) -> ShownToCall | None:
        """What the answering call was shown; None if no call is known."""
        if self.found_answer.writing_call is None:
            return None
        return self.showings.shown_to(self.found_answer.writing_call)


def by_the_users_place(search: ContextSearch) -> Contexts | None:
    """The place that ``contexts_from=`` names.

    langchain-ai/open_deep_research, src/open_deep_research/state.py: what was found is
    kept as texts, under ``raw_notes``.
    """
    if "contexts" not in search.turn.named:
        return None
    contexts = tuple(contexts_in(search.turn.named["contexts"]))
    if not contexts:
        return Contexts(
            place="contexts_from",
            evidence_from="named",
            grades=frozenset({"inferred"}),
            warnings=(_NONE_NAMED,),
        )
    keys = tuple(("named", str(place)) for place in range(len(contexts)))
    return Contexts(contexts, keys, "contexts_from", "named")


def by_the_prompt(search: ContextSearch) -> Contexts | None:
    """What occurs in the prompts of the answering call and of those that feed it, in their order.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: what was retrieved is
    put into the prompt.
    """
    call = search.found_answer.writing_call
    shown = search.shown
    if call is None or shown is None or not shown.shown_documents:
        return None
    contexts = tuple(_context_of_showing(key, shown) for key in shown.keys_in_order)
    n_foreign = _passages_from_elsewhere(search, call, contexts)
    doubts = list(_doubts_of_prompt(search, shown, contexts, n_foreign))
    # a tool's text may hold several documents that nobody has divided
    tool_texts = {node.text for node in search.calls.context_tool_calls}
    texts_found = {document.text for document, _ in shown.shown_documents.values()}
    evidence_from: EvidenceFrom = "prompt"
    if texts_found <= tool_texts:
        evidence_from = "undivided"
    return Contexts(
        contexts,
        shown.keys_in_order,
        _place_of_prompts(call, shown.calls_showing_documents),
        evidence_from,
        frozenset(grade for grade, _ in doubts),
        tuple(warning for _, warning in doubts),
        n_foreign,
    )


def _doubts_of_prompt(
    search: ContextSearch,
    shown: ShownToCall,
    contexts: Sequence[Context],
    n_foreign: int,
) -> Iterator[tuple[Grade, str]]:
    """Yield what is uncertain about contexts that a prompt shows: the grade, and why.

    Args:
        search: What the rules of the contexts look at.
        shown: What the answering call was shown.
        contexts: The contexts that it was shown.
        n_foreign: How many passages beside them no recorded search found.
    """
    for rank, key in enumerate(shown.keys_in_order, start=1):
        doubt = _doubt_of(rank, key, shown)
        if doubt is not None:
            yield doubt
    for rank in _ranks_quoted_in_a_talk(search, shown, contexts):
        yield "inferred", _QUOTED.format(rank)
    if n_foreign:
        yield "inferred", _FROM_ELSEWHERE.format(n_foreign)


def _ranks_quoted_in_a_talk(
    search: ContextSearch, shown: ShownToCall, contexts: Sequence[Context]
) -> list[int]:
    """The ranks of contexts that stand in what a prompt tells as said by the assistant.

    An application may print the earlier talk into its prompt, and an answer may quote a
    document. What is known to be said earlier explains its words already.

    Args:
        search: What the rules of the contexts look at.
        shown: What the answering call was shown.
        contexts: The contexts that it was shown.
    """
    known_lines = {as_one_line(text) for text in search.turn.texts_besides_documents}
    quoting: list[bytes] = []
    for call in shown.calls:
        for message in call.prompt:
            for words in words_of_assistant(message.text):
                if as_one_line(words) not in known_lines:
                    quoting.append(letters_of(words))
    ranks = []
    for rank, context in enumerate(contexts, start=1):
        letters = letters_of(context.text)
        if any(is_contained_in(letters, words) for words in quoting):
            ranks.append(rank)
    return ranks


def _passages_from_elsewhere(
    search: ContextSearch, call: Node, contexts: Sequence[Context]
) -> int:
    """Count passages that look like contexts in a prompt and come from nowhere known.

    Such a passage stands beside the contexts under a label of the same form. It counts
    unless its text is known: from a list of documents, an earlier reply or result, an
    earlier turn, the question, the history or the instructions.

    Args:
        search: What the rules of the contexts look at.
        call: The answering call.
        contexts: The contexts that its prompt shows.
    """
    calls = search.calls
    documents = list(search.tree.root.input_documents)
    for listed in calls.lists():
        documents += listed
    known_texts = list(search.turn.texts_besides_documents)
    for document in documents:
        known_texts += document.texts
    for node in calls.nodes:
        if end_of(node) <= call.began:
            known_texts.append(node.text or "")
            known_texts.append(text_of(node))
    for earlier_call in search.tree.earlier_calls:
        known_texts += [item.text for item in earlier_call.items]
    context_texts = [context.text for context in contexts]
    known_texts += context_texts
    return unknown_passages(texts_not_of_models(call), context_texts, known_texts)


def by_a_cleared_prompt(search: ContextSearch) -> Contexts | None:
    """None, where all results of tools were taken out of the prompt before the answer.

    langchain-ai/langchain,
    libs/langchain_v1/langchain/agents/middleware/context_editing.py:
    ``ContextEditingMiddleware`` clears earlier results of tools.
    """
    call = search.found_answer.writing_call
    if call is None or not _is_cleared(search.calls, call):
        return None
    return Contexts(
        place=f"the prompt of {call.name}",
        evidence_from="prompt",
        warnings=(_TAKEN_OUT,),
    )


def by_a_prompt_without_documents(search: ContextSearch) -> Contexts | None:
    """None, where calls that judge were shown what was found, and the answering call nothing of it.

    NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: no document is
    relevant, and the model is told that nothing was found.
    """
    call = search.found_answer.writing_call
    shown = search.shown
    if call is None or shown is None or search.found_answer.text is None:
        return None
    if shown.shown_documents or shown.keys_with_some_words:
        return None
    judging_calls = search.calls.step_calls - search.calls.query_writers
    for other in judging_calls:
        is_earlier = end_of(other) <= call.began
        # what an engine inside answered in a word or two is no verdict
        around = search.calls.paths[other][1:-1]
        is_in_engine = any(caller.kind == "agent" for caller in around)
        if (
            is_earlier
            and not is_in_engine
            and search.showings.shown_to(other).shown_documents
        ):
            return Contexts(
                place=f"the prompt of {call.name}",
                evidence_from="prompt",
                grades=frozenset({"inferred"}),
                warnings=(_SHOWN_TO_OTHERS,),
            )
    return None


def by_the_answers_documents(search: ContextSearch) -> Contexts | None:
    """The documents that the answer carries.

    run-llama/llama_index,
    llama-index-core/llama_index/core/response_synthesizers/type.py: the mode
    ``generation`` shows the model nothing of what was found.
    """
    answer = search.found_answer.answer
    if answer.documents is None:
        return None
    return _contexts_of_list(search, answer.documents, f"documents of {answer.place}")


def by_the_frameworks_flow(search: ContextSearch) -> Contexts | None:
    """The documents that reached the generator by the framework's own word.

    deepset-ai/haystack-cookbook,
    notebooks/improve-retrieval-by-embedding-metadata.ipynb: documents at the end of a
    pipeline.
    """
    tree = search.tree
    if tree.flow_documents is None:
        return None
    return _contexts_of_list(search, tree.flow_documents, tree.flow_place)


def by_the_last_step(search: ContextSearch) -> Contexts | None:
    """What the last step behind the retrieval returned: a reranker, a filter, a compressor; of parallel ones all.

    langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: a chain that only
    searches ends in a function that fuses ranks.
    """
    calls = search.calls
    ends = [node.ended or 0.0 for node in calls.retrievals]
    last_retrieval = max(ends, default=0.0)
    if not any(
        (node.ended or 0.0) > last_retrieval for node in calls.steps_with_documents
    ):
        return None
    document_by_key: dict[DocumentKey, Document] = {}
    steps = _last_steps(calls)
    for step in steps:
        for document in step.documents or ():
            document_by_key[document.key] = document
    names = ", ".join(names_of(steps))
    documents = tuple(document_by_key.values())
    return _contexts_of_list(search, documents, f"what {names} returned")


def _last_steps(calls: Calls) -> list[Node]:
    """Those steps behind the retrieval whose documents no later step worked on."""
    lists_retrieved = [_ids_of(documents) for documents in calls.retrievals.values()]
    last_steps = []
    for index, step in enumerate(calls.steps_with_documents):
        later_steps = calls.steps_with_documents[index + 1 :]
        if not any(
            _works_on_documents_of(step, later, lists_retrieved)
            for later in later_steps
        ):
            last_steps.append(step)
    return last_steps


def _works_on_documents_of(
    step: Node, later: Node, lists_retrieved: Sequence[Collection[str]]
) -> bool:
    """Whether a later step worked on what a step gave.

    It did if it took some of that, or that and more. A step of which nobody knows what
    it took worked on all. A step that took just what a retrieval found, and more than
    the other gave, worked beside it: two searches may find the same.

    Args:
        step: The step.
        later: The later step.
        lists_retrieved: The ids of what each retrieval found.
    """
    gave = _ids_of(step.documents or ())
    took = _ids_of(later.input_documents)
    if not took or took <= gave:
        return True
    return gave <= took and took not in lists_retrieved


def _ids_of(documents: Iterable[Document]) -> set[str]:
    """The stores' ids of some documents; of those without one the texts."""
    return {document.own_id or document.text for document in documents}


def by_everything_retrieved(search: ContextSearch) -> Contexts | None:
    """Everything retrieved, else what was handed in; none where a search found none.

    samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: no model is called.
    """
    documents = list(search.arrivals.documents_retrieved() or ())
    handed_in = () if documents else search.tree.root.input_documents
    documents += [Document(node.text or "") for node in search.calls.context_tool_calls]
    documents += handed_in
    return _contexts_of_list(search, documents, "everything retrieved")


CONTEXT_RULES: tuple[Callable[[ContextSearch], Contexts | None], ...] = (
    by_the_users_place,
    by_the_prompt,
    by_a_cleared_prompt,
    by_a_prompt_without_documents,
    by_the_answers_documents,
    by_the_frameworks_flow,
    by_the_last_step,
    by_everything_retrieved,
)


def _first_contexts(search: ContextSearch) -> Contexts:
    """The contexts by the first rule that finds them."""
    # the last rule always gives some
    results = (rule(search) for rule in CONTEXT_RULES)
    return next(contexts for contexts in results if contexts is not None)


def contexts_of(search: ContextSearch) -> Contexts:
    """The contexts by the first rule that finds them, with what makes them uncertain."""
    contexts = _with_doubt_of_provider(search, _first_contexts(search))
    return _with_doubt_of_imagined_documents(search.calls, contexts)


def _with_doubt_of_provider(search: ContextSearch, contexts: Contexts) -> Contexts:
    """The contexts, in doubt where a provider found something for an earlier call alone.

    Providers may show it to later calls of the same conversation without a word of it
    in the prompt.
    """
    shown = search.shown
    if shown is None or contexts.evidence_from == "named":
        return contexts
    prompts: list[bytes] = []
    for call in shown.calls:
        prompts += [letters_of(message.text) for message in call.prompt]
    searches_out_of_sight = []
    for node in search.calls.nodes:
        if not node.by_provider:
            continue
        *_, searching_call, _ = search.calls.paths[node]
        is_read = searching_call in shown.calls
        if not is_read and not _is_in_prompts(node, prompts):
            searches_out_of_sight.append(node)
    if not searches_out_of_sight:
        return contexts
    names = names_of(searches_out_of_sight)
    warnings = [_FOUND_BY_PROVIDER.format(name) for name in names]
    return replace(
        contexts,
        grades=contexts.grades | {"inferred"},
        warnings=(*contexts.warnings, *warnings),
    )


def _with_doubt_of_imagined_documents(calls: Calls, contexts: Contexts) -> Contexts:
    """The contexts, in doubt where a model inside a retriever wrote one of them.

    A retriever may ask a model for a page and hand it on as a document. What a model
    wrote is no evidence, but the model may have searched by itself.
    """
    lines = {as_one_line(context.text) for context in contexts.items}
    names = [
        node.name
        for node in calls.nodes
        if node.kind == "retriever" and not lines.isdisjoint(_imagined_lines(node))
    ]
    if not names or contexts.evidence_from == "named":
        return contexts
    warnings = [_IMAGINED.format(name) for name in dict.fromkeys(names)]
    return replace(
        contexts,
        grades=contexts.grades | {"inferred"},
        warnings=(*contexts.warnings, *warnings),
    )


def _imagined_lines(retriever: Node) -> set[str]:
    """Documents of a retriever that a model inside it wrote, each in one line.

    A model that began when something was found already may have compressed that: its
    words count as those of what was found.
    """
    _, *inside = retriever.walk()
    found_at = [end_of(node) for node in inside if node.documents]
    first_found = min(found_at, default=float("inf"))
    replies = {
        as_one_line(node.reply.text)
        for node in inside
        if node.reply is not None and node.began < first_found
    }
    lines = {as_one_line(document.text) for document in retriever.documents or ()}
    return lines & replies


def _is_in_prompts(search: Node, prompts: Sequence[bytes]) -> bool:
    """Whether all texts that a search brought stand in prompts, by their letters."""
    texts = [document.text for document in search.documents or ()]
    texts.append(search.text or "")
    for text in texts:
        letters = letters_of(text)
        if not any(letters in prompt for prompt in prompts):
            return False
    return True


def _contexts_of_list(
    search: ContextSearch, documents: Sequence[Document], place: str
) -> Contexts:
    """Documents of a list as contexts, where no prompt tells that they were shown.

    They are inferred. Without documents there are no contexts, and it is said whether a
    search found none, or found documents whose texts were not recorded.
    """
    if not documents:
        return Contexts(evidence_from=_why_no_contexts(search))
    evidence_from: EvidenceFrom = "listed"
    if search.found_answer.writing_call is None and search.tree.gives_only_documents:
        evidence_from = "retrieved_only"
    warnings = (_NO_PROMPT.format(place),)
    if search.shown is not None and search.found_answer.text is not None:
        is_traced = any(
            document.key in search.shown.keys_with_some_words for document in documents
        )
        warnings = (_UNTOLD if is_traced else _UNSEEN,)
    return Contexts(
        tuple(document.context() for document in documents),
        tuple(document.key for document in documents),
        place,
        evidence_from,
        frozenset({"inferred"}),
        warnings,
    )


def _why_no_contexts(search: ContextSearch) -> EvidenceFrom | None:
    """Where contexts are found of which there are none; None if nothing searched.

    A search found none, or documents whose texts were not recorded.
    """
    if not search.calls.tried:
        return None
    return "ids_only" if search.calls.n_without_text else "none_found"


def _context_of_showing(key: DocumentKey, shown: ShownToCall) -> Context:
    """A document as a context, in the words that were shown of it.

    It has all of its text where the prompts do not tell.
    """
    if key not in shown.shown_documents:
        return shown.unknown_documents[key].context()
    document, showing = shown.shown_documents[key]
    return document.context(showing.text)


def _doubt_of(
    rank: int, key: DocumentKey, shown: ShownToCall
) -> tuple[Grade, str] | None:
    """The grade that a context lowers the sample to, with the reason in words.

    A context of which the prompts do not tell makes the sample *inferred*. One that was
    cut makes it *located*. None if the context was shown whole.
    """
    if key not in shown.shown_documents:
        return "inferred", _UNKNOWN.format(rank)
    _, showing = shown.shown_documents[key]
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
    # calls in no tool, in the order in which they began
    loop_calls = []
    for node, path in calls.paths.items():
        *around, _ = path
        if not any(caller.kind == "tool" for caller in around):
            loop_calls.append(node)
    if call not in loop_calls:
        return False
    results = {as_one_line(node.text) for node in loop_calls if node.kind == "tool"}
    models = set(calls.models)
    shown_before: set[str] = set()
    for earlier_call in loop_calls:
        if earlier_call in models and earlier_call.began < call.began:
            shown_before |= _results_in(earlier_call) & results
    shown_now = _results_in(call)
    if not shown_before or not shown_now:
        return False
    return shown_before.isdisjoint(shown_now)


def _results_in(call: Node) -> set[str]:
    """The results of tools in a prompt, each in one line."""
    results = [message.text for message in call.prompt if message.role == "tool"]
    return {as_one_line(result) for result in results}
