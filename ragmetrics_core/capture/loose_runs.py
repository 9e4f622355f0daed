"""Loose runs: they give no sample by themselves.

A later run may use what they wrote.
"""

from __future__ import annotations

from collections import OrderedDict

from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Tree

_MOST_STRANDS = 1000
_MOST_OF_A_STRAND = 8


class LooseRuns:
    """The latest loose runs of each strand, in bounded memory.

    A **loose** run gives no sample by itself: a rewriter of a question, a router, a
    title. A **strand** is the task or thread of the application in which runs ran.
    """

    def __init__(self) -> None:
        # the strand with the latest run stands last
        self._runs_by_strand: OrderedDict[str, list[Tree]] = OrderedDict()

    def add(self, tree: Tree) -> None:
        """Keep a run, and forget the eldest where there are too many."""
        runs = self._runs_by_strand.setdefault(tree.strand, [])
        self._runs_by_strand.move_to_end(tree.strand)
        runs.append(tree)
        del runs[:-_MOST_OF_A_STRAND]
        if len(self._runs_by_strand) > _MOST_STRANDS:
            self._runs_by_strand.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._runs_by_strand.clear()

    def runs_near(self, strand: str) -> list[Tree]:
        """Return the loose runs of a strand, then those of the strands that ran last.

        Others count because searches for several queries at once run in threads of
        their own.
        """
        runs = list(self._runs_by_strand.get(strand, []))
        latest_strands = list(self._runs_by_strand)[-_MOST_OF_A_STRAND:]
        for other_strand in latest_strands:
            if other_strand != strand:
                runs += self._runs_by_strand[other_strand]
        return runs

    def take_writers_of(self, tree: Tree) -> list[Tree]:
        """Return the loose runs of a strand that wrote just what a run is asked.

        They wrote no other query, so that the user's own question stands in them. A
        writer that called a tool is forgotten here, since that call is made once. The
        others stay: a text may be asked again, of an engine and then of a retriever.
        """
        question = as_one_line(tree.question)
        if not question:
            return []
        runs = self._runs_by_strand.get(tree.strand, [])
        writers = [run for run in runs if _writes_only_query(run, question)]
        for writer in writers:
            calls_tool = any(reply.arguments for reply in _replies(writer))
            if calls_tool:
                runs.remove(writer)
        return writers

    def writer_of_several(self, tree: Tree) -> Tree | None:
        """Return the last loose run that wrote what a run is asked; None if none did.

        That run may have written other questions, too.
        """
        question = as_one_line(tree.question)
        if not question:
            return None
        runs = self.runs_near(tree.strand)
        writers = [run for run in runs if writes_query(run, question)]
        return max(writers, key=lambda run: run.root.began, default=None)


def writes_query(tree: Tree, query: str | None) -> bool:
    """Whether a model of a run wrote a query, alone or among others."""
    return any(reply.writes_query(query) for reply in _replies(tree))


def _writes_only_query(tree: Tree, query: str) -> bool:
    """Whether a model of a run wrote a query and no other."""
    return any(reply.writes_only_query(query) for reply in _replies(tree))


def _replies(tree: Tree) -> list[Reply]:
    """What the models of a run said."""
    return [Reply(node.reply) for node in tree.root.walk() if node.kind == "model"]
