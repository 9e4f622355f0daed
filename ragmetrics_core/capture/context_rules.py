"""The contexts of an answer, by a table of rules. A part of stage 3.

The **contexts** are the texts that reached the model which wrote the answer. The prompt
of that call usually tells them: of three passages found, the two that stand in it are
the contexts. Where no prompt tells, what the framework says counts, and at last
everything that was retrieved.

The rules stand in ``CONTEXT_RULES`` and are tried in order; the first that finds
something decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.call_results import CallResults
from ragmetrics_core.capture.calls import (
    Calls,
    began_after,
    end_of,
    names_of,
    text_of,
    texts_not_of_models,
)
from ragmetrics_core.capture.forgotten_contexts import is_everything_forgotten
from ragmetrics_core.capture.labelled_passages import unknown_passages
from ragmetrics_core.capture.normalized_text import normalize_text
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
_FORGOTTEN = (
    "the answering prompt holds no word of what was retrieved; all retrieved texts stand"
    " for the contexts; see whether its template has a place for them"
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
FROM_ELSEWHERE = (
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
        document_keys: The keys of the documents behind the contexts; numbers where the
            user named the contexts.
        place: Where the contexts were found, in words.
        evidence_from: What tells the contexts, such as "prompt"; None if nothing does.
        grades: The grades to which doubts lower the sample; empty without a doubt.
        warnings: What the user should know of the contexts.
        n_from_elsewhere: How many passages stand beside the contexts in the prompt,
            labelled like them, that no recorded search found.
        are_forgotten: Whether the prompt surely shows nothing of what was retrieved.
    """

    items: tuple[Context, ...] = ()
    document_keys: tuple[DocumentKey, ...] = ()
    place: str = ""
    evidence_from: EvidenceFrom | None = None
    grades: frozenset[Grade] = frozenset()
    warnings: tuple[str, ...] = ()
    n_from_elsewhere: int = 0
    are_forgotten: bool = False

    @property
    def by_document_key(self) -> dict[DocumentKey, Context]:
        """Each context by the key of its document."""
        return dict(zip(self.document_keys, self.items, strict=True))


@dataclass(frozen=True)
class _Doubt:
    """What is uncertain about contexts.

    Attributes:
        grade: The grade to which it lowers the sample.
        reason: The reason, in words.
    """

    grade: Grade
    reason: str


# What the rules read, and the rules


