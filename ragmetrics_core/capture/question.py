"""Stage 1: finds what was asked in a run, and whether the run is a turn at all. Pure.

The rules stand in ``QUESTION_RULES`` and are tried in order; the first that finds
something decides. Of a chain that was invoked with "When did the bridge open?", it is
that text. Of a retriever and a model that were called without a chain, it is the query
that stands in the model's prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from ragmetrics_core.capture.calls import NO_ANSWER, Calls
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import (
    is_contained_in,
    share_a_passage,
    stands_apart,
)
from ragmetrics_core.capture.plain_values import (
    Overrides,
    as_one_line,
    last_words_of_user,
    parse_json,
    question_in,
    texts_in,
)
from ragmetrics_core.capture.searches import searching_tools
from ragmetrics_core.capture.tree import FLOW, Node, Tree

# a longer text is a passage that may stand in an answer, no question
_LONGEST_QUERY = 200

_NOT_FOUND = "no question was found"
_ONLY_A_QUERY = (
    "the question was not found in the inputs; the retriever's query stands for it"
)
_NOT_SHOWN = (
    "no model was shown the first query: the user's own words may be others, and were not"
    " found"
)
TOLD_MORE = (
    "what was asked is more than what was searched for: which of it are the user's words"
    " is not certain"
)
_MAY_HOLD_MORE = (
    "a model was called without a chain, and its message is long: which of it are the"
    " user's words is not certain"
)
_ONE_OF_SEVERAL_QUERIES = (
    "several texts were searched for, and the answering prompt shows more than one of"
    " them among other words: the first stands for the user's question"
)
_REWRITTEN = (
    "a model wrote every query, and the user's own words were not found; the first"
    " query stands for the question"
)


@dataclass(frozen=True)
class FoundQuestion:
    """A question, where it was found, and what is uncertain about it.

    Attributes:
        question: What was asked; None if that was not found.
        place: Where it was found, in words.
        doubts: What is uncertain, in words.
    """

    question: str | None
    place: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Turn:
    """One turn of an application: the result of stage 1.

    Attributes:
        tree: The run. ``join_trees`` may have made it of several runs.
        calls: Its calls.
        found_question: What was asked.
        standalone_question: The one text that retrievers were asked instead of the
            question; None without one.
        named: The values that ``contexts_from=`` and ``answer_from=`` led to, by
            "contexts" and "answer".
    """

    tree: Tree
    calls: Calls
    found_question: FoundQuestion
    standalone_question: str | None
    named: Mapping[str, Any]

    @property
    def question(self) -> str | None:
        """What the user asked; None if that was not found."""
        return self.found_question.question

    @property
    def error(self) -> str | None:
        """What the run failed with; None if it did not fail."""
        return self.tree.error or self.tree.root.error

    @property
    def texts_besides_documents(self) -> tuple[str, ...]:
        """The texts that prompts of the turn may hold besides its retrieved documents.

        These are the question, the standalone question, the history and the
        instructions. Example: the question "And the ferry?", the standalone question
        "When does the ferry run?", the history "When did it open?" and "In 1874.", and
        the instruction "Answer from the context.".

        A standalone question that is also the text of a document is left out: where it
        stands in a prompt, it counts as that document.
        """
        texts: list[str] = []
        if self.question:
            texts.append(self.question)
        if self.standalone_question and not self._is_document(self.standalone_question):
            texts.append(self.standalone_question)
        texts += [message.content for message in self.tree.history]
        texts += self.tree.instructions
        return tuple(texts)

    def _is_document(self, text: str) -> bool:
        """Whether a text is that of a document that a call took or returned."""
        documents = chain.from_iterable(self.calls.lists())
        return any(document.text == text for document in documents)


def turn_of(tree: Tree, overrides: Overrides) -> Turn | None:
    """Find what the user asked in a run, and collect what belongs to this question.

    Example: a chain is invoked with "And the ferry?", and its retriever is asked "When
    does the ferry run?". The first text is the question, the second the standalone
    question.

    Args:
        tree: The run. ``join_trees`` may have made it of several runs.
        overrides: The user's settings: where question, contexts and answer stand.

    Returns:
        The turn. None for a run that gives no sample, such as a single call of a model
        that searched for nothing.
    """
    context_tools = overrides.context_tools  # None: the user named no searching tools
    calls = Calls(
        tree, context_tools or (), has_user_named_tools=context_tools is not None
    )
    # neither a search, nor documents handed in, nor a query of the framework
    if not _is_a_turn(calls, overrides):
        return None
    found_question = _find_question(calls, overrides)
    standalone_question = _standalone(calls, found_question.question)
    # what stands where the user said: answer_from="result", contexts_from="docs"
    value_by_field = {}
    for field in ("answer", "contexts"):
        is_there, value = _value_user_named(field, tree, overrides)
        if is_there:
            value_by_field[field] = value
    return Turn(tree, calls, found_question, standalone_question, value_by_field)


def _is_a_turn(calls: Calls, overrides: Overrides) -> bool:
    """Return whether a run gives a sample at all.

    It does if the framework calls it a query, if it searched, if it called a tool and
    answered, or if the user names its contexts. It also does if it was given documents
    and a question, and then answered or failed.
    """
    tree = calls.tree
    if tree.root.kind == "ignored":
        return False
    if (
        tree.is_always_a_sample
        or calls.has_search
        or calls.answers_after_a_tool
        or overrides.contexts_from is not None
    ):
        return True
    if not tree.root.input_documents or tree.question is None:
        return False
    has_failed = bool(tree.error or tree.root.error)
    return has_failed or _may_have_answered(calls)


def _may_have_answered(calls: Calls) -> bool:
    """Return whether a model wrote a text that may be an answer, and no mere verdict."""
    answer_like = [
        call for call, form in calls.reply_forms.items() if form != NO_ANSWER
    ]
    return any(not calls.replies[call].is_verdict for call in answer_like)


def _value_user_named(field: str, tree: Tree, overrides: Overrides) -> tuple[bool, Any]:
    """Look up a field of the sample where the user said that it is.

    The question is looked up among the inputs of the run first. Other fields are looked
    up among its outputs first: inputs may hold an empty ``chunks`` that the run fills
    with what it finds.

    Args:
        field: "question", "contexts" or "answer".
        tree: The run.
        overrides: Where the user says that the fields are.

    Returns:
        Whether something is there, and its value in plain values; None without one.
    """
    inputs = tree.lookup_inputs
    outputs = tree.lookup_outputs
    mappings = (*outputs, *inputs)
    if field == "question":
        mappings = (*inputs, *outputs)
    is_there, value = overrides.find(field, tree.native_run, *mappings)
    if not is_there:
        return False, None
    return True, tree.to_plain_value(value)


# The rules


@dataclass(frozen=True, eq=False)
class _RunAndOverrides:
    """The calls of a run, and where the user says that its question is.

    Attributes:
        calls: The calls of the run.
        overrides: Where the user says that the question is.
    """

    calls: Calls
    overrides: Overrides

    @property
    def tree(self) -> Tree:
        """The run."""
        return self.calls.tree

    @cached_property
    def queries(self) -> list[str]:
        """The queries of the run that are plain words, as against arguments in JSON.

        The queries of searches that found documents stand first, then those of searches
        without documents, then those of rerankers. A query may stand there several
        times: a search and a reranker for "When?" give ["When?", "When?"].
        """
        searches = list(self.calls.retrievals)
        for retrieval in self.calls.retrievals:
            searches += self.calls.paths[retrieval]
        searches += self._retrievers_without_texts
        searches += [node for node in self.calls.nodes if node.kind == "reranker"]
        queries = [search.query for search in searches if search.query]
        return [query for query in queries if parse_json(query) is None]

    @property
    def _retrievers_without_texts(self) -> list[Node]:
        """The retrievers that failed; all where texts of documents were not recorded."""
        has_documents_without_text = self.tree.n_without_text > 0
        retrievers = [node for node in self.calls.nodes if node.kind == "retriever"]
        return [node for node in retrievers if has_documents_without_text or node.error]

    @cached_property
    def lines_asked_inside(self) -> frozenset[str]:
        """What the calls inside the run were asked, each text in one line."""
        texts: list[str] = []
        for node in self.calls.nodes[1:]:
            if node.query:
                texts.append(node.query)
                texts += texts_in(parse_json(node.query))
        return frozenset(as_one_line(text) for text in texts) - {""}

    @cached_property
    def is_rewritten(self) -> bool:
        """Whether a model wrote every query.

        A search of a model's provider without a known query counts, too.
        """
        if not self.queries and not self.searching_models:
            return False
        return all(self.calls.is_written(query) for query in self.queries)

    @cached_property
    def searching_models(self) -> list[Node]:
        """The model call whose provider made the first search of the run, in a list.

        A provider searches while its model answers. Empty where a retriever searched
        first, or nothing did.
        """
        for node in self.calls.nodes:
            if node.by_provider:
                *_, searching_model, _ = self.calls.paths[node]
                return [searching_model]
            if node.kind == "retriever":
                return []
        return []


def by_the_users_words(run: _RunAndOverrides) -> FoundQuestion | None:
    """What the caller says: ``capture(question="…")``.

    Seen in deepset-ai/haystack-cookbook,
    notebooks/hackernews-custom-component-rag.ipynb: posts are summed up unasked.
    """
    question = run.overrides.question
    if question is None:
        return None
    return FoundQuestion(question, "capture(question=)")


def by_the_users_place(run: _RunAndOverrides) -> FoundQuestion | None:
    """The place that ``question_from=`` names.

    Seen in lancedb/vectordb-recipes,
    examples/customer_support_agent_langgraph/LangGraph_LanceDB.ipynb: the question is a
    mail that the run fetches into its state.
    """
    is_there, value = _value_user_named("question", run.tree, run.overrides)
    if not is_there:
        return None
    return FoundQuestion(question_in(value), "question_from")


def by_the_framework(run: _RunAndOverrides) -> FoundQuestion | None:
    """What the framework was given as the question: an input of a usual name, an argument, the user's last message.

    Seen in langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: the chain is
    invoked with the question.
    """
    tree = run.tree
    if tree.question is None:
        return None
    if _ends_with_search(tree.question, run):
        return FoundQuestion(tree.question, tree.question_place, (TOLD_MORE,))
    return FoundQuestion(tree.question, tree.question_place)


def _ends_with_search(question: str, run: _RunAndOverrides) -> bool:
    r"""Return whether a text of several lines ends with what was searched for.

    Example: "Be brief.\nUser question: When did it open?" ends with the query "When did
    it open?", which stands behind a label. It is not enough if a line before was
    searched for as well.
    """
    lines = [as_one_line(line) for line in question.strip().splitlines()]
    lines_before = lines[:-1]
    if not any(lines_before):
        return False
    _, _, words_behind_label = lines[-1].rpartition(":")
    possible_queries = {lines[-1], words_behind_label.strip()}
    if run.lines_asked_inside.isdisjoint(possible_queries):
        return False
    return run.lines_asked_inside.isdisjoint(lines_before)


def by_the_words_to_the_model(run: _RunAndOverrides) -> FoundQuestion | None:
    """If a model wrote each query: the user's last message to the call that chose to search, else to the answering one.

    Seen in langchain-ai/langchain, docs/docs/how_to/tool_results_pass_to_model.ipynb:
    the tool that a model chose, here one that searches, is called by hand.
    """
    if not run.is_rewritten:
        return None
    choosing_calls = _calls_that_chose_search(run) or run.searching_models
    if choosing_calls:
        return _last_words_to(choosing_calls[0])
    answering_calls = run.calls.likely_answer_calls
    if not answering_calls:
        return None
    found = _last_words_to(answering_calls[-1])
    if found is None or found.question is None:
        return None
    # such a message may hold documents around the user's words
    return found if _may_be_users_words(found.question, run.calls) else None


def _last_words_to(call: Node) -> FoundQuestion | None:
    """Return the user's last message in the prompt of a call; None without one."""
    words = last_words_of_user(call.prompt)
    if words is None:
        return None
    return FoundQuestion(words, f"last message of the user to {call.name}")


