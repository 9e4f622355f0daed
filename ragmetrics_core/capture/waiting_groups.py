"""The groups that wait for further runs, and the rules by which a run joins one.

A group is the runs that belong to one question of the user (``run_group``). A run
joins a group if its prompt shows a document that the group found, an answer that the
group gave, or the group's question. The groups of one task or thread come before the
groups of others, since requests of other users run in other threads::

    thread 1   search "bridge"    finds "Opened in 1874."    a group begins
    thread 2   search "ferry"     finds "It runs hourly."    another group begins
    thread 1   a model is shown "Opened in 1874."            joins the first group
    thread 1   search "tower"                                the first group was answered
                                                             and is over: a sample
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.auxiliary_runs import writes_query
from ragmetrics_core.capture.calls import FREE_TEXT, Calls, end_of
from ragmetrics_core.capture.normalized_text import Text
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.run_group import (
    Prompts,
    RunGroup,
    ShownGroup,
    document_names,
    groups_that_run_joins,
)
from ragmetrics_core.capture.transcripts import (
    Quotation,
    quotation,
    surest_quotation,
)
from ragmetrics_core.capture.tree import Document, Message, Tree

_MOST_WAITING = 1000
_MOST_OF_OTHER_TASKS = 32
_LONGEST_WAIT_SECONDS = 60.0
_MAY_BE_A_TURN_OF_ITS_OWN = (
    "a later call was shown the answer and nothing that was found: it may be a turn of"
    " its own, or work on the answer"
)


_SEVERAL_WROTE = (
    "several models wrote what was searched for, at once: which of them it was searched"
    " for is not certain"
)


_SEARCHED_BEFORE = (
    "a search just before found what the answer was shown as well, and nothing answered"
    " from it: whether it was made for this question is not certain"
)


class WaitingGroups:
    """The groups that wait for further runs.

    The group that began to wait first stands first. Methods whose names begin with
    ``take`` remove the groups that they return.
    """

    def __init__(self) -> None:
        self._waiting: list[RunGroup] = []

    def __iter__(self) -> Iterator[RunGroup]:
        """Yield the groups as they would be if no further run came."""
        return iter(self._whole_groups(self._waiting))

    def clear(self) -> None:
        """Forget all groups."""
        self._waiting.clear()

    def add_retrieval(self, run: Tree, query: str, writers: Sequence[Tree]) -> None:
        """Put a retrieval that ran by itself into the group of its question.

        A new group begins where no group fits. The run that wrote the query joins, too.
        Example: a model wrote "bridge" and "ferry"; the searches for both, and the
        model's run, are one group.

        Args:
            run: The retrieval.
            query: The first text that it searched for, in one line.
            writers: Runs outside of groups in which a model wrote this query, such as a
                rewriter of the question.
        """
        possible_writers = self._possible_writers(run.task_or_thread, query, writers)
        query_writer = self._writer_of_search(possible_writers, query)
        group = self._group_to_continue(run, query, query_writer)
        if group is None:
            group = self._begin_group()
        if query_writer is not None and self._group_of(query_writer) is None:
            group.add_query_writers([query_writer])
        group.add(run, is_answered=False)
        if len(possible_writers) > 1:
            self._doubt_groups_of(possible_writers)

    def _doubt_groups_of(self, writers: Iterable[Tree]) -> None:
        """Put the groups of several runs in doubt that all wrote a search's query."""
        for query_writer in writers:
            group = self._group_of(query_writer)
            if group is not None:
                group.add_doubt(_SEVERAL_WROTE)

    def _possible_writers(
        self, task_or_thread: str, query: str, writers: Sequence[Tree]
    ) -> list[Tree]:
        """Return the runs that may have written the query of a search made now.

        That is the last writer in the task or thread of the search. If there is none,
        it is each writer whose query nobody answered from yet, else the last writer.
        Example: two threads wrote "ferry times", and a worker thread searches for it:
        both.

        Args:
            task_or_thread: The task or thread of the search.
            query: The query, in one line.
            writers: Runs outside of groups that wrote the query.
        """
        candidates = self._writers_by_begin(query, writers)
        of_the_same_task = [
            query_writer
            for query_writer in candidates
            if query_writer.task_or_thread == task_or_thread
        ]
        if of_the_same_task:
            return of_the_same_task[-1:]
        unanswered = [
            query_writer
            for query_writer in candidates
            if not self._is_answered(query_writer)
        ]
        return unanswered or candidates[-1:]

    def _writers_by_begin(self, query: str, writers: Sequence[Tree]) -> list[Tree]:
        """Return the given writers of a query and those in groups, the first to run first."""
        writer_by_root = {query_writer.root: query_writer for query_writer in writers}
        for group in self._waiting:
            for run in group.runs:
                if writes_query(run, query):
                    writer_by_root[run.root] = run
        return sorted(
            writer_by_root.values(), key=lambda query_writer: query_writer.root.began
        )

    def _is_answered(self, query_writer: Tree) -> bool:
        """Return whether a run answered from what was found for a writer's query."""
        group = self._group_of(query_writer)
        if group is None or group.answered_at is None:
            return False
        return group.answered_at > end_of(query_writer.root)

    def _writer_of_search(self, writers: Sequence[Tree], query: str) -> Tree | None:
        """Choose the one of several possible writers to which a search belongs.

        Returns:
            The first writer in whose group nobody searched for the query yet; if there
            is none, the last writer. None without writers.
        """
        for query_writer in writers:
            group = self._group_of(query_writer)
            if group is None or not group.searched_for(query):
                return query_writer
        return writers[-1] if writers else None

    def _group_of(self, run: Tree) -> RunGroup | None:
        """Return the group that holds a run; None if none does."""
        for group in self._waiting:
            if any(known_run.root is run.root for known_run in group.runs):
                return group
        return None

    def _begin_group(self) -> RunGroup:
        """Add a new group without runs, and return it."""
        group = RunGroup([])
        self._waiting.append(group)
        return group

    def add_part(self, run: Tree, query_writer: Tree) -> None:
        """Add a run that answers one of several questions that a model wrote.

        It joins the group of the run in which the model wrote them.

        Args:
            run: The run.
            query_writer: The run in which a model wrote its question.
        """
        group = self._group_of(query_writer)
        if group is None:
            group = self._begin_group()
        group.add_query_writers([query_writer])
        group.add_part(run)

    def _group_to_continue(
        self, run: Tree, query: str, query_writer: Tree | None
    ) -> RunGroup | None:
        """Find the group that a retrieval continues; None if it begins a new group.

        Args:
            run: The retrieval.
            query: The first text that it searched for, in one line.
            query_writer: The run that wrote the query; None if no such run is known.
        """
        giving_groups = self._groups_that_gave_inputs(run, query)
        if giving_groups:
            return self._unite(giving_groups)
        if query_writer is None:
            return None
        group_of_writer = self._group_of(query_writer)
        if group_of_writer is not None:
            return group_of_writer
        return self._group_of_further_query(run.task_or_thread, query_writer)

    def _group_of_further_query(
        self, task_or_thread: str, query_writer: Tree
    ) -> RunGroup | None:
        """Return the latest group whose first query a run was shown as it wrote another."""
        for group in self._groups_of(task_or_thread):
            if _was_shown_first_query(query_writer, group):
                return group
        return None

    def _groups_that_gave_inputs(self, run: Tree, query: str) -> list[RunGroup]:
        """Return the groups whose runs found the documents that a reranker was given.

        Groups of its own task or thread are looked at first; groups of others only
        where none of its own found any of the documents.

        Args:
            run: The run, such as a call of a reranker.
            query: What it was asked, in one line; empty if it was asked nothing.

        Returns:
            The groups; empty if the run was given no document of a group.
        """
        documents = run.root.input_documents
        groups_of_task = self._groups_of(run.task_or_thread)
        giving_groups = _groups_that_found(documents, query, groups_of_task)
        if giving_groups:
            return giving_groups
        groups_of_others = self._latest_of_other_tasks(run.task_or_thread)
        return _groups_that_found(documents, query, groups_of_others)

    def join(self, run: Tree, calls: Calls) -> RunGroup | None:
        """Add a model's run to the group of the question that it works on.

        Example: one run searched and found "Opened in 1874.". Now a model is shown
        "Opened in 1874." in its prompt: it joins the group of that search. A model that
        is shown the documents of two searches unites both groups.

        Args:
            run: The run.
            calls: Its calls.

        Returns:
            The group that now holds the run; None if its prompts show no group's
            documents, answer or question.
        """
        # for each group how the run's prompts quote its answer: "after its question" for
        # "When did it open? Draft: In 1874. Make it longer."
        quotation_by_group = self._quotations_of_open_groups(run, calls)
        # groups of the run's own thread come first: others may be of other users
        shown_groups = groups_that_run_joins(
            list(quotation_by_group), run.task_or_thread, Prompts.of(calls)
        )
        if not shown_groups:
            return None
        joined = self._unite([shown_group.group for shown_group in shown_groups])
        wrote_free_text = FREE_TEXT in calls.reply_forms.values()  # no grade or route
        joined.add(run, is_answered=wrote_free_text)
        joined.note_shown_to_model(_names_of_shown_documents(joined, shown_groups))
        for shown_group in shown_groups:
            if _may_be_a_new_turn(shown_group, quotation_by_group[shown_group.group]):
                joined.add_doubt(_MAY_BE_A_TURN_OF_ITS_OWN)
                break
        return joined

    def _quotations_of_open_groups(
        self, run: Tree, calls: Calls
    ) -> dict[RunGroup, Quotation]:
        """Return the groups that a run may work on, and how it quotes their answers.

        The answer of a group stands in the prompts of the run as a draft, say, or not
        at all. A group whose question is over, since the run asks something new, is left
        out.

        Args:
            run: The run.
            calls: Its calls.
        """
        groups = self._groups_of(run.task_or_thread)
        groups += self._latest_of_other_tasks(run.task_or_thread)
        messages = _messages_of_prompts(calls)
        quotation_by_group: dict[RunGroup, Quotation] = {}
        for group, kind in _quotations_of_last_answers(groups, messages).items():
            if not _asks_something_new(run, group, kind, messages):
                quotation_by_group[group] = kind
            elif kind == "assistant's last words":
                # no "User:" after "Assistant: In 1874.": it may also revise this answer
                group.add_doubt(_MAY_BE_A_TURN_OF_ITS_OWN)
        return quotation_by_group

    def _unite(self, groups: Sequence[RunGroup]) -> RunGroup:
        """Move the runs of several groups into the first of them, and return it.

        The other groups no longer wait.
        """
        first_group, *further_groups = groups
        first_group.take_over(further_groups)
        self._waiting = [
            group for group in self._waiting if group not in further_groups
        ]
        return first_group

    # Unread searches: a model was shown a document that such a search found, and another
    # search had found it, too. So the model's run joined the other one. Example: vectors
    # and key words were searched for "When did it open?", and both found the one page
    # that a model was shown.

    def _whole_groups(self, groups: Iterable[RunGroup]) -> list[RunGroup]:
        """Return groups as they would be if no further run came, with unread searches.

        An unread search that belongs to a group is not returned by itself.
        """
        owner_by_search = self._owner_by_search()
        whole_groups: list[RunGroup] = []
        for group in groups:
            if group in owner_by_search:
                continue
            unread = self._searches_beside(group, owner_by_search)
            own_searches = [search for search in unread if search in owner_by_search]
            whole_group = group.copy_with(own_searches) if unread else group
            if len(own_searches) < len(unread):
                whole_group.add_doubt(_SEARCHED_BEFORE)
            whole_groups.append(whole_group)
        return whole_groups

    def _owner_by_search(self) -> dict[RunGroup, RunGroup]:
        """Return the unread searches that belong to a waiting group, with that group.

        Such a search asked a query of the group, or was made after the group began.
        The first of several groups counts.
        """
        owner_by_search: dict[RunGroup, RunGroup] = {}
        for group in self._waiting:
            for search in self._unread_searches(group):
                asks_the_same = not search.queries.isdisjoint(group.queries)
                if asks_the_same or search.began > group.began:
                    owner_by_search.setdefault(search, group)
        return owner_by_search

    def _searches_beside(
        self, group: RunGroup, owner_by_search: Mapping[RunGroup, RunGroup]
    ) -> list[RunGroup]:
        """Return the unread searches of a group that belong to it, or to no group.

        A search of no group was made before, with another query: it may be of this
        question, or a question of its own.
        """
        return [
            search
            for search in self._unread_searches(group)
            if owner_by_search.get(search, group) is group
        ]

    def _unread_searches(self, group: RunGroup) -> list[RunGroup]:
        """Return the unread searches that found a document which the group's model was shown.

        They were made in its task or thread before its last run. Those before an
        earlier group that a model read are of an earlier question.
        """
        last_run = group.runs[-1]
        groups_of_task = self._groups_of(last_run.task_or_thread)
        earlier_begins = [
            other.began
            for other in groups_of_task
            if other.was_shown_to_model and other.began < group.began
        ]
        last_question_began = max(earlier_begins, default=-math.inf)
        return [
            other
            for other in groups_of_task
            if last_question_began < other.began < last_run.root.began
            and not other.was_shown_to_model
            and not other.document_names.isdisjoint(group.names_shown_to_model)
        ]

    def take_over_due(
        self, task_or_thread: str | None = None, query: str = ""
    ) -> list[RunGroup]:
        """Remove and return the groups that no further run will join, the oldest first.

        Args:
            task_or_thread: The task or thread in which a search begins now; None where
                no search begins.
            query: The text that is searched for, in one line.
        """
        owner_by_search = self._owner_by_search()
        due: list[RunGroup] = []
        for group in self._due_groups(task_or_thread, query):
            if group not in owner_by_search:
                # no run will join what was found beside it, either
                due += [group, *self._searches_beside(group, owner_by_search)]
        whole_groups = self._whole_groups(dict.fromkeys(due))
        self._waiting = [group for group in self._waiting if group not in due]
        return whole_groups

    def _due_groups(self, task_or_thread: str | None, query: str) -> list[RunGroup]:
        """Return the groups that no later run will join: their samples are due.

        Example: a search for "bridge" and the model that answered from it are a group.
        Now the same thread searches for "ferry": the group of "bridge" is due.

        Args:
            task_or_thread: The task or thread that searches now; None if none does.
            query: What it searches for, in one line.
        """
        now = time.monotonic()
        due: list[RunGroup] = []
        due_with_same_query: list[RunGroup] = []
        for group in self._waiting:
            if now - group.last_added_at > _LONGEST_WAIT_SECONDS:
                due.append(group)
            elif _is_followed_by_search(group, task_or_thread, query):
                # "bridge" again: the new search may be made to revise the answer
                if group.searched_for(query):
                    due_with_same_query.append(group)
                else:
                    due.append(group)
        # the new search may be made to revise the answer of the newest of these groups:
        # this group waits on, and the older ones are due
        due += due_with_same_query[:-1]
        return sorted(due, key=lambda group: group.began)

    def take_too_many(self) -> list[RunGroup]:
        """Remove and return the groups that wait longest, where too many wait."""
        n_too_many = max(0, len(self._waiting) - _MOST_WAITING)
        given_up = self._waiting[:n_too_many]
        del self._waiting[:n_too_many]
        return given_up

    def _groups_of(self, task_or_thread: str) -> list[RunGroup]:
        """Return the groups that hold a run of a task or thread, the latest first."""
        latest_first = self._waiting[::-1]
        return [group for group in latest_first if group.has_run_of(task_or_thread)]

    def _latest_of_other_tasks(self, task_or_thread: str) -> list[RunGroup]:
        """Return the latest groups without a run of a task or thread, the latest first."""
        latest = self._waiting[: -_MOST_OF_OTHER_TASKS - 1 : -1]
        return [group for group in latest if not group.has_run_of(task_or_thread)]