@dataclass(frozen=True, eq=False)
class AnsweredTurn:
    """A turn with its answer, and with what its calls showed and returned.

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
    def shown_to_answering_call(self) -> ShownToCall | None:
        """What the answering call was shown; None if no call is known."""
        if self.found_answer.writing_call is None:
            return None
        return self.prompt_contents.shown_to(self.found_answer.writing_call)

    def shown_unless_named(self, contexts: Contexts) -> ShownToCall | None:
        """Return what the answering call was shown; None if that is unknown.

        Also None where the user named the contexts, ``contexts_from="docs"``: then
        prompts do not matter.
        """
        return (
            None if contexts.evidence_from == "named" else self.shown_to_answering_call
        )


def by_the_users_place(answered_turn: AnsweredTurn) -> Contexts | None:
    """The place that ``contexts_from=`` names.

    Seen in langchain-ai/open_deep_research, src/open_deep_research/state.py: what was
    found is kept as texts, under ``raw_notes``.
    """
    if "contexts" not in answered_turn.turn.named:
        return None
    contexts = tuple(contexts_in(answered_turn.turn.named["contexts"]))
    if not contexts:
        return Contexts(
            place="contexts_from",
            evidence_from="named",
            grades=frozenset({"inferred"}),
            warnings=(_NONE_NAMED,),
        )
    document_keys = tuple(("named", str(place)) for place in range(len(contexts)))
    return Contexts(contexts, document_keys, "contexts_from", "named")


def by_the_prompt(answered_turn: AnsweredTurn) -> Contexts | None:
    """The documents whose text stands in the prompt of the answering call.

    Seen in langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: what was
    retrieved is put into the prompt.

    Example: A, B and C were retrieved, and the prompt holds A and the first half of C.
    The contexts are A and this half of C. The prompts of earlier calls count as well,
    if the answering call was shown their replies. None if no document is shown.
    """
    call = answered_turn.found_answer.writing_call
    shown_to_call = answered_turn.shown_to_answering_call
    if call is None or shown_to_call is None or not shown_to_call.shown_documents:
        return None
    contexts = tuple(
        _context_as_shown(document_key, shown_to_call)
        for document_key in shown_to_call.document_keys_in_order
    )
    # how many passages such as "Source 3: …" the prompt has that no recorded search found
    n_from_elsewhere = _count_passages_from_elsewhere(answered_turn, call, contexts)
    doubts = [
        *_doubts_of_contexts(answered_turn, shown_to_call, contexts),
        *_doubts_of_other_passages(shown_to_call, n_from_elsewhere),
    ]
    # each context is all that a tool wrote, "1. It is old. 2. It fell.": nobody divided
    # this text into documents
    is_undivided = _shows_only_context_tools(shown_to_call, answered_turn.calls)
    return Contexts(
        items=contexts,
        document_keys=shown_to_call.document_keys_in_order,
        place=_place_of_prompts(call, shown_to_call.calls_showing_documents),
        evidence_from="undivided" if is_undivided else "prompt",
        grades=frozenset(doubt.grade for doubt in doubts),
        warnings=tuple(doubt.reason for doubt in doubts),
        n_from_elsewhere=n_from_elsewhere,
    )


def _shows_only_context_tools(shown_to_call: ShownToCall, calls: Calls) -> bool:
    """Whether all documents that a call was shown are texts of tools that the user named.

    Each such text may hold several documents, not divided.
    """
    tool_texts = {node.text for node in calls.context_tool_calls}
    texts_shown = {
        document.text for document, _ in shown_to_call.shown_documents.values()
    }
    return texts_shown <= tool_texts


def _doubts_of_contexts(
    answered_turn: AnsweredTurn, shown_to_call: ShownToCall, contexts: Sequence[Context]
) -> Iterator[_Doubt]:
    """Yield what is uncertain about the contexts that a prompt shows."""
    for rank, document_key in enumerate(shown_to_call.document_keys_in_order, start=1):
        doubt = _doubt_of(rank, document_key, shown_to_call)
        if doubt is not None:
            yield doubt
    for rank in _ranks_quoted_by_assistant(answered_turn, shown_to_call, contexts):
        yield _Doubt("inferred", _QUOTED.format(rank))


def _doubts_of_other_passages(
    shown_to_call: ShownToCall, n_from_elsewhere: int
) -> Iterator[_Doubt]:
    """Yield what is uncertain, since a prompt may show more than its contexts.

    ``n_from_elsewhere`` counts its passages that no recorded search found.
    """
    if n_from_elsewhere:
        yield _Doubt("inferred", FROM_ELSEWHERE.format(n_from_elsewhere))
    if shown_to_call.perhaps_shown.document_keys_perhaps_noted:
        yield _Doubt(
            "inferred",
            _SHORT_NOTES.format(
                len(shown_to_call.perhaps_shown.document_keys_perhaps_noted)
            ),
        )
    if shown_to_call.perhaps_shown.document_keys_perhaps_cut:
        yield _Doubt(
            "inferred",
            _PERHAPS_CUT.format(
                len(shown_to_call.perhaps_shown.document_keys_perhaps_cut)
            ),
        )


def _ranks_quoted_by_assistant(
    answered_turn: AnsweredTurn, shown_to_call: ShownToCall, contexts: Sequence[Context]
) -> list[int]:
    """List the ranks, from 1, of contexts that an earlier answer may quote.

    An application may print the earlier conversation into its prompt: "User: …
    Assistant: …". A context in the assistant's words may be such a quote, and not a
    document that was put into the prompt.
    """
    normalized_answers = [
        normalize_text(answer)
        for answer in _answers_printed(answered_turn, shown_to_call.calls)
    ]
    if not normalized_answers:
        return []
    ranks = []
    for rank, context in enumerate(contexts, start=1):
        normalized = normalize_text(context.text)
        if any(is_contained_in(normalized, answer) for answer in normalized_answers):
            ranks.append(rank)
    return ranks


def _answers_printed(
    answered_turn: AnsweredTurn, calls: Iterable[Node]
) -> Iterator[str]:
    """Yield the earlier answers of the assistant that the prompts of calls print.

    Answers of the known history are left out: no context was found in these.
    """
    known_lines = {
        as_one_line(text) for text in answered_turn.turn.texts_besides_documents
    }
    for call in calls:
        for message in call.prompt:
            for earlier_answer in words_of_assistant(message.text):
                if as_one_line(earlier_answer) not in known_lines:
                    yield earlier_answer


def _count_passages_from_elsewhere(
    answered_turn: AnsweredTurn, call: Node, contexts: Sequence[Context]
) -> int:
    """Count passages of a prompt that are labelled like the contexts and come from nowhere known.

    Say the contexts stand under "Source 1:" and "Source 2:", and "Source 3:" is above a
    text that no recorded call returned.
    """
    context_texts = [context.text for context in contexts]
    # read only where the prompt has labelled passages at all
    known_texts = chain(
        answered_turn.turn.texts_besides_documents,
        _texts_of_known_documents(answered_turn),
        _texts_returned_before(answered_turn, call),
        context_texts,
    )
    return unknown_passages(texts_not_of_models(call), context_texts, known_texts)


def _texts_of_known_documents(answered_turn: AnsweredTurn) -> Iterator[str]:
    """Yield the texts of all documents that calls of this and earlier turns had."""
    for document in answered_turn.tree.root.input_documents:
        yield from document.texts
    for documents in answered_turn.calls.lists():
        for document in documents:
            yield from document.texts
    for earlier_call in answered_turn.tree.earlier_calls:
        for item in earlier_call.items:
            yield item.text


def _texts_returned_before(answered_turn: AnsweredTurn, call: Node) -> Iterator[str]:
    """Yield what tools, agents and models returned before a call began."""
    for node in answered_turn.calls.nodes:
        if began_after(call, node):
            yield node.text or ""
            yield text_of(node)


def by_a_cleared_prompt(answered_turn: AnsweredTurn) -> Contexts | None:
    """No contexts, where all results of tools were taken out of the prompt before the answer.

    Seen in langchain-ai/langchain,
    libs/langchain_v1/langchain/agents/middleware/context_editing.py:
    ``ContextEditingMiddleware`` clears earlier results of tools.
    """
    call = answered_turn.found_answer.writing_call
    if call is None or not _is_cleared(answered_turn.calls, call):
        return None
    return Contexts(
        place=f"the prompt of {call.name}",
        evidence_from="prompt",
        warnings=(_TAKEN_OUT,),
    )


def by_a_prompt_without_documents(answered_turn: AnsweredTurn) -> Contexts | None:
    """No contexts, if documents were shown only to earlier calls that judge or route.

    Seen in NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: no document is
    relevant, and the model is told that nothing was found.
    """
    call = answered_turn.found_answer.writing_call
    shown_to_call = answered_turn.shown_to_answering_call
    if call is None or shown_to_call is None or answered_turn.found_answer.text is None:
        return None
    if (
        shown_to_call.shown_documents
        or shown_to_call.perhaps_shown.document_keys_with_some_words
    ):
        return None
    if not _had_judge_with_documents(answered_turn, call):
        return None
    return Contexts(
        place=f"the prompt of {call.name}",
        evidence_from="prompt",
        grades=frozenset({"inferred"}),
        warnings=(_SHOWN_TO_OTHERS,),
    )


def _had_judge_with_documents(answered_turn: AnsweredTurn, call: Node) -> bool:
    """Whether a call that judges or routes was shown documents before another call began.

    Calls inside nested engines do not count: "yes" may be the engine's own answer.
    """
    calls = answered_turn.calls
    return any(
        began_after(call, judge)
        and not _is_in_nested_engine(judge, calls)
        and answered_turn.prompt_contents.shown_to(judge).shown_documents
        for judge in calls.step_calls - calls.query_writers
    )


def _is_in_nested_engine(call: Node, calls: Calls) -> bool:
    """Whether a call runs inside an agent below the root of the run."""
    callers_below_root = calls.paths[call][1:-1]
    return any(caller.kind == "agent" for caller in callers_below_root)


def by_the_answers_documents(answered_turn: AnsweredTurn) -> Contexts | None:
    """The documents that the answer carries.

    Seen in run-llama/llama_index,
    llama-index-core/llama_index/core/response_synthesizers/type.py: the mode
    ``generation`` shows the model nothing of what was found.
    """
    answer = answered_turn.found_answer.answer
    if answer.documents is None:
        return None
    return _contexts_of_list(
        answered_turn, answer.documents, f"documents of {answer.place}"
    )


def by_the_frameworks_flow(answered_turn: AnsweredTurn) -> Contexts | None:
    """The documents that reached the generator by the framework's own word.

    Seen in deepset-ai/haystack-cookbook,
    notebooks/improve-retrieval-by-embedding-metadata.ipynb: documents at the end of a
    pipeline.
    """
    tree = answered_turn.tree
    if tree.flow_documents is None:
        return None
    return _contexts_of_list(answered_turn, tree.flow_documents, tree.flow_place)


def by_the_last_step(answered_turn: AnsweredTurn) -> Contexts | None:
    """The documents that the last step after the retrieval returned, such as a reranker or a filter.

    Seen in langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: a chain that
    only searches ends in a function that fuses ranks. Where several last steps ran
    beside each other, the documents of all of them count.
    """
    if not _has_step_after_retrieval(answered_turn.calls):
        return None
    document_by_key: dict[DocumentKey, Document] = {}
    steps = _last_steps(answered_turn.calls)
    for step in steps:
        for document in step.documents or ():
            document_by_key[document.key] = document
    names = ", ".join(names_of(steps))
    documents = tuple(document_by_key.values())
    return _contexts_of_list(answered_turn, documents, f"what {names} returned")


def _has_step_after_retrieval(calls: Calls) -> bool:
    """Whether a step returned documents after the last retrieval had ended."""
    ends_of_retrievals = [node.ended or 0.0 for node in calls.retrievals]
    ends_of_steps = [node.ended or 0.0 for node in calls.steps_with_documents]
    last_retrieval = max(ends_of_retrievals, default=0.0)
    return any(end > last_retrieval for end in ends_of_steps)


def _last_steps(calls: Calls) -> list[Node]:
    """List the steps that returned documents of which no later step took any.

    Example: a filter returned [A, B], then a reranker took [A, B] and returned [B, A]:
    the reranker.
    """
    last_steps: list[Node] = []
    ids_taken_later: set[str] = set()
    for step in reversed(calls.steps_with_documents):
        if ids_taken_later.isdisjoint(_ids_of(step.documents or ())):
            last_steps.append(step)
        if not step.input_documents:
            break  # nobody recorded what it took: it may have been any document
        ids_taken_later |= _ids_of(step.input_documents)
    return last_steps[::-1]


def _ids_of(documents: Iterable[Document]) -> set[str]:
    """The stores' ids of some documents; the text of a document without an id."""
    return {document.own_id or document.text for document in documents}