def _calls_that_chose_search(run: _RunAndOverrides) -> list[Node]:
    """Return the calls of models that called a tool with the first query."""
    calls = run.calls
    query = as_one_line(run.queries[0]) if run.queries else ""
    choosing_calls = []
    for call in calls.models:
        arguments = calls.replies[call].arguments
        if query in {as_one_line(argument) for argument in arguments}:
            choosing_calls.append(call)
    return choosing_calls


def by_a_models_query(run: _RunAndOverrides) -> FoundQuestion | None:
    """Where a model wrote every query and the user's own words are nowhere: the first query, inferred.

    Seen in run-llama/llama_index, docs/examples/low_level/fusion_retriever.ipynb:
    several queries of a model are searched for by hand.
    """
    if not run.is_rewritten or not run.queries:
        return None
    return FoundQuestion(run.queries[0], "query of the first retriever", (_REWRITTEN,))


def by_a_query_no_model_wrote(run: _RunAndOverrides) -> FoundQuestion | None:
    """A query that no model wrote: one that the answering prompt shows, else the first.

    Seen in chziakas/Icarus, rag_openai.py: the application calls a retriever with "When
    did it open?", and a model with "… Question: When did it open?", without a chain.

    The best one is a query that is a line of the answering prompt, or stands there
    after a label, as above; else a query anywhere in this prompt; else any query.
    """
    # a query that a model wrote is not in the user's words
    own_queries = [query for query in run.queries if not run.calls.is_written(query)]
    if not own_queries:
        return None
    # "Answer from: … Question: When did it open?" shows the query "When did it open?"
    shown = [query for query in own_queries if _is_shown(query, run.calls)]
    in_own_line = [query for query in shown if _stands_apart(query, run.calls)]
    best_first = [*in_own_line, *shown, *own_queries]
    question = best_first[0]
    # in words, where the question was found
    if question == run.queries[0]:  # of all queries, also those of models
        place = "query of the first retriever"
    elif shown:
        place = "query that the answering prompt shows"
    else:
        place = "first query that no model wrote"
    doubts = _doubts_of_query(run.tree, shown, in_own_line)
    return FoundQuestion(question, place, doubts)


