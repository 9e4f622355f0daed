"""The contexts of an answer, by a table of rules. A part of stage 3.

The **contexts** are the texts that reached the model which wrote the answer. The prompt
of that call usually tells them: of three passages found, the two that stand in it are
the contexts. Where no prompt tells, what the framework says counts, and at last
everything that was retrieved.

The rules stand in ``CONTEXT_RULES`` and are tried in order; the first that finds
something decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.call_results import CallResults
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
_SHORT_NOTES = (
    "the prompt holds a few words that an earlier call wrote when it was shown {} more"
    " documents: they may be its notes, or stand there by chance"
)
_PERHAPS_CUT = (
    "the prompt holds the first few words of {} more documents as a line: they may be"
    " shown so far, or stand there by chance"
)
_IMAGINED = (
    "a model inside {} wrote a document that the answer was shown: it is evidence only"
    " if the model had searched"
)


@dataclass(frozen=True)
class Contexts:
    """The contexts of one answer, as one rule found them.

    Attributes:
        items: The contexts, in their order.
        keys: The keys of the documents behind the contexts; numbers where the user
            named the contexts.
        place: Where the contexts were found, in words.
        evidence_from: What tells the contexts, such as "prompt"; None if nothing does.
        grades: The grades to which doubts lower the sample; empty without a doubt.
        warnings: What the user should know of the contexts.
        n_from_elsewhere: How many passages stand beside the contexts in the prompt,
            labelled like them, that no recorded search found.
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
        """Each context by the key of the document behind it."""
        return dict(zip(self.keys, self.items, strict=True))


# What the rules look at, and the rules


@dataclass(frozen=True, eq=False)
class ContextSearch:
    """What the rules of the contexts look at.

    Attributes:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        prompt_contents: What the prompts of the turn's calls show.
        call_results: What the searches and tools of the turn returned.
    """

    turn: Turn
    found_answer: FoundAnswer
    prompt_contents: PromptContents
    call_results: CallResults

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
        return self.prompt_contents.shown_to(self.found_answer.writing_call)


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
    """The documents whose text stands in the prompt of the answering call.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: what was retrieved is
    put into the prompt.

    The prompts of earlier calls count as well, if the answering call was shown their
    replies. A document is cut to the words that were shown. Each doubt has a grade, the
    best that the sample can then have, and a warning that says why.
    """
    call = search.found_answer.writing_call
    shown = search.shown
    if call is None or shown is None or not shown.shown_documents:
        return None
    contexts = tuple(_context_as_shown(key, shown) for key in shown.keys_in_order)
    n_from_elsewhere = _count_passages_from_elsewhere(search, call, contexts)
    doubts = list(_doubts_of_prompt(search, shown, contexts, n_from_elsewhere))
    evidence_from: EvidenceFrom = "prompt"
    # The user may name a tool in ``context_tools`` whose text counts as one document.
    # If only such texts are shown, each may hold several documents, not divided.
    tool_texts = {node.text for node in search.calls.context_tool_calls}
    texts_shown = {document.text for document, _ in shown.shown_documents.values()}
    if texts_shown <= tool_texts:
        evidence_from = "undivided"
    return Contexts(
        contexts,
        shown.keys_in_order,
        _place_of_prompts(call, shown.calls_showing_documents),
        evidence_from,
        grades=frozenset(grade for grade, _ in doubts),
        warnings=tuple(warning for _, warning in doubts),
        n_from_elsewhere=n_from_elsewhere,
    )


def _doubts_of_prompt(
    search: ContextSearch,
    shown: ShownToCall,
    contexts: Sequence[Context],
    n_from_elsewhere: int,
) -> Iterator[tuple[Grade, str]]:
    """Yield what is uncertain about contexts that a prompt shows.

    Each doubt is the grade to which it lowers the sample, and the reason in words.

    Args:
        search: What the rules of the contexts look at.
        shown: What the answering call was shown.
        contexts: The contexts that it was shown.
        n_from_elsewhere: How many passages beside them no recorded search found.
    """
    for rank, key in enumerate(shown.keys_in_order, start=1):
        doubt = _doubt_of(rank, key, shown)
        if doubt is not None:
            yield doubt
    for rank in _ranks_quoted_by_assistant(search, shown, contexts):
        yield "inferred", _QUOTED.format(rank)
    if n_from_elsewhere:
        yield "inferred", _FROM_ELSEWHERE.format(n_from_elsewhere)
    if shown.keys_behind_notes:
        yield "inferred", _SHORT_NOTES.format(len(shown.keys_behind_notes))
    if shown.keys_perhaps_cut:
        yield "inferred", _PERHAPS_CUT.format(len(shown.keys_perhaps_cut))


