"""Joins the runs of one turn into one run, before the stages read it. Pure.

A **turn** is one question of a user with all runs that answer it. Two kinds of
applications make several runs of one turn:

    - ``FLOW``: plain functions. Each search and each call of a model is a run::

          run 1   a model writes the query "bridge opening year"
          run 2   a retriever searches for it
          run 3   a model is asked "When did the bridge open?" with what was found

      Joined, the question is run 3's, since a model wrote the query of run 2.
    - ``THREAD``: a graph that stops for a person, and a second run that resumes it. The
      question is the first run's, the answer is the second run's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.capture.authors import copy_authors
from ragmetrics_core.capture.calls import Calls, began_after
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import EDGE
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.question import TOLD_MORE, question_without_chain
from ragmetrics_core.capture.run_group import doubtful
from ragmetrics_core.capture.tree import FLOW, Document, Node, Tree

_FEWEST_WORDS = 3  # a query of fewer words may be mere keywords


def join_trees(trees: Sequence[Tree], name: str) -> Tree:
    """Join the runs that answer one question into one run.

    Example: run 1 searched, and run 2 asked a model "When did it open?" with the hits.
    The joined run has the question and answer of run 2, and the calls of both. The
    question may also come from another run than the answer: run 1 asks, run 2 answers.

    Args:
        trees: The runs, in the order in which they began. A single run is returned as
            it is.
        name: Why the runs belong together: ``FLOW`` for the runs of plain functions,
            ``THREAD`` for a run that stopped for a person and the runs that resumed it.
    """
    if len(trees) == 1:
        return trees[0]
    roots = [tree.root for tree in trees]
    # a model wrote a document in run 1; its copy in run 2 gets the same author
    copy_authors(roots)
    # a step that contains the runs
    joined_root = Node("step", name, roots[0].began, roots[-1].ended, roots)
    calls = Calls(Tree(joined_root))
    asking_run = _asking_run(trees, calls)
    answering_run = trees[-1]  # a resumed graph answers at its end
    if name == FLOW:
        answering_run = _answering_run(trees, calls, asking_run)
    joined = replace(_with_fields_of_all(answering_run, trees), root=joined_root)
    if asking_run is None:
        return joined
    return _with_question_of(asking_run, joined, calls)


def _with_question_of(asking_run: Tree, joined: Tree, calls: Calls) -> Tree:
    """Return a joined run with the question and history of the run that was asked.

    Args:
        asking_run: The run that the user asked.
        joined: All runs of the turn, joined.
        calls: The calls of all these runs.
    """
    joined = replace(
        joined,
        question=asking_run.question,
        question_place=asking_run.question_place,
        history=asking_run.history or joined.history,
    )
    if _encloses_query_of_others(asking_run, calls):
        return doubtful(joined, TOLD_MORE)
    return joined


def _with_fields_of_all(answering_run: Tree, trees: Sequence[Tree]) -> Tree:
    """Copy the answering run, and add what the other runs of its turn recorded.

    Example: run 1 searched and gave ``id="q7"``, run 2 answered. The copy has the answer
    of run 2, the id of run 1, and the doubts of both. Its question is None: the caller
    sets it.

    Args:
        answering_run: The run whose answer counts.
        trees: All runs of the turn, in the order in which they began.
    """
    given_fields: dict[str, Any] = {}  # the first run that gives a field counts
    documents_without_text: list[Document] = []
    doubts: list[str] = []
    for tree in trees:
        given_fields = {**tree.given_fields, **given_fields}
        documents_without_text += tree.documents_without_text
        doubts += tree.doubts
    # where paths such as contexts_from="docs" are looked up: in the last run first
    lookup_inputs: list[Any] = []
    lookup_outputs: list[Any] = []
    for tree in reversed(trees):
        lookup_inputs += tree.lookup_inputs
        lookup_outputs += tree.lookup_outputs
    return replace(
        answering_run,
        question=None,
        question_place="",
        error=answering_run.error or answering_run.root.error,
        gives_only_documents=all(tree.gives_only_documents for tree in trees),
        given_fields=given_fields,
        # retrieved documents whose texts were not recorded
        n_without_text=sum(tree.n_without_text for tree in trees),
        # documents that have no text, such as images
        documents_without_text=tuple(documents_without_text),
        doubts=tuple(dict.fromkeys(doubts)),
        lookup_inputs=tuple(lookup_inputs),
        lookup_outputs=tuple(lookup_outputs),
    )


def _asking_run(trees: Sequence[Tree], calls: Calls) -> Tree | None:
    """Return the first run whose question is the user's; None if there is none.

    Example: run 1 searches for "bridge opening year", which a model wrote; run 2 asks a
    model "When did the bridge open?": run 2 is returned. Left out are runs that are a
    search alone, and questions that a model wrote or that are cut from a document.
    """
    document_lines: set[str] = set()
    for documents in calls.lists():
        document_lines.update(as_one_line(document.text) for document in documents)
    retrievers = [node for node in calls.nodes if node.kind == "retriever"]
    queries = {as_one_line(retriever.query) for retriever in retrievers}
    for tree in trees:
        # a search alone does not count: its query may be a rewritten question
        if tree.question is None or tree.root.kind == "retriever":
            continue
        question = as_one_line(tree.question)
        if _was_written_by_model(tree, question, calls):
            continue
        # A script asks a model to sum up a document: the "question" of this run is cut
        # from the document's text. A question that somebody searched for is real.
        is_query = question in queries
        if is_query or not _is_cut_from_documents(question, document_lines):
            return tree
    return None


def _encloses_query_of_others(asking_run: Tree, calls: Calls) -> bool:
    """Return whether the question of a run holds another run's query and further words.

    The application searched for "When did the bridge open?", and asked a model "When
    did the bridge open? Answer in French.": which words are the user's is not certain.

    Args:
        asking_run: The run.
        calls: The calls of all runs of its turn.
    """
    queries = _queries_of_others(asking_run, calls)
    question = as_one_line(asking_run.question)
    if question in queries:  # searched for as it is: all words are the user's
        return False
    return any(_holds_words_of(question, query) for query in queries)


def _queries_of_others(asking_run: Tree, calls: Calls) -> set[str]:
    """Return what other runs searched for, in one line; no queries of models.

    Example: one run searched for "ferry times", and another run asked the question:
    ``{"ferry times"}``, unless a model wrote this query.
    """
    queries: set[str] = set()
    for node, path in calls.paths.items():
        is_of_another_run = asking_run.root not in path
        if node.kind != "retriever" or not node.query or not is_of_another_run:
            continue
        if not calls.is_written(node.query):
            queries.add(as_one_line(node.query))
    return queries


def _holds_words_of(question: str, query: str) -> bool:
    """Return whether all words of a query stand in a question, together or apart.

    A query of fewer than three words does not count: they may be mere keywords.
    """
    query_words = query.lower().split()
    if len(query_words) < _FEWEST_WORDS:
        return False
    return set(query_words) <= set(question.lower().split())


def _was_written_by_model(tree: Tree, question: str, calls: Calls) -> bool:
    """Return whether a model wrote the question of a run before the run began."""
    earlier_calls = [call for call in calls.models if began_after(tree.root, call)]
    return any(calls.replies[call].writes_query(question) for call in earlier_calls)


def _answering_run(
    trees: Sequence[Tree], calls: Calls, asking_run: Tree | None
) -> Tree:
    """Return the run of plain functions with the last call that looks like answering.

    Example: run 1 searched, run 2 wrote "In 1874." from the hits, and run 3 graded this
    with "yes": run 2. Calls that were shown the question go before other calls. Without
    such a call it is the last run.

    Args:
        trees: The runs of one turn.
        calls: Their calls.
        asking_run: The run that the user asked; None if the question may only stand in
            a prompt.
    """
    if asking_run is None:
        question = question_without_chain(calls)
    else:
        question = asking_run.question
    answering_call = calls.last_answer_to(question)
    if answering_call is not None:
        for tree in trees:
            if answering_call in tree.root.walk():
                return tree
    return trees[-1]


def _is_cut_from_documents(question: str, texts: Iterable[str]) -> bool:
    """Return whether a question is the text of documents, whole or a part of one.

    A script that sums up its hits gives these to a chain as the question.

    Args:
        question: The question.
        texts: The texts of the documents found, each in one line.
    """
    line = as_one_line(question)
    normalized = normalize_text(question)
    is_long_enough = len(normalized) >= EDGE
    for text in texts:
        holds_document = len(text) >= DISTINCTIVE_LENGTH and text in line
        if holds_document or (is_long_enough and normalized in normalize_text(text)):
            return True
    return False