def by_everything_retrieved(answered_turn: AnsweredTurn) -> Contexts | None:
    """Everything that was retrieved, else the documents that were handed in; none where a search found none.

    Seen in samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: no model is
    called.
    """
    documents = list(answered_turn.call_results.documents_retrieved() or ())
    handed_in = () if documents else answered_turn.tree.root.input_documents
    documents += [
        Document(node.text or "") for node in answered_turn.calls.context_tool_calls
    ]
    documents += handed_in
    return _contexts_of_list(answered_turn, documents, "everything retrieved")


CONTEXT_RULES: tuple[Callable[[AnsweredTurn], Contexts | None], ...] = (
    by_the_users_place,
    by_the_prompt,
    by_a_cleared_prompt,
    by_a_prompt_without_documents,
    by_the_answers_documents,
    by_the_frameworks_flow,
    by_the_last_step,
    by_everything_retrieved,
)


def _first_contexts(answered_turn: AnsweredTurn) -> Contexts:
    """The contexts by the first rule that finds them."""
    # the last rule always gives some
    results = (rule(answered_turn) for rule in CONTEXT_RULES)
    return next(contexts for contexts in results if contexts is not None)


def contexts_of(answered_turn: AnsweredTurn) -> Contexts:
    """The contexts by the first rule that finds them, with what makes them uncertain."""
    contexts = _with_doubt_of_provider(answered_turn, _first_contexts(answered_turn))
    return _with_doubt_of_imagined_documents(answered_turn.calls, contexts)