def _doubts_of_query(
    tree: Tree, shown: Collection[str], in_own_line: Collection[str]
) -> tuple[str, ...]:
    """Say why the user may have asked in other words than a query; () without a reason.

    Args:
        tree: The run.
        shown: The queries that the answering prompt shows.
        in_own_line: Those of them that are a line of it, not among other words.
    """
    if _has_inputs(tree):
        return (_ONLY_A_QUERY,)
    if not shown:
        return (_NOT_SHOWN,)
    shows_several = len(set(shown)) > 1
    if shows_several and not in_own_line:
        return (_ONE_OF_SEVERAL_QUERIES,)
    return ()


def _has_inputs(tree: Tree) -> bool:
    """Return whether a run had inputs, in which no question was found.

    A search alone, and runs of plain functions, have no inputs but queries.
    """
    is_search = tree.gives_only_documents or tree.root.kind == "retriever"
    return not is_search and tree.root.name != FLOW


def by_the_words_to_a_lone_model(run: _RunAndOverrides) -> FoundQuestion | None:
    """If the run is one call of a model, without a chain: the user's last message to it.

    Seen in langchain-ai/langchain, docs/docs/tutorials/chatbot.ipynb: a model is called
    with the user's message alone. A long message, or one of several lines, may hold
    more than the user's words.
    """
    root = run.tree.root
    if root.kind != "model":
        return None
    found = _last_words_to(root)
    if found is None or found.question is None:
        return None
    words = found.question.strip()
    if not words:
        return None
    is_one_short_line = len(words) <= _LONGEST_QUERY and len(words.splitlines()) == 1
    if is_one_short_line:
        return found
    return replace(found, doubts=(_MAY_HOLD_MORE,))


