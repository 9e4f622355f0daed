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

from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.passages import (
    share_a_passage,
    stands_apart,
    stands_in,
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
    " query stands for them"
)


@dataclass(frozen=True)
class Asked:
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
        asked: What was asked.
        standalone: The one text that retrievers were asked instead; None without one.
        named: What the user's places led to, as plain values, by "contexts" and
            "answer".
    """

    tree: Tree
    calls: Calls
    asked: Asked
    # the one text that retrievers were asked instead of the question
    standalone: str | None
    # by "contexts" and "answer": what the user's places led to, as plain values
    named: Mapping[str, Any]

    @property
    def question(self) -> str | None:
        """What the user asked; None if that was not found."""
        return self.asked.question

    @property
    def error(self) -> str | None:
        """What the run ended with."""
        return self.tree.error or self.tree.root.error

    @property
    def known(self) -> tuple[str, ...]:
        """Texts that stand in prompts for another reason than being found.

        They are the question, history and instructions. A query that is itself the text
        of a document is left out: it stands there as the document.
        """
        texts_asked = [self.question] if self.question else []
        texts = {
            document.text for documents in self.calls.lists() for document in documents
        }
        if self.standalone and self.standalone not in texts:
            texts_asked.append(self.standalone)
        return (
            *texts_asked,
            *(said_turn.content for said_turn in self.tree.history),
            *self.tree.instructions,
        )


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
    if tree.is_query or calls.tried or where.contexts_from is not None:
        return True
    if not tree.root.taken or tree.question is None:
        return False
    return bool(tree.error or tree.root.error) or _answers_from_what_was_handed_in(
        calls
    )


def _answers_from_what_was_handed_in(calls: Calls) -> bool:
    """Whether a model wrote anything that may be an answer, and no mere verdict.

    The documents then came with the question.
    """
    return any(
        weight and not calls.replies[call].is_verdict
        for call, weight in calls.weights.items()
    )


def _value_user_named(field: str, tree: Tree, where: Overrides) -> tuple[bool, Any]:
    """Look up a field where the user said that it is.

    Outputs come before inputs, but for the question: a state's ``chunks: []`` among the
    inputs is where the run fills in what it found.

    Returns:
        Whether something is there, and its value in plain values.
    """
    places = (
        (*tree.places, *tree.results)
        if field == "question"
        else (*tree.results, *tree.places)
    )
    is_there, value = where.find(field, tree.run, *places)
    return is_there, tree.plain(value) if is_there else None


# The rules


@dataclass(frozen=True, eq=False)
class _Search:
    """What the rules of the question look at.

    Attributes:
        calls: The calls of the run.
        where: What the user says of it.
    """

    calls: Calls
    where: Overrides

    @property
    def tree(self) -> Tree:
        return self.calls.tree

    @cached_property
    def queries(self) -> list[str]:
        """What was searched for: queries in words, those of retrievals first.

        Behind these stand the queries of the calls around them, and what rerankers were
        asked. Arguments of tools that are JSON are left out.
        """
        calls, tree = self.calls, self.calls.tree
        paths = [calls.paths[node] for node in calls.retrievals]
        nodes = [path[-1] for path in paths]
        nodes += [node for path in paths for node in path]
        nodes += [
            node
            for node in calls.nodes
            if node.kind == "retriever" and (tree.unread or node.error)
        ]
        nodes += [node for node in calls.nodes if node.kind == "reranker"]
        return [
            node.query
            for node in nodes
            if node.query and parse_json(node.query) is None
        ]

    @cached_property
    def asked_of_others(self) -> frozenset[str]:
        """What all calls inside the run were asked, each text in one line."""
        texts_asked: list[str] = []
        for node in self.calls.nodes[1:]:
            if node.query:
                texts_asked += [node.query, *texts_in(parse_json(node.query))]
        return frozenset(map(as_one_line, texts_asked))

    @cached_property
    def is_rewritten(self) -> bool:
        """Whether a model wrote every query.

        A search of a model's provider without a known query counts, too.
        """
        is_searched = bool(self.queries) or bool(self.searching_models)
        return is_searched and all(
            self.calls.is_written(query) for query in self.queries
        )

    @cached_property
    def searching_models(self) -> list[Node]:
        """The calls of models while which the provider searched first, or searched at all.

        Empty where something else searched before.
        """
        paths = self.calls.paths
        searches = [
            node
            for node in self.calls.nodes
            if node.kind == "retriever" or node.by_provider
        ]
        if not searches or not searches[0].by_provider:
            return []
        return [paths[searches[0]][-2]]


def by_the_users_words(search: _Search) -> Asked | None:
    """What the caller says: ``capture(question="…")``.

    deepset-ai/haystack-cookbook, notebooks/hackernews-custom-component-rag.ipynb: posts
    are summed up unasked.
    """
    question = search.where.question
    return None if question is None else Asked(question, "capture(question=)")


def by_the_users_place(search: _Search) -> Asked | None:
    """The place that ``question_from=`` names.

    lancedb/vectordb-recipes,
    examples/customer_support_agent_langgraph/LangGraph_LanceDB.ipynb: the question is a
    mail that the run fetches into its state.
    """
    is_there, value = _value_user_named("question", search.tree, search.where)
    return Asked(question_in(value), "question_from") if is_there else None


def by_a_label(search: _Search) -> Asked | None:
    """What stands behind a label at the end of what the framework was given, where just that was searched for.

    An agent that is run with instructions and, behind "User question", the user's
    words: it asks its tool just these.
    """
    whole_text = search.tree.question or ""
    labels = [label.end() for label in _LABEL.finditer(whole_text)]
    for start in labels:
        if as_one_line(whole_text[start:]) in search.asked_of_others:
            words = whole_text[start:].strip()
            return Asked(words, search.tree.asked_at, (_BEHIND_A_LABEL,))
    return None


def by_the_framework(search: _Search) -> Asked | None:
    """What the framework was given as the question: an input of a usual name, an argument, the user's last message.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: the chain is invoked
    with the question.
    """
    tree = search.tree
    if tree.question is None:
        return None
    doubts = (TOLD_MORE,) if _ends_with_one(tree.question, search) else ()
    return Asked(tree.question, tree.asked_at, doubts)


def _ends_with_one(question: str, search: _Search) -> bool:
    """Whether the last line of a longer text is just what was searched for.

    No line before it is.
    """
    *before, last_line = map(as_one_line, question.strip().splitlines() or [""])
    is_longer = any(before)
    if not is_longer or last_line not in search.asked_of_others:
        return False
    return search.asked_of_others.isdisjoint(before)


def by_the_words_to_the_model(search: _Search) -> Asked | None:
    """Where a model wrote every query: what the user said last to the call that chose it, else to the answering call.

    langchain-ai/langchain, docs/docs/how_to/tool_results_pass_to_model.ipynb: the tool
    that a model chose, here one that searches, is called by hand.
    """
    if not search.is_rewritten:
        return None
    calls = search.calls
    query = as_one_line(next(iter(search.queries), None))
    choosing = [
        call
        for call in calls.models
        if query in map(as_one_line, calls.replies[call].arguments)
    ]
    choosing = choosing or search.searching_models
    call = next(iter([*choosing, *reversed(calls.likely)]), None)
    if call is None:
        return None
    messages = [
        message.text
        for message in call.prompt
        if message.role == "user" and message.text.strip()
    ]
    if not messages or not (choosing or _is_plain(messages[-1], calls)):
        return None
    return Asked(messages[-1], f"last message of the user to {call.name}")


def by_a_models_query(search: _Search) -> Asked | None:
    """Where a model wrote every query and the user's own words are nowhere: the first query, inferred.

    run-llama/llama_index, docs/examples/low_level/fusion_retriever.ipynb: several
    queries of a model are searched for by hand.
    """
    if not search.is_rewritten or not search.queries:
        return None
    return Asked(search.queries[0], "query of the first retriever", (_REWRITTEN,))


def by_the_first_query(search: _Search) -> Asked | None:
    """The first query that the answering prompt shows, of those that no model wrote; else the first, inferred.

    chziakas/Icarus, rag_openai.py: a retriever and a model are called without a chain.
    """
    queries = [query for query in search.queries if not search.calls.is_written(query)]
    if not queries:
        return None
    tree = search.tree
    shown = [query for query in queries if _is_shown(query, search.calls)]
    apart = [query for query in shown if _stands_apart(query, search.calls)]
    question = next(iter([*apart, *shown, *queries]))
    place = "query of the first retriever"
    if question != search.queries[0]:
        place = "query that the answering prompt shows"
    has_no_inputs = (
        tree.gives_documents or tree.root.kind == "retriever" or tree.root.name == FLOW
    )
    doubts: tuple[str, ...] = ()
    if not has_no_inputs:
        doubts = (_ONLY_A_QUERY,)
    elif not shown:
        doubts = (_NOT_SHOWN,)
    elif not apart and len(set(shown)) > 1:
        doubts = (_ONE_OF_SEVERAL_QUERIES,)
    return Asked(question, place, doubts)


def by_nothing(search: _Search) -> Asked:
    """No question, and nothing is exact.

    deepset-ai/haystack-cookbook, notebooks/information_extraction_raven.ipynb: data are
    extracted from a page unasked.
    """
    del search
    return Asked(None, "", (_NOT_FOUND,))


QUESTION_RULES: tuple[Callable[[_Search], Asked | None], ...] = (
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


def _find_question(calls: Calls, where: Overrides) -> Asked:
    """The question by the first rule that finds one."""
    search = _Search(calls, where)
    tried = (rule(search) for rule in QUESTION_RULES)
    return next(answer for answer in tried if answer is not None)


def _is_shown(query: str, calls: Calls) -> bool:
    """Whether a query stands in the prompt of a call that may have answered.

    True also if no such call was made.
    """
    prompts = [message.text for call in calls.likely for message in call.prompt]
    line = as_one_line(query)
    return not calls.likely or any(line in as_one_line(prompt) for prompt in prompts)


def _stands_apart(query: str, calls: Calls) -> bool:
    """Whether a query is a line of a prompt that may have been answered, or stands there behind a label."""
    prompts = [message.text for call in calls.likely for message in call.prompt]
    return any(stands_apart(query.strip(), prompt) for prompt in prompts)


def _is_plain(message: str, calls: Calls) -> bool:
    """Whether a message holds neither documents nor queries and no model wrote it.

    So it may be the user's own words.
    """
    if calls.is_written(message):
        return False
    host = stream(message)
    queries = [stream(node.query) for node in calls.nodes if node.query]
    if any(stands_in(query, host) for query in queries):
        return False
    documents = [
        stream(document.text) for documents in calls.lists() for document in documents
    ]
    return not any(share_a_passage(document, host) for document in documents)


def _standalone(calls: Calls, question: str | None) -> str | None:
    """The one text that retrievers were asked instead of the question.

    None if there is none, if there are several, or if it is too long to be a question.
    """
    failed = [node for node in calls.nodes if node.kind == "retriever" and node.error]
    names = searching_tools(calls.nodes)
    tools = [node for node in calls.nodes if node.kind == "tool" and node.name in names]
    searched: list[Node] = [
        *calls.retrievals,
        *calls.context_tool_calls,
        *failed,
        *tools,
    ]
    queries = {
        node.query for node in searched if node.query and parse_json(node.query) is None
    }
    standalone = calls.tree.standalone or (queries.pop() if len(queries) == 1 else None)
    if standalone is None or len(standalone) > _LONGEST_QUERY:
        return None
    return None if as_one_line(standalone) == as_one_line(question) else standalone