def _with_doubt_of_provider(
    answered_turn: AnsweredTurn, contexts: Contexts
) -> Contexts:
    """Add a doubt where a model's provider may have shown texts that no prompt holds.

    A provider searches while it serves one model call. It may show what it found to
    later calls of the same conversation as well, and no prompt says so.
    """
    shown_to_call = answered_turn.shown_to_answering_call
    if shown_to_call is None or contexts.evidence_from == "named":
        return contexts
    hidden_searches = _searches_in_no_prompt(answered_turn.calls, shown_to_call.calls)
    if not hidden_searches:
        return contexts
    warnings = [_FOUND_BY_PROVIDER.format(name) for name in names_of(hidden_searches)]
    return _with_inferred_doubts(contexts, warnings)


def _searches_in_no_prompt(calls: Calls, answer_calls: Sequence[Node]) -> list[Node]:
    """List the provider's searches whose findings no prompt of the answer shows.

    The provider searched the web for call 1; call 2 writes the answer, and its prompt
    does not hold the pages: this search is listed. A search for call 2 itself is not.

    Args:
        calls: The calls of the run.
        answer_calls: The calls whose prompts lead to the answer.
    """
    prompts: list[bytes] = []  # each message by its letters and digits
    for call in answer_calls:
        prompts += [normalize_text(message.text) for message in call.prompt]
    searches = []
    for node in calls.nodes:
        if not node.by_provider:
            continue
        # a provider's search stands directly inside the model call that it served
        served_call = calls.paths[node][-2]
        if served_call not in answer_calls and not _is_in_prompts(node, prompts):
            searches.append(node)
    return searches


