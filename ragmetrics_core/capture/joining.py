"""Several runs of one turn as one run, before the stages read it. Pure.

A **turn** is one question of a user with all runs that answer it. An application of
plain functions makes each search and each call of a model a run of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.passages import EDGE
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.question import TOLD_MORE, question_without_chain
from ragmetrics_core.capture.tree import FLOW, Document, Node, Tree
from ragmetrics_core.capture.written import hand_on_authors

_FEWEST_WORDS = 3  # of a query that a question is made around


def join_trees(trees: Sequence[Tree], name: str) -> Tree:
    """Join several runs of one turn into one run.

    It has the first question that no model wrote, and the last answer. A single run is
    returned as it is.

    Args:
        trees: The runs, in the order in which they began.
        name: What joins them: ``FLOW`` or ``THREAD``.
    """
    if len(trees) == 1:
        return trees[0]
    roots = [tree.root for tree in trees]
    hand_on_authors(roots)
    root = Node("step", name, roots[0].began, roots[-1].ended, roots)
    calls = Calls(Tree(root))
    asking_run = _asking_run(trees, calls)
    if asking_run is None:
        question = question_without_chain(calls)
    else:
        question = asking_run.question
    last_run = trees[-1]
    if name == FLOW:
        last_run = _answering_run(trees, calls, question)
    whole = _unite_trees(last_run, trees)
    doubts: list[str] = []
    for tree in trees:
        doubts += tree.doubts
    if asking_run is not None:
        whole.question = asking_run.question
        whole.question_place = asking_run.question_place
        whole.history = asking_run.history or last_run.history
        if _was_told_more(asking_run, calls):
            doubts.append(TOLD_MORE)
    return replace(whole, root=root, doubts=tuple(dict.fromkeys(doubts)))


def _unite_trees(last_run: Tree, trees: Sequence[Tree]) -> Tree:
    """The run that answered, without a question, and with what all runs of its turn hold.

    Places of the latest run go first; of fields that the calls say, the first one counts.
    """
    given: dict[str, Any] = {}
    other: list[Document] = []
    for tree in trees:
        given = {**tree.given_fields, **given}
        other += tree.documents_without_text
    places: list[Any] = []
    results: list[Any] = []
    for tree in reversed(trees):
        places += tree.places
        results += tree.results
    return replace(
        last_run,
        question=None,
        question_place="",
        error=last_run.error or last_run.root.error,
        gives_only_documents=all(tree.gives_only_documents for tree in trees),
        given_fields=given,
        n_without_text=sum(tree.n_without_text for tree in trees),
        documents_without_text=tuple(other),
        places=tuple(places),
        results=tuple(results),
    )


def _asking_run(trees: Sequence[Tree], calls: Calls) -> Tree | None:
    """The first run whose question is the user's; None if there is none.

    No model wrote that question, and it is not made of what was found before.
    """
    document_lines: set[str] = set()
    for documents in calls.lists():
        document_lines.update(as_one_line(document.text) for document in documents)
    retrievers = [node for node in calls.nodes if node.kind == "retriever"]
    queries = {as_one_line(retriever.query) for retriever in retrievers}
    for tree in trees:
        if tree.question is None or tree.root.kind == "retriever":
            continue
        question = as_one_line(tree.question)
        if _is_written_before(tree, question, calls):
            continue
        # what was searched for is a question even where documents repeat it
        is_query = question in queries
        if is_query or not _is_made_of_documents(question, document_lines):
            return tree
    return None


def _was_told_more(asking_run: Tree, calls: Calls) -> bool:
    """Whether a run was asked a text around what was searched for beside it.

    The text may add a language, or the talk so far.
    """
    queries: set[str] = set()
    for node, path in calls.paths.items():
        is_beside = asking_run.root not in path
        if node.kind != "retriever" or not node.query or not is_beside:
            continue
        if not calls.is_written(node.query):
            queries.add(as_one_line(node.query))
    question = as_one_line(asking_run.question)
    if question in queries:
        return False
    return any(_stands_around(question, query) for query in queries)


def _stands_around(question: str, query: str) -> bool:
    """Whether all words of a query stand in a question, together or apart.

    A query of fewer than three words does not count: they may be mere keywords.
    """
    query_words = query.lower().split()
    if len(query_words) < _FEWEST_WORDS:
        return False
    return set(query_words) <= set(question.lower().split())


def _is_written_before(tree: Tree, question: str, calls: Calls) -> bool:
    """Whether a model wrote what a run is asked, before it was asked."""
    earlier_calls = [call for call in calls.models if end_of(call) <= tree.root.began]
    return any(calls.replies[call].writes_query(question) for call in earlier_calls)


def _answering_run(trees: Sequence[Tree], calls: Calls, question: str | None) -> Tree:
    """The run that answers: it holds the last call that looks like answering.

    Calls that were shown the question go before others. Without such calls it is the
    last run.
    """
    calls_shown_question = calls.filter_by_question(question, calls.likely_answer_calls)
    candidates = calls_shown_question or calls.likely_answer_calls
    if candidates:
        answering_call = candidates[-1]
        for tree in trees:
            if answering_call in tree.root.walk():
                return tree
    return trees[-1]


def _is_made_of_documents(question: str, texts: Iterable[str]) -> bool:
    """Whether what a chain was given is what was found before, whole or cut.

    A script that sums up its hits hands these in as the question.
    """
    line = as_one_line(question)
    letters = letters_of(question)
    is_long_enough = len(letters) >= EDGE
    for text in texts:
        holds_document = len(text) >= DISTINCTIVE_LENGTH and text in line
        if holds_document or (is_long_enough and letters in letters_of(text)):
            return True
    return False
