"""Stage 1: which runs are a turn, and what was asked in it. Pure.

The rules stand in ``QUESTION_RULES`` and are tried in order; the first that finds
something decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragmetrics_core.capture.calls import NO_ANSWER, Calls
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.passages import (
    is_contained_in,
    share_a_passage,
    stands_apart,
)
from ragmetrics_core.capture.plain_values import (
    Overrides,
    as_one_line,
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
_ONE_OF_SEVERAL_QUERIES = (
    "several texts were searched for, and the answering prompt shows more than one of"
    " them among other words: the first stands for the user's question"
)
_BEHIND_A_LABEL = (
    "what was asked is more than what was searched for: what stands behind its last"
    " label is taken for the user's words"
)
# a label before the user's words, at the end of what an application writes; in the
# first line it is how the user begins ("Please tell me: …")
_LABEL = re.compile(r"\n[^\S\n]*[\w' ]{1,40}:\s*(?=\S)")
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
        tree: The run, or several that ``join_trees`` made one.
        calls: Its calls.
        found_question: What was asked.
        standalone_question: The one text that retrievers were asked instead; None without one.
        named: What the user's places led to, as plain values, by "contexts" and
            "answer".
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
        """Texts that stand in prompts for another reason than being found.

        They are the question, history and instructions. A query that is itself the text
        of a document is left out: it stands there as the document.
        """
        known: list[str] = []
        if self.question:
            known.append(self.question)
        document_texts: set[str] = set()
        for documents in self.calls.lists():
            document_texts.update(document.text for document in documents)
        if self.standalone_question and self.standalone_question not in document_texts:
            known.append(self.standalone_question)
        known += [message.content for message in self.tree.history]
        known += self.tree.instructions
        return tuple(known)


def turn_of(tree: Tree, where: Overrides) -> Turn | None:
    """What was asked in a run.

    Args:
        tree: One run, or several that ``join_trees`` made one.
        where: What the user says of it.

    Returns:
        The turn; None for a run that neither retrieved nor is a query.
    """
    calls = Calls(tree, where.context_tools or ())
    if not _is_a_turn(calls, where):
        return None
    asked = _find_question(calls, where)
    named = {}
    for field in ("answer", "contexts"):
        is_there, value = _value_user_named(field, tree, where)
        if is_there:
            named[field] = value
    return Turn(tree, calls, asked, _standalone(calls, asked.question), named)


def _is_a_turn(calls: Calls, where: Overrides) -> bool:
    """Whether a run gives a sample at all.

    It does if it is a query, if it searched, or if the user names its contexts. It also
    does if it was handed documents and a question, and then answered or failed.
    """
    tree = calls.tree
    if tree.root.kind == "ignored":
        return False
    if tree.is_always_a_sample or calls.tried or where.contexts_from is not None:
        return True
    if not tree.root.input_documents or tree.question is None:
        return False
    has_failed = bool(tree.error or tree.root.error)
    return has_failed or _may_have_answered(calls)


def _may_have_answered(calls: Calls) -> bool:
    """Whether a model wrote anything that may be an answer, and no mere verdict."""
    weights = calls.reply_forms.items()
    answer_like = [call for call, weight in weights if weight != NO_ANSWER]
    return any(not calls.replies[call].is_verdict for call in answer_like)


def _value_user_named(field: str, tree: Tree, where: Overrides) -> tuple[bool, Any]:
    """Look up a field where the user said that it is.

    The question is sought among the inputs of the run first. Other fields are sought
    among its outputs first: an empty ``chunks`` among the inputs is only where the run
    fills in what it found.

    Args:
        field: "question", "contexts" or "answer".
        tree: The run.
        where: What the user says of it.

    Returns:
        Whether something is there, and its value in plain values; None without one.
    """
    inputs = tree.lookup_inputs
    outputs = tree.lookup_outputs
    places = (*outputs, *inputs)
    if field == "question":
        places = (*inputs, *outputs)
    is_there, value = where.find(field, tree.native_run, *places)
    if not is_there:
        return False, None
    return True, tree.to_plain_value(value)


# The rules


@dataclass(frozen=True, eq=False)
class _QuestionSearch:
    """What the rules of the question look at.

    Attributes:
        calls: The calls of the run.
        where: What the user says of it.
    """

    calls: Calls
    where: Overrides

    @property
    def tree(self) -> Tree:
        """The run."""
        return self.calls.tree

    @cached_property
    def queries(self) -> list[str]:
        """What was searched for: queries in words, those of retrievals first.

        Behind these stand the queries of the calls around them, and what rerankers were
        asked. Arguments of tools that are JSON are left out.
        """
        retrievals = list(self.calls.retrievals)
        nodes = list(retrievals)
        for retrieval in retrievals:
            nodes += self.calls.paths[retrieval]
        for node in self.calls.nodes:
            # its documents, or its failure, tell that it searched
            found_unseen = bool(self.tree.n_without_text or node.error)
            if node.kind == "retriever" and found_unseen:
                nodes.append(node)
        nodes += [node for node in self.calls.nodes if node.kind == "reranker"]
        queries = [node.query for node in nodes if node.query]
        return [query for query in queries if parse_json(query) is None]

    @cached_property
    def lines_asked_inside(self) -> frozenset[str]:
        """What all calls inside the run were asked, each text in one line."""
        texts: list[str] = []
        for node in self.calls.nodes[1:]:
            if node.query:
                texts.append(node.query)
                texts += texts_in(parse_json(node.query))
        return frozenset(as_one_line(text) for text in texts)

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
        """The call of a model while which its provider made the first search of the run.

        Empty where something else searched first, or nothing did.
        """
        for node in self.calls.nodes:
            if node.by_provider:
                *_, searching_model, _ = self.calls.paths[node]
                return [searching_model]
            if node.kind == "retriever":
                return []
        return []


def by_the_users_words(search: _QuestionSearch) -> FoundQuestion | None:
    """What the caller says: ``capture(question="…")``.

    deepset-ai/haystack-cookbook, notebooks/hackernews-custom-component-rag.ipynb: posts
    are summed up unasked.
    """
    question = search.where.question
    if question is None:
        return None
    return FoundQuestion(question, "capture(question=)")


def by_the_users_place(search: _QuestionSearch) -> FoundQuestion | None:
    """The place that ``question_from=`` names.

    lancedb/vectordb-recipes,
    examples/customer_support_agent_langgraph/LangGraph_LanceDB.ipynb: the question is a
    mail that the run fetches into its state.
    """
    is_there, value = _value_user_named("question", search.tree, search.where)
    if not is_there:
        return None
    return FoundQuestion(question_in(value), "question_from")


def by_a_label(search: _QuestionSearch) -> FoundQuestion | None:
    """What stands behind a label at the end of what the framework was given, where just that was searched for.

    An agent that is run with instructions and, behind "User question", the user's
    words: it asks its tool just these.
    """
    whole_text = search.tree.question or ""
    for label in _LABEL.finditer(whole_text):
        words = whole_text[label.end() :].strip()
        if as_one_line(words) in search.lines_asked_inside:
            return FoundQuestion(words, search.tree.question_place, (_BEHIND_A_LABEL,))
    return None


def by_the_framework(search: _QuestionSearch) -> FoundQuestion | None:
    """What the framework was given as the question: an input of a usual name, an argument, the user's last message.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: the chain is invoked
    with the question.
    """
    tree = search.tree
    if tree.question is None:
        return None
    if _ends_with_search(tree.question, search):
        return FoundQuestion(tree.question, tree.question_place, (TOLD_MORE,))
    return FoundQuestion(tree.question, tree.question_place)


def _ends_with_search(question: str, search: _QuestionSearch) -> bool:
    """Whether the last line of a longer text is just what was searched for.

    No line before it is.
    """
    lines = [as_one_line(line) for line in question.strip().splitlines()]
    lines_before = lines[:-1]
    if not any(lines_before) or lines[-1] not in search.lines_asked_inside:
        return False
    return search.lines_asked_inside.isdisjoint(lines_before)


def by_the_words_to_the_model(search: _QuestionSearch) -> FoundQuestion | None:
    """Where a model wrote every query: what the user said last to the call that chose it, else to the answering call.

    langchain-ai/langchain, docs/docs/how_to/tool_results_pass_to_model.ipynb: the tool
    that a model chose, here one that searches, is called by hand.
    """
    if not search.is_rewritten:
        return None
    calls = search.calls
    choosing_calls = _calls_that_chose_search(search) or search.searching_models
    candidates = [*choosing_calls, *reversed(calls.likely_answer_calls)]
    if not candidates:
        return None
    call = candidates[0]
    words_of_user: str | None = None
    for message in call.prompt:
        if message.role == "user" and message.text.strip():
            words_of_user = message.text
    if words_of_user is None:
        return None
    # a prompt that answers may hold more than the user's words
    if not choosing_calls and not _is_plain(words_of_user, calls):
        return None
    return FoundQuestion(words_of_user, f"last message of the user to {call.name}")


def _calls_that_chose_search(search: _QuestionSearch) -> list[Node]:
    """Calls of models that called a tool with the first query."""
    calls = search.calls
    query = as_one_line(search.queries[0]) if search.queries else ""
    choosing_calls = []
    for call in calls.models:
        arguments = calls.replies[call].arguments
        if query in {as_one_line(argument) for argument in arguments}:
            choosing_calls.append(call)
    return choosing_calls


def by_a_models_query(search: _QuestionSearch) -> FoundQuestion | None:
    """Where a model wrote every query and the user's own words are nowhere: the first query, inferred.

    run-llama/llama_index, docs/examples/low_level/fusion_retriever.ipynb: several
    queries of a model are searched for by hand.
    """
    if not search.is_rewritten or not search.queries:
        return None
    return FoundQuestion(
        search.queries[0], "query of the first retriever", (_REWRITTEN,)
    )


def by_the_first_query(search: _QuestionSearch) -> FoundQuestion | None:
    """The first query that the answering prompt shows, of those that no model wrote; else the first, inferred.

    chziakas/Icarus, rag_openai.py: a retriever and a model are called without a chain.
    """
    queries = [query for query in search.queries if not search.calls.is_written(query)]
    if not queries:
        return None
    shown = [query for query in queries if _is_shown(query, search.calls)]
    apart = [query for query in shown if _stands_apart(query, search.calls)]
    question = [*apart, *shown, *queries][0]
    place = "query of the first retriever"
    if question != search.queries[0]:
        place = "query that the answering prompt shows"
    doubts: tuple[str, ...] = ()
    if _has_inputs(search.tree):
        doubts = (_ONLY_A_QUERY,)
    elif not shown:
        doubts = (_NOT_SHOWN,)
    elif not apart and len(set(shown)) > 1:
        doubts = (_ONE_OF_SEVERAL_QUERIES,)
    return FoundQuestion(question, place, doubts)


def _has_inputs(tree: Tree) -> bool:
    """Whether a run was given something, in which the question was not found.

    A search alone, and runs of plain functions, are given nothing but queries.
    """
    is_search = tree.gives_only_documents or tree.root.kind == "retriever"
    return not is_search and tree.root.name != FLOW


def by_nothing(search: _QuestionSearch) -> FoundQuestion:
    """No question, and nothing is exact.

    deepset-ai/haystack-cookbook, notebooks/information_extraction_raven.ipynb: data are
    extracted from a page unasked.
    """
    del search
    return FoundQuestion(None, "", (_NOT_FOUND,))


QUESTION_RULES: tuple[Callable[[_QuestionSearch], FoundQuestion | None], ...] = (
    by_the_users_words,
    by_the_users_place,
    by_a_label,
    by_the_framework,
    by_the_words_to_the_model,
    by_a_models_query,
    by_the_first_query,
    by_nothing,
)


def question_without_chain(calls: Calls) -> str | None:
    """What the user asked, where no run was given it.

    It is read off the prompts, else it is a query. None if that is not certain, as
    where a model wrote every query.
    """
    asked = _find_question(calls, Overrides())
    return None if asked.doubts else asked.question


def _find_question(calls: Calls, where: Overrides) -> FoundQuestion:
    """The question by the first rule that finds one."""
    search = _QuestionSearch(calls, where)
    # the last rule always gives one
    results = (rule(search) for rule in QUESTION_RULES)
    return next(asked for asked in results if asked is not None)


def _is_shown(query: str, calls: Calls) -> bool:
    """Whether a query stands in the prompt of a call that may have answered.

    True also if no such call was made.
    """
    if not calls.likely_answer_calls:
        return True
    line = as_one_line(query)
    return any(line in as_one_line(text) for text in _texts_to_likely_calls(calls))


def _stands_apart(query: str, calls: Calls) -> bool:
    """Whether a query is a line of a prompt that may have been answered, or stands there behind a label."""
    words = query.strip()
    return any(stands_apart(words, text) for text in _texts_to_likely_calls(calls))


def _texts_to_likely_calls(calls: Calls) -> list[str]:
    """The messages that the calls were shown that look most like answering."""
    texts: list[str] = []
    for call in calls.likely_answer_calls:
        texts += [message.text for message in call.prompt]
    return texts


def _is_plain(message: str, calls: Calls) -> bool:
    """Whether a message holds neither documents nor queries and no model wrote it.

    So it may be the user's own words.
    """
    if calls.is_written(message):
        return False
    letters = letters_of(message)
    for node in calls.nodes:
        if node.query and is_contained_in(letters_of(node.query), letters):
            return False
    for documents in calls.lists():
        for document in documents:
            if share_a_passage(letters_of(document.text), letters):
                return False
    return True


def _standalone(calls: Calls, question: str | None) -> str | None:
    """The one text that retrievers were asked instead of the question.

    None if there is none, if there are several, or if it is too long to be a question.
    """
    searches: list[Node] = [*calls.retrievals, *calls.context_tool_calls]
    names_of_searching_tools = searching_tools(calls.nodes)
    for node in calls.nodes:
        has_failed = node.kind == "retriever" and bool(node.error)
        is_tool = node.kind == "tool" and node.name in names_of_searching_tools
        if has_failed or is_tool:
            searches.append(node)
    queries = {node.query for node in searches if node.query}
    queries_in_words = [query for query in queries if parse_json(query) is None]
    standalone = calls.tree.standalone_question or None
    if standalone is None and len(queries_in_words) == 1:
        (standalone,) = queries_in_words
    if standalone is None or len(standalone) > _LONGEST_QUERY:
        return None
    is_question = as_one_line(standalone) == as_one_line(question)
    return None if is_question else standalone