def _ranks_quoted_by_assistant(
    search: ContextSearch, shown: ShownToCall, contexts: Sequence[Context]
) -> list[int]:
    """List the ranks of contexts that an earlier answer of the assistant may quote.

    An application may print the earlier conversation into its prompt: "User: …
    Assistant: …". A context that stands in the assistant's words there may be such a
    quote, and not a document that was put into the prompt.

    Args:
        search: The search for the contexts; its turn says which texts, such as the
            history, are known to stand in prompts.
        shown: What the answering call was shown.
        contexts: The contexts that the answering call was shown.

    Returns:
        Ranks among the contexts, from 1.
    """
    # Answers of the known history are skipped: the history was left out of the prompt
    # before the documents were located, so that no context was found in it.
    known_lines = {as_one_line(text) for text in search.turn.texts_besides_documents}
    letters_of_answers: list[bytes] = []
    for call in shown.calls:
        for message in call.prompt:
            for earlier_answer in words_of_assistant(message.text):
                if as_one_line(earlier_answer) not in known_lines:
                    letters_of_answers.append(letters_of(earlier_answer))
    ranks = []
    for rank, context in enumerate(contexts, start=1):
        letters = letters_of(context.text)
        if any(is_contained_in(letters, answer) for answer in letters_of_answers):
            ranks.append(rank)
    return ranks


def _count_passages_from_elsewhere(
    search: ContextSearch, call: Node, contexts: Sequence[Context]
) -> int:
    """Count passages of a prompt that are labelled like the contexts and come from nowhere known.

    Say the contexts stand under "Source 1:" and "Source 2:", and "Source 3:" is above a
    text that no recorded call returned. It is not counted if its text is known: from a
    list of documents, an earlier reply or result, an earlier turn, the question, the
    history or the instructions.

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
            known_texts.append(node.text or "")  # what a tool or agent returned
            known_texts.append(text_of(node))  # what a model replied
    for earlier_call in search.tree.earlier_calls:
        known_texts += [item.text for item in earlier_call.items]
    context_texts = [context.text for context in contexts]
    known_texts += context_texts
    return unknown_passages(texts_not_of_models(call), context_texts, known_texts)


def by_a_cleared_prompt(search: ContextSearch) -> Contexts | None:
    """No contexts, where all results of tools were taken out of the prompt before the answer.

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
    """No contexts, if documents were shown only to earlier calls that judge or route.

    NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: no document is
    relevant, and the model is told that nothing was found.

    None, so that the next rule decides, if the answering call was shown documents or
    words of some, or if no judging call before it was shown any.
    """
    call = search.found_answer.writing_call
    shown = search.shown
    if call is None or shown is None or search.found_answer.text is None:
        return None
    if shown.shown_documents or shown.keys_with_some_words:
        return None  # it was shown documents, or some words of them
    # step calls wrote a query, a verdict or a route instead of an answer
    judging_calls = search.calls.step_calls - search.calls.query_writers
    for judging_call in judging_calls:
        if end_of(judging_call) > call.began:
            continue
        # The reply "yes" inside a nested engine may be the engine's own answer, which
        # is no verdict. The path leads from the root of the run to the call itself.
        callers_below_root = search.calls.paths[judging_call][1:-1]
        if any(caller.kind == "agent" for caller in callers_below_root):
            continue
        if search.prompt_contents.shown_to(judging_call).shown_documents:
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
    """The documents that the last step after the retrieval returned, such as a reranker or a filter.

    langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: a chain that only
    searches ends in a function that fuses ranks. Where several last steps ran beside
    each other, the documents of all of them count.
    """
    calls = search.calls
    ends_of_retrievals = [node.ended or 0.0 for node in calls.retrievals]
    ends_of_steps = [node.ended or 0.0 for node in calls.steps_with_documents]
    last_retrieval = max(ends_of_retrievals, default=0.0)
    if not any(end > last_retrieval for end in ends_of_steps):
        return None  # no step returned documents after the retrieval
    document_by_key: dict[DocumentKey, Document] = {}
    steps = _last_steps(calls)
    for step in steps:
        for document in step.documents or ():
            document_by_key[document.key] = document
    names = ", ".join(names_of(steps))
    documents = tuple(document_by_key.values())
    return _contexts_of_list(search, documents, f"what {names} returned")