def _with_inferred_doubts(contexts: Contexts, warnings: Sequence[str]) -> Contexts:
    """The contexts with further warnings, which lower the sample to *inferred*."""
    return replace(
        contexts,
        grades=contexts.grades | {"inferred"},
        warnings=(*contexts.warnings, *warnings),
    )


def _with_doubt_of_imagined_documents(calls: Calls, contexts: Contexts) -> Contexts:
    """Add a warning where a model inside a retriever wrote one of the contexts.

    Example: a model inside a retriever makes up "It fell in 1874.", and the retriever
    returns this as a document. The context stays, and the sample gets a warning: the
    model may have made the text up, or have searched without being recorded.
    """
    if contexts.evidence_from == "named":
        return contexts  # the user named the contexts
    lines_by_retriever: dict[Node, set[str]] = {}
    for node in calls.nodes:
        lines = _lines_written_inside(node) if node.kind == "retriever" else set()
        if lines:  # in most retrievers no model runs
            lines_by_retriever[node] = lines
    if not lines_by_retriever:
        return contexts
    context_lines = {as_one_line(context.text) for context in contexts.items}
    retrievers = [
        retriever
        for retriever, lines in lines_by_retriever.items()
        if not context_lines.isdisjoint(lines)
    ]
    if not retrievers:
        return contexts
    warnings = [_IMAGINED.format(name) for name in names_of(retrievers)]
    return _with_inferred_doubts(contexts, warnings)


def _lines_written_inside(retriever: Node) -> set[str]:
    """Return the retriever's documents that a model inside it wrote, each in one line.

    A model wrote "It fell in 1874." before any search, and the retriever returns this
    text. Models that began after the first search are left out: they may have shortened
    what it found.
    """
    _, *inner_calls = retriever.walk()  # without the retriever itself
    # without a search inside, all models count
    ends_of_searches = [end_of(node) for node in inner_calls if node.documents]
    end_of_first_search = min(ends_of_searches, default=float("inf"))
    reply_lines: set[str] = set()
    for node in inner_calls:
        if node.reply is not None and node.began < end_of_first_search:
            reply_lines.add(as_one_line(node.reply.text))
    if not reply_lines:
        return set()
    document_lines = {
        as_one_line(document.text) for document in retriever.documents or ()
    }
    return document_lines & reply_lines


def _is_in_prompts(search: Node, prompts: Sequence[bytes]) -> bool:
    """Whether each text that a search returned stands in a prompt, by its letters."""
    texts = [document.text for document in search.documents or ()]
    texts.append(search.text or "")
    for text in texts:
        normalized = normalize_text(text)
        if not any(normalized in prompt for prompt in prompts):
            return False
    return True


def _contexts_of_list(
    answered_turn: AnsweredTurn, documents: Sequence[Document], place: str
) -> Contexts:
    """Make contexts of documents that no prompt surely shows, with a warning.

    Example: no prompt was recorded, and a reranker returned [A, B] last. A and B are
    the contexts, and the sample gets the grade *inferred*: its contexts are a guess.

    Args:
        answered_turn: The turn, its answer, and what its calls showed and returned.
        documents: The documents. Without any there are no contexts, and
            ``evidence_from`` says why.
        place: Where the documents were found, in words.
    """
    if not documents:
        return Contexts(evidence_from=_why_no_contexts(answered_turn))
    document_keys = tuple(document.key for document in documents)
    warning = _why_inferred(answered_turn, document_keys, place)
    are_forgotten = False
    if warning == _UNSEEN:  # no word of the documents was found in the recorded prompt
        # The template may be "Answer the question: {question}", without a place for
        # documents: the model surely saw none. Else they may stand there reworded.
        are_forgotten = is_everything_forgotten(
            answered_turn.turn,
            answered_turn.found_answer,
            answered_turn.prompt_contents,
        )
    return Contexts(
        items=tuple(document.context() for document in documents),
        document_keys=document_keys,
        place=place,
        # a run without an answer, or one whose contexts are the list that was found last
        evidence_from="retrieved_only" if _only_searches(answered_turn) else "listed",
        grades=frozenset({"inferred"}),
        warnings=(_FORGOTTEN if are_forgotten else warning,),
        are_forgotten=are_forgotten,
    )


