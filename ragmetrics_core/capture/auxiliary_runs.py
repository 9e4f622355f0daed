"""Auxiliary runs: runs of a model that give no sample, and whose text a later run uses.

An application may have a model rewrite the question before it searches::

    run 1   a model is shown "And when was it painted?", and writes
            "When was the bridge painted?"                       an auxiliary run
    run 2   a retriever is asked "When was the bridge painted?"

Run 2 finds run 1 here by its query. So the two are one sample, with the user's own
question. Routers and runs that write a title are kept as well: nobody knows before
which text will be searched for.
"""

from __future__ import annotations

from collections import OrderedDict

from ragmetrics_core.capture.calls import Reply
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Tree

_MOST_TASKS = 1000
_MOST_OF_A_TASK = 8


class AuxiliaryRuns:
    """The latest auxiliary runs of each task or thread, in bounded memory.

    An **auxiliary run** gives no sample by itself: it rewrote the question, or chose a
    route. A **task or thread** is the one of the application in which runs ran.
    """

    def __init__(self) -> None:
        # the task or thread with the latest run stands last
        self._runs_by_task_or_thread: OrderedDict[str, list[Tree]] = OrderedDict()

    def add(self, tree: Tree) -> None:
        """Keep a run; forget the oldest runs, and the oldest task, beyond a limit."""
        runs = self._runs_by_task_or_thread.setdefault(tree.task_or_thread, [])
        self._runs_by_task_or_thread.move_to_end(tree.task_or_thread)
        runs.append(tree)
        del runs[:-_MOST_OF_A_TASK]
        if len(self._runs_by_task_or_thread) > _MOST_TASKS:
            self._runs_by_task_or_thread.popitem(last=False)

    def clear(self) -> None:
        """Forget all runs."""
        self._runs_by_task_or_thread.clear()

    def runs_near(self, task_or_thread: str) -> list[Tree]:
        """Return the runs of a task or thread, then those of the tasks that ran last.

        Other tasks and threads count because an application that searches for several
        queries at once does so in threads of their own.
        """
        runs = list(self._runs_by_task_or_thread.get(task_or_thread, []))
        latest_tasks = list(self._runs_by_task_or_thread)[-_MOST_OF_A_TASK:]
        for other_task in latest_tasks:
            if other_task != task_or_thread:
                runs += self._runs_by_task_or_thread[other_task]
        return runs

    def writers_of_query(self, query: str, task_or_thread: str) -> list[Tree]:
        """Return the runs whose models wrote a query, perhaps beside other queries.

        Args:
            query: The query, in one line.
            task_or_thread: Where it is asked. Runs of other tasks stand behind its own.
        """
        runs = self.runs_near(task_or_thread)
        return [run for run in runs if writes_query(run, query)]

    def take_writers_of(self, tree: Tree) -> list[Tree]:
        """Return the runs of the same task whose models wrote the question of a run.

        Runs that wrote several queries are left out: which of them is the user's
        question is not known. A writer that called a tool is removed, since its call is
        made only once. A rewritten question may be asked several times.
        """
        question = as_one_line(tree.question)
        if not question:
            return []
        runs = self._runs_by_task_or_thread.get(tree.task_or_thread, [])
        writers = [run for run in runs if _writes_only_query(run, question)]
        for query_writer in writers:
            calls_tool = any(reply.arguments for reply in _replies(query_writer))
            if calls_tool:
                runs.remove(query_writer)
        return writers

    def writer_of_several(self, tree: Tree) -> Tree | None:
        """Return the last run whose model wrote the question of a run.

        The model may have written other questions as well: it split the user's.

        Returns:
            The run; None if no kept run wrote the question.
        """
        question = as_one_line(tree.question)
        if not question:
            return None
        writers = self.writers_of_query(question, tree.task_or_thread)
        return max(writers, key=lambda run: run.root.began, default=None)


def writes_query(tree: Tree, query: str | None) -> bool:
    """Return whether a model of a run wrote a query, alone or among others."""
    return any(reply.writes_query(query) for reply in _replies(tree))


def _writes_only_query(tree: Tree, query: str) -> bool:
    """Return whether a model of a run wrote a query and no other query."""
    return any(reply.writes_only_query(query) for reply in _replies(tree))


def _replies(tree: Tree) -> list[Reply]:
    """The replies of the models of a run."""
    return [Reply(node.reply) for node in tree.root.walk() if node.kind == "model"]