def _last_steps(calls: Calls) -> list[Node]:
    """List the steps whose documents no later step worked on."""
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
    """Whether a later step worked on the documents that a step returned.

    Args:
        step: The step.
        later: The later step.
        lists_retrieved: For each retrieval the ids of the documents that it found.
    """
    ids_returned = _ids_of(step.documents or ())
    ids_taken = _ids_of(later.input_documents)
    if not ids_taken:
        return True  # nobody recorded what it took
    if ids_taken <= ids_returned:
        return True
    # It took all that the step returned, and more. If that is exactly what one search
    # found, it worked on the search: two searches may have found the same documents.
    return ids_returned <= ids_taken and ids_taken not in lists_retrieved


def _ids_of(documents: Iterable[Document]) -> set[str]:
    """The stores' ids of some documents; the text of a document without an id."""
    return {document.own_id or document.text for document in documents}


def by_everything_retrieved(search: ContextSearch) -> Contexts | None:
    """Everything that was retrieved, else the documents that were handed in; none where a search found none.

    samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: no model is called.
    """
    documents = list(search.call_results.documents_retrieved() or ())
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
    """Add a doubt where a model's provider may have shown texts that no prompt holds.

    A provider searches while it serves one model call. It may show what it found to
    later calls of the same conversation as well, and no prompt says so. So contexts may
    be missing where it searched for a call that is no call of the answer.
    """
    shown = search.shown
    if shown is None or contexts.evidence_from == "named":
        return contexts
    prompts: list[bytes] = []
    for call in shown.calls:
        prompts += [letters_of(message.text) for message in call.prompt]
    hidden_searches = []
    for node in search.calls.nodes:
        if not node.by_provider:
            continue
        # a provider's search stands directly below the model call that it served
        served_call = search.calls.paths[node][-2]
        is_of_the_answer = served_call in shown.calls
        if not is_of_the_answer and not _is_in_prompts(node, prompts):
            hidden_searches.append(node)
    if not hidden_searches:
        return contexts
    warnings = [_FOUND_BY_PROVIDER.format(name) for name in names_of(hidden_searches)]
    return _with_inferred_doubts(contexts, warnings)


def _with_inferred_doubts(contexts: Contexts, warnings: Sequence[str]) -> Contexts:
    """The contexts with further warnings, which lower the sample to *inferred*."""
    return replace(
        contexts,
        grades=contexts.grades | {"inferred"},
        warnings=(*contexts.warnings, *warnings),
    )


def _with_doubt_of_imagined_documents(calls: Calls, contexts: Contexts) -> Contexts:
    """Add a doubt where a model inside a retriever wrote one of the contexts.

    A retriever may ask a model for a page and return the page as a document. The
    context stays, since the model may have searched for what it wrote.
    """
    if contexts.evidence_from == "named":
        return contexts  # the user said that these are the contexts
    context_lines = {as_one_line(context.text) for context in contexts.items}
    retrievers = []
    for node in calls.nodes:
        is_retriever = node.kind == "retriever"
        if is_retriever and not context_lines.isdisjoint(_lines_written_inside(node)):
            retrievers.append(node)
    if not retrievers:
        return contexts
    warnings = [_IMAGINED.format(name) for name in names_of(retrievers)]
    return _with_inferred_doubts(contexts, warnings)


def _lines_written_inside(retriever: Node) -> set[str]:
    """Return those texts among a retriever's documents that a model inside it made up.

    Such a document equals the reply of a model call that began before any search inside
    the retriever had ended. A later model call may have shortened what was found.

    Returns:
        The texts, each in one line.
    """
    _, *inner_calls = retriever.walk()
    ends_of_searches = [end_of(node) for node in inner_calls if node.documents]
    end_of_first_search = min(ends_of_searches, default=float("inf"))
    reply_lines = set()
    for node in inner_calls:
        if node.reply is not None and node.began < end_of_first_search:
            reply_lines.add(as_one_line(node.reply.text))
    lines = {as_one_line(document.text) for document in retriever.documents or ()}
    return lines & reply_lines