def _only_searches(answered_turn: AnsweredTurn) -> bool:
    """Whether a run only searches. Another run may answer from its documents."""
    writing_call = answered_turn.found_answer.writing_call
    return writing_call is None and answered_turn.tree.gives_only_documents


def _why_inferred(
    answered_turn: AnsweredTurn, document_keys: Iterable[DocumentKey], place: str
) -> str:
    """Say why no prompt tells that the documents with some keys were shown."""
    shown_to_call = answered_turn.shown_to_answering_call
    if shown_to_call is None or answered_turn.found_answer.text is None:
        return _NO_PROMPT.format(place)
    has_some_words = (
        not shown_to_call.perhaps_shown.document_keys_with_some_words.isdisjoint(
            document_keys
        )
    )
    return _UNTOLD if has_some_words else _UNSEEN


def _why_no_contexts(answered_turn: AnsweredTurn) -> EvidenceFrom | None:
    """Say why a list of documents is empty.

    Returns:
        "ids_only" if a search found documents whose texts were not recorded,
        "none_found" if a search found nothing, None if nothing was searched.
    """
    if not answered_turn.calls.has_search:
        return None
    return "ids_only" if answered_turn.calls.n_without_text else "none_found"


def _context_as_shown(document_key: DocumentKey, shown_to_call: ShownToCall) -> Context:
    """Make a context of a document, with the words of it that were shown.

    The context has all of the document's text where the prompts do not tell whether it
    was shown.
    """
    if document_key not in shown_to_call.shown_documents:
        return shown_to_call.perhaps_shown.unknown_documents[document_key].context()
    document, showing = shown_to_call.shown_documents[document_key]
    return document.context(showing.text)


def _doubt_of(
    rank: int, document_key: DocumentKey, shown_to_call: ShownToCall
) -> _Doubt | None:
    """Return what is uncertain about a context.

    Returns:
        *inferred* if the prompts do not tell whether the context was shown, *located*
        if the context was cut, None if it was shown whole.
    """
    if document_key not in shown_to_call.shown_documents:
        return _Doubt("inferred", _UNKNOWN.format(rank))
    _, showing = shown_to_call.shown_documents[document_key]
    if showing.extent != "whole":
        return _Doubt("located", _CUT.format(rank, showing.percentage))
    return None


def _place_of_prompts(call: Node, showing: Sequence[Node]) -> str:
    """Say in words which prompts show the contexts.

    These may be prompts of earlier calls, if the answering call was shown the replies
    of these calls.
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
    """Whether a prompt holds none of the tool results that earlier prompts showed.

    Example: an agent's first prompt holds a tool's message "It fell in 1874."; in the
    prompt of this call the message is "[cleared]": True.
    """
    # the calls outside of any tool, and the outermost tools themselves
    outer_calls = _calls_in_no_tool(calls)
    if call not in outer_calls:
        return False  # an agent inside a tool has prompts of its own
    outermost_tools = [node for node in outer_calls if node.kind == "tool"]
    results = {as_one_line(tool.text) for tool in outermost_tools}
    results_shown_before: set[str] = set()
    for earlier_call in calls.models:
        if earlier_call in outer_calls and earlier_call.began < call.began:
            results_shown_before |= _tool_messages_of(earlier_call) & results
    messages_now = _tool_messages_of(call)
    if not results_shown_before or not messages_now:
        return False  # nothing was shown before, or this step is shown no tool messages
    return results_shown_before.isdisjoint(messages_now)


def _calls_in_no_tool(calls: Calls) -> set[Node]:
    """Return the calls that run inside no tool; the outermost tools are among them."""
    return {
        node
        for node, path in calls.paths.items()
        if all(caller.kind != "tool" for caller in path[:-1])
    }


def _tool_messages_of(call: Node) -> set[str]:
    """The messages of tools in a call's prompt, each in one line."""
    texts = [message.text for message in call.prompt if message.role == "tool"]
    return {as_one_line(text) for text in texts}
