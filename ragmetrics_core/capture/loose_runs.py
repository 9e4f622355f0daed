"""Loose runs: they give no sample by themselves.

A later run may use what they wrote.
"""

from __future__ import annotations

from collections import OrderedDict

from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Tree

_MOST_TASKS = 1000
_MOST_OF_A_TASK = 8


class LooseRuns:
    """The latest loose runs of each task or thread, in bounded memory.

    A **loose** run gives no sample by itself: a rewriter of a question, a router, a
    title. A **task or thread** is the one of the application in which runs ran.
    """

    def __init__(self) -> None:
        # the task or thread with the latest run stands last
        self._runs_by_task_or_thread: OrderedDict[str, list[Tree]] = OrderedDict()

    def add(self, tree: Tree) -> None:
        """Keep a run, and forget the eldest where there are too many."""
        runs = self._runs_by_task_or_thread.setdefault(tree.task_or_thread, [])
        self._runs_by_task_or_thread.move_to_end(tree.task_or_thread)
        runs.append(tree)
        del runs[:-_MOST_OF_A_TASK]
        if len(self._runs_by_task_or_thread) > _MOST_TASKS:
            self._runs_by_task_or_thread.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._runs_by_task_or_thread.clear()

    def runs_near(self, task_or_thread: str) -> list[Tree]:
        """Return the loose runs of a task or thread, then those of the tasks or threads that ran last.

        Others count because searches for several queries at once run in threads of
        their own.
        """
        runs = list(self._runs_by_task_or_thread.get(task_or_thread, []))
        latest_tasks = list(self._runs_by_task_or_thread)[-_MOST_OF_A_TASK:]
        for other_task in latest_tasks:
            if other_task != task_or_thread:
                runs += self._runs_by_task_or_thread[other_task]
        return runs

    def take_writers_of(self, tree: Tree) -> list[Tree]:
        """Return the loose runs of a task or thread that wrote just what a run is asked.

        They wrote no other query, so that the user's own question stands in them. A
        writer that called a tool is forgotten here, since that call is made once. The
        others stay: a text may be asked again, of an engine and then of a retriever.
        """
        question = as_one_line(tree.question)
        if not question:
            return []
        runs = self._runs_by_task_or_thread.get(tree.task_or_thread, [])
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
        runs = self.runs_near(tree.task_or_thread)
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