def _is_in_prompts(search: Node, prompts: Sequence[bytes]) -> bool:
    """Whether each text that a search returned stands in a prompt, by its letters."""
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
    """Make contexts of a list of documents, where no prompt tells that they were shown.

    The contexts are *inferred*. A warning says why: there is no prompt or no answer to
    compare, or the prompt holds no words, or too few words, of the documents.

    Args:
        search: What the rules of the contexts look at.
        documents: The documents. Without any there are no contexts, and
            ``evidence_from`` says whether a search found none.
        place: Where the documents were found, in words.
    """
    if not documents:
        return Contexts(evidence_from=_why_no_contexts(search))
    # somebody lists the documents: the framework, or a step that returned them
    evidence_from: EvidenceFrom = "listed"
    if search.found_answer.writing_call is None and search.tree.gives_only_documents:
        # a pipeline that only searches: another run may answer from the documents
        evidence_from = "retrieved_only"
    keys = {document.key for document in documents}
    if search.shown is None or search.found_answer.text is None:
        # no call that answered is known, or it gave no answer
        warning = _NO_PROMPT.format(place)
    elif keys.isdisjoint(search.shown.keys_with_some_words):
        warning = _UNSEEN  # the prompt holds no words of any document
    else:
        warning = _UNTOLD  # it holds some words, too few to tell which documents
    return Contexts(
        tuple(document.context() for document in documents),
        tuple(document.key for document in documents),
        place,
        evidence_from,
        frozenset({"inferred"}),
        (warning,),
    )


def _why_no_contexts(search: ContextSearch) -> EvidenceFrom | None:
    """Say why a list of documents is empty.

    Returns:
        "ids_only" if a search found documents whose texts were not recorded,
        "none_found" if a search found nothing, None if nothing was searched.
    """
    if not search.calls.tried:
        return None
    return "ids_only" if search.calls.n_without_text else "none_found"


def _context_as_shown(key: DocumentKey, shown: ShownToCall) -> Context:
    """Make a context of a document, with the words of it that were shown.

    The context has all of the document's text where the prompts do not tell whether it
    was shown.
    """
    if key not in shown.shown_documents:
        return shown.unknown_documents[key].context()
    document, showing = shown.shown_documents[key]
    return document.context(showing.text)


def _doubt_of(
    rank: int, key: DocumentKey, shown: ShownToCall
) -> tuple[Grade, str] | None:
    """Return the grade to which a context lowers the sample, with the reason in words.

    Returns:
        *inferred* if the prompts do not tell whether the context was shown, *located*
        if the context was cut, None if it was shown whole.
    """
    if key not in shown.shown_documents:
        return "inferred", _UNKNOWN.format(rank)
    _, showing = shown.shown_documents[key]
    if showing.extent != "whole":
        return "located", _CUT.format(rank, showing.percentage)
    return None


def _place_of_prompts(call: Node, showing: Sequence[Node]) -> str:
    """Say in words which prompts show the contexts.

    These may be prompts of earlier calls, of which the answering call was shown only
    the replies.
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
    """Whether all tool results that earlier prompts showed are missing from a call's prompt.

    False for a prompt without any message of a tool: it may be of a step that never
    showed results of tools. A prompt whose results were cleared still holds messages
    such as "[cleared]".
    """
    # An agent inside a tool has prompts of its own, which do not count here.
    calls_in_no_tool = []
    for node, path in calls.paths.items():
        callers = path[:-1]  # a path ends with the call itself
        if not any(caller.kind == "tool" for caller in callers):
            calls_in_no_tool.append(node)
    if call not in calls_in_no_tool:
        return False
    tools = [node for node in calls_in_no_tool if node.kind == "tool"]
    results = {as_one_line(tool.text) for tool in tools}
    models = set(calls.models)
    results_shown_before: set[str] = set()
    for earlier_call in calls_in_no_tool:
        if earlier_call in models and earlier_call.began < call.began:
            results_shown_before |= _tool_messages_of(earlier_call) & results
    messages_now = _tool_messages_of(call)
    if not results_shown_before or not messages_now:
        return False
    return results_shown_before.isdisjoint(messages_now)


def _tool_messages_of(call: Node) -> set[str]:
    """The messages of tools in a call's prompt, each in one line."""
    texts = [message.text for message in call.prompt if message.role == "tool"]
    return {as_one_line(text) for text in texts}