def _is_followed_by_search(
    group: RunGroup, task_or_thread: str | None, query: str
) -> bool:
    """Return whether a group was answered and a search begins in its task or thread.

    A search whose query a model of the group wrote belongs to the group: False.
    """
    if group.answered_at is None or task_or_thread is None:
        return False
    is_same_task = group.runs[-1].task_or_thread == task_or_thread
    return is_same_task and not group.writes_query(query)


def _may_be_a_new_turn(shown_group: ShownGroup, quotation_of_answer: Quotation) -> bool:
    """Return whether a run may be a turn of its own, after the question of a group.

    Its prompts show the group's answer right after its question, and no document of the
    group: "Question: When did it open? Draft: In 1874. Make it longer." It may also
    revise the answer: nobody can tell.
    """
    is_after_question = quotation_of_answer == "after its question"
    return is_after_question and not shown_group.shows_documents


def _groups_that_found(
    documents: Iterable[Document], query: str, groups: Sequence[RunGroup]
) -> list[RunGroup]:
    """Return the groups whose searches found the documents given to a reranker.

    Example: a vector search found A and B, and a keyword search found C. A reranker is
    given A, B and C: both searches are returned.

    Args:
        documents: The documents that the reranker was given.
        query: The reranker's query, in one line; it may be empty.
        groups: The groups to choose from, the latest first. Each is the runs of one
            question; each search begins a group.
    """
    names = document_names(documents)
    giving_groups = [
        group for group in groups if not names.isdisjoint(group.document_names)
    ]
    unanswered = [group for group in giving_groups if group.answered_at is None]
    # those with the reranker's query first; the sort leaves the latest first otherwise
    candidates = sorted(
        unanswered or giving_groups, key=lambda group: not group.searched_for(query)
    )
    missing_names = set(names)
    groups_found: list[RunGroup] = []
    for group in candidates:
        if missing_names:  # until all documents were found
            groups_found.append(group)
            missing_names -= group.document_names
    return groups_found


