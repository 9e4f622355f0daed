"""Several runs of one turn as one run, before the stages read it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.locating import OWN
from ragmetrics_core.capture.passages import EDGE
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.question import TOLD_MORE, question_without_chain
from ragmetrics_core.capture.tree import FLOW, Node, Tree
from ragmetrics_core.capture.written import hand_on_authors

_FEWEST_WORDS = 3


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
    asking = _asking(trees, calls)
    question = question_without_chain(calls) if asking is None else asking.question
    last = _answering(trees, calls, question) if name == FLOW else trees[-1]
    doubts = [doubt for tree in trees for doubt in tree.doubts]
    whole = _unite_trees(last, trees)
    if asking is not None:
        whole.question, whole.asked_at = asking.question, asking.asked_at
        whole.history = asking.history or last.history
        if _was_told_more(asking, calls):
            doubts.append(TOLD_MORE)
    return replace(whole, root=root, doubts=tuple(dict.fromkeys(doubts)))


def _unite_trees(last: Tree, trees: Sequence[Tree]) -> Tree:
    """The run that answered, without a question, and with what all runs of its turn hold.

    Places of the latest run go first; of fields that the calls say, the first one counts.
    """
    given: dict[str, Any] = {}
    for tree in trees:
        given = {**tree.given, **given}
    return replace(
        last,
        question=None,
        asked_at="",
        error=last.error or last.root.error,
        gives_documents=all(tree.gives_documents for tree in trees),
        given=given,
        unread=sum(tree.unread for tree in trees),
        other=tuple(document for tree in trees for document in tree.other),
        places=tuple(place for tree in reversed(trees) for place in tree.places),
        results=tuple(result for tree in reversed(trees) for result in tree.results),
    )


def _asking(trees: Sequence[Tree], calls: Calls) -> Tree | None:
    """The first run whose question is the user's; None if there is none.

    No model wrote that question, and it is not made of what was found before.
    """
    found = {
        as_one_line(document.text)
        for documents in calls.lists()
        for document in documents
    }
    queries = {
        as_one_line(node.query) for node in calls.nodes if node.kind == "retriever"
    }
    for tree in trees:
        if tree.question is None or tree.root.kind == "retriever":
            continue
        question = as_one_line(tree.question)
        if _is_written_before(tree, question, calls):
            continue
        # what was searched for is a question even where documents repeat it
        if question in queries or not _is_made_of_documents(question, found):
            return tree
    return None


def _was_told_more(asking: Tree, calls: Calls) -> bool:
    """Whether a run was asked a text around what was searched for beside it.

    The text may add a language, or the talk so far.
    """
    beside = [
        node.query
        for node in calls.nodes
        if node.kind == "retriever"
        and node.query
        and asking.root not in calls.paths[node]
    ]
    question = as_one_line(asking.question)
    queries = {as_one_line(query) for query in beside if not calls.is_written(query)}
    if question in queries:
        return False
    return any(_stands_around(question, query) for query in queries)


def _stands_around(question: str, query: str) -> bool:
    """Whether all words of a query stand in a question, together or apart.

    A query of fewer than three words does not count: they may be mere keywords.
    """
    words = query.lower().split()
    return len(words) >= _FEWEST_WORDS and set(words) <= set(question.lower().split())


def _is_written_before(tree: Tree, question: str, calls: Calls) -> bool:
    """Whether a model wrote what a run is asked, before it was asked."""
    earlier = [call for call in calls.models if end_of(call) <= tree.root.began]
    return any(calls.replies[call].writes_query(question) for call in earlier)


def _answering(trees: Sequence[Tree], calls: Calls, question: str | None) -> Tree:
    """The run that answers: it holds the last call that looks like answering.

    Calls that were shown the question go before others. Without such calls it is the
    last run.
    """
    likely = [*calls.likely, *calls.filter_by_question(question, calls.likely)]
    if not likely:
        return trees[-1]
    return next((tree for tree in trees if likely[-1] in tree.root.walk()), trees[-1])


def _is_made_of_documents(question: str, texts: Iterable[str]) -> bool:
    """Whether what a chain was given is what was found before, whole or cut.

    A script that sums up its hits hands these in as the question.
    """
    line, letters = as_one_line(question), stream(question)
    return any(
        (len(text) >= OWN and text in line)
        or (len(letters) >= EDGE and letters in stream(text))
        for text in texts
    )