def by_nothing(run: _RunAndOverrides) -> FoundQuestion:
    """No question, and nothing is exact.

    Seen in deepset-ai/haystack-cookbook, notebooks/information_extraction_raven.ipynb:
    data are extracted from a page unasked.
    """
    del run
    return FoundQuestion(None, "", (_NOT_FOUND,))


QUESTION_RULES: tuple[Callable[[_RunAndOverrides], FoundQuestion | None], ...] = (
    by_the_users_words,
    by_the_users_place,
    by_the_framework,
    by_the_words_to_the_model,
    by_a_models_query,
    by_a_query_no_model_wrote,
    by_the_words_to_a_lone_model,
    by_nothing,
)


def question_without_chain(calls: Calls) -> str | None:
    """Return what the user asked, where no run had the question as its input.

    It is a message of a prompt, or a query. None if it is not certain, as where a model
    wrote every query.
    """
    found = _find_question(calls, Overrides())
    return None if found.doubts else found.question


def _find_question(calls: Calls, overrides: Overrides) -> FoundQuestion:
    """Return the question by the first rule that finds one."""
    run = _RunAndOverrides(calls, overrides)
    # the last rule gives a result in any case
    results = (rule(run) for rule in QUESTION_RULES)
    return next(found for found in results if found is not None)