def _names_of_shown_documents(
    group: RunGroup, shown_groups: Iterable[ShownGroup]
) -> set[str]:
    """Return the ids of a group's documents that prompts show; without an id the text.

    Args:
        group: The group.
        shown_groups: What the prompts show of the groups that were united into it.
    """
    texts_shown: set[str] = set()
    for shown_group in shown_groups:
        texts_shown |= shown_group.texts
    documents_shown = []
    for document in group.documents:
        if not texts_shown.isdisjoint(document.texts):
            documents_shown.append(document)
    return document_names(documents_shown)


def _was_shown_first_query(query_writer: Tree, group: RunGroup) -> bool:
    """Return whether the prompts of a run hold the first query of a group.

    The queries that such a run writes are further queries for that group: a search for
    "bridge" found nothing, and a model that is shown "bridge" writes "old bridge".
    """
    queried_nodes = [node for node in group.nodes if node.query]
    if not queried_nodes:
        return False
    first_node = min(queried_nodes, key=lambda node: node.began)
    lines_shown = []
    for node in query_writer.root.walk():
        lines_shown += [as_one_line(message.text) for message in node.prompt]
    return as_one_line(first_node.query) in "\n".join(lines_shown)


def _asks_something_new(
    run: Tree,
    group: RunGroup,
    quotation_of_answer: Quotation,
    messages: Sequence[Message],
) -> bool:
    r"""Return whether a run asks something new, so that a group's question is over.

    Example: the group answered "In 1874.", and the prompt of the run is "User: When did
    it open?\nAssistant: In 1874.\nUser: And the ferry?".

    Args:
        run: The run.
        group: The group.
        quotation_of_answer: How the prompts of the run quote the group's last answer.
        messages: The messages that the models of the run were shown.
    """
    if _is_answer_an_earlier_turn(group, quotation_of_answer, messages, run.question):
        return True
    is_quoted = quotation_of_answer != "absent"
    return not is_quoted and _asks_of_kept_documents(run, group, messages)


def _is_answer_an_earlier_turn(
    group: RunGroup,
    quotation_of_answer: Quotation,
    messages: Iterable[Message],
    question: str | None,
) -> bool:
    """Return whether prompts hold the answer of a group as an earlier assistant turn.

    The conversation has then moved on from the group's question.

    Args:
        group: The group.
        quotation_of_answer: How the prompts quote its last answer.
        messages: The messages of the prompts.
        question: What the run of the prompts was asked; None if that is unknown.
    """
    assistant_lines = {
        as_one_line(message.text) for message in messages if message.role == "assistant"
    }
    if not group.answers.isdisjoint(assistant_lines):
        return True
    if quotation_of_answer not in ("earlier turn", "assistant's last words"):
        return False
    # "Q: … A: …" may also be the parts of the user's question with their answers, which
    # a model is to put together
    return not group.was_split_from(question)


def _asks_of_kept_documents(
    run: Tree, group: RunGroup, messages: Iterable[Message]
) -> bool:
    """Return whether a run asks a new question of documents that the application kept.

    The application keeps what an answered group found, and hands the documents in again
    with the user's next question: "And who built it?" after "When did it open?". No
    question of the group stands in the prompts then.

    Args:
        run: The run.
        group: The group.
        messages: The messages that the models of the run were shown.
    """
    if run.question is None or group.answered_at is None:
        return False
    if group.document_names.isdisjoint(document_names(run.root.input_documents)):
        return False
    prompts = "\n".join(message.text for message in messages)
    return not any(question in prompts for question in group.questions)


def _messages_of_prompts(calls: Calls) -> list[Message]:
    """Return the messages that the models of a run were shown, call by call."""
    messages: list[Message] = []
    for call in calls.models:
        messages += call.prompt
    return messages


def _quotations_of_last_answers(
    groups: Iterable[RunGroup], messages: Iterable[Message]
) -> dict[RunGroup, Quotation]:
    """Say for each group how the messages of a run's prompts quote its last answer.

    Where several messages hold the answer, the surest kind counts: "earlier turn" goes
    before "among other words".
    """
    texts = [Text(message.text) for message in messages]
    quotation_by_group: dict[RunGroup, Quotation] = {}
    for group in groups:
        quotations = [
            quotation(group.last_answer, group.questions, text) for text in texts
        ]
        quotation_by_group[group] = surest_quotation(quotations)
    return quotation_by_group