def _is_shown(query: str, calls: Calls) -> bool:
    """Return whether a query stands in the prompt of a call that may have answered.

    True also if no such call was made.
    """
    if not calls.likely_answer_calls:
        return True
    line = as_one_line(query)
    return any(line in as_one_line(text) for text in _texts_to_likely_calls(calls))


def _stands_apart(query: str, calls: Calls) -> bool:
    """Return whether a query is a line of a prompt, or stands in it after a label.

    The prompts are those of the calls that look most like answering.
    """
    words = query.strip()
    return any(stands_apart(words, text) for text in _texts_to_likely_calls(calls))


def _texts_to_likely_calls(calls: Calls) -> list[str]:
    """Return the messages of the prompts of the calls that look most like answering."""
    texts: list[str] = []
    for call in calls.likely_answer_calls:
        texts += [message.text for message in call.prompt]
    return texts


def _may_be_users_words(message: str, calls: Calls) -> bool:
    """Return whether a message holds no query and no document, and no model wrote it."""
    if calls.is_written(message):
        return False
    normalized = normalize_text(message)
    for node in calls.nodes:
        if node.query and is_contained_in(normalize_text(node.query), normalized):
            return False
    for documents in calls.lists():
        for document in documents:
            if share_a_passage(normalize_text(document.text), normalized):
                return False
    return True


def _standalone(calls: Calls, question: str | None) -> str | None:
    """Return the standalone question: what was searched for instead of the question.

    It is the rewritten question that the framework names. If the framework names none,
    it is the only query of all searches.

    Args:
        calls: The calls of a run.
        question: What the user asked; None if it is not known.

    Returns:
        The standalone question. None if nothing or several texts were searched for, if
        the question itself was, or if the text is too long to be a question.
    """
    standalone = calls.tree.standalone_question or _only_query(calls)
    if standalone is None or len(standalone) > _LONGEST_QUERY:
        return None
    is_question = as_one_line(standalone) == as_one_line(question)
    return None if is_question else standalone


def _only_query(calls: Calls) -> str | None:
    """Return the query of all searches of a run; None without one, or if there are several.

    Example: two searches for "ferry times": "ferry times". A query in JSON does not
    count: it is the arguments of a tool, and no text that could be a question.
    """
    searches = [
        *calls.retrievals,
        *calls.context_tool_calls,
        *_searches_without_documents(calls),
    ]
    queries: set[str] = set()
    for search in searches:
        if search.query and parse_json(search.query) is None:
            queries.add(search.query)
    return queries.pop() if len(queries) == 1 else None


def _searches_without_documents(calls: Calls) -> list[Node]:
    """Return the retrievers that failed, and the calls of tools that search."""
    names_of_searching_tools = searching_tools(calls.nodes)
    searches: list[Node] = []
    for node in calls.nodes:
        is_failed_retriever = node.kind == "retriever" and bool(node.error)
        is_searching_tool = (
            node.kind == "tool" and node.name in names_of_searching_tools
        )
        if is_failed_retriever or is_searching_tool:
            searches.append(node)
    return searches
