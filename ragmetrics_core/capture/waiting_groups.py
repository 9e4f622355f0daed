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

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.auxiliary_runs import writes_query
from ragmetrics_core.capture.calls import FREE_TEXT, Calls, end_of
from ragmetrics_core.capture.letters import Text
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.run_group import (
    Prompts,
    RunGroup,
    ShownGroup,
    document_names,
    groups_that_run_joins,
)
from ragmetrics_core.capture.transcripts import QUOTATIONS, Quotation, quotation
from ragmetrics_core.capture.tree import Document, Node, Tree

_MOST_WAITING = 1000
_MOST_OF_OTHER_TASKS = 32
_LONGEST_WAIT_SECONDS = 60.0
_MAY_GO_ON = (
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
        return iter(self._with_sibling_searches(self._waiting))

    def clear(self) -> None:
        """Forget all groups."""
        self._waiting.clear()

    def add_retrieval(self, run: Tree, query: str, writers: Sequence[Tree]) -> None:
        """Put a retrieval that ran by itself into the group of its question.

        A group is all runs of one question. A new group begins where no group fits. The
        **writer** of a query is the run in which a model wrote it, such as a rewriter of
        the question. The writer joins the group, too.

        Several runs may have written the same query. Then the retrieval belongs to the
        first writer whose group did not search for the query yet, and the groups of all
        writers are put in doubt.

        Args:
            run: The retrieval.
            query: What it searched for first, in one line.
            writers: The auxiliary runs, which have no sample of their own, in which a
                model wrote this query.
        """
        possible_writers = self._possible_writers(run.task_or_thread, query, writers)
        writer = self._writer_of_search(possible_writers, query)
        group = self._group_to_continue(run, query, writer)
        if group is None:
            group = self._begin_group()
        if writer is not None:
            group.add_query_writers([writer])
        group.add(run, is_answered=False)
        if len(possible_writers) <= 1:
            return
        for possible_writer in possible_writers:
            group_of_writer = self._group_of(possible_writer)
            if group_of_writer is not None:
                group_of_writer.doubt(_SEVERAL_WROTE)

    def _possible_writers(
        self, task_or_thread: str, query: str, writers: Sequence[Tree]
    ) -> list[Tree]:
        """Return the runs that may have written the query of a search made now.

        Candidates are the given runs and the runs of waiting groups whose models wrote
        the query. Of these it is

            - the last one that ran in the task or thread of the search, alone;
            - without such a run, all whose query was not answered from yet;
            - without these either, the last candidate, alone.

        Args:
            task_or_thread: The task or thread in which the search ran.
            query: The query, in one line.
            writers: Runs outside of groups that wrote the query.

        Returns:
            The runs, the first to run first; empty without candidates.
        """
        writer_by_root = {writer.root: writer for writer in writers}
        for group in self._waiting:
            for run in group.runs:
                if writes_query(run, query):
                    writer_by_root[run.root] = run
        candidates = sorted(
            writer_by_root.values(), key=lambda writer: writer.root.began
        )
        of_the_same_task = [
            writer for writer in candidates if writer.task_or_thread == task_or_thread
        ]
        if of_the_same_task:
            return of_the_same_task[-1:]
        unanswered = [writer for writer in candidates if not self._is_answered(writer)]
        return unanswered or candidates[-1:]

    def _is_answered(self, writer: Tree) -> bool:
        """Return whether a run answered from what was found for a writer's query."""
        group = self._group_of(writer)
        if group is None or group.answered_at is None:
            return False
        return group.answered_at > end_of(writer.root)

    def _writer_of_search(self, writers: Sequence[Tree], query: str) -> Tree | None:
        """Choose the one of several possible writers to which a search belongs.

        Returns:
            The first writer in whose group nobody searched for the query yet; if there
            is none, the last writer. None without writers.
        """
        for writer in writers:
            group = self._group_of(writer)
            if group is None or not group.searched_for(query):
                return writer
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

    def add_part(self, run: Tree, writer: Tree) -> None:
        """Add a run that answers one of several questions that a model wrote.

        It joins the group of the run in which the model wrote them.

        Args:
            run: The run.
            writer: The run in which a model wrote its question.
        """
        group = self._group_of(writer)
        if group is None:
            group = self._begin_group()
        group.add_query_writers([writer])
        group.add_part(run)

    def _group_to_continue(
        self, run: Tree, query: str, writer: Tree | None
    ) -> RunGroup | None:
        """Find the group that a retrieval continues.

        The cases are tried in this order:

            1. The application called a reranker itself, and gave it documents that
               groups found. These groups and the group of the writer become one. Its
               sibling searches are noted: further searches of the same question, whose
               results no model read. They are recognised by finding the same documents
               at about the same time.
            2. The run that wrote the query is in a group.
            3. The run that wrote the query was shown the first query of a group, and
               the query is a new one: a further search for that group's question.

        Args:
            run: The retrieval.
            query: What it searched for first, in one line.
            writer: The run that wrote the query; None if no such run is known.

        Returns:
            The group; None if the retrieval begins a new one.
        """
        group_of_writer = None if writer is None else self._group_of(writer)
        giving_groups = self._groups_that_gave_inputs(run, query)
        if giving_groups:
            if group_of_writer is not None and group_of_writer not in giving_groups:
                giving_groups.append(group_of_writer)
            group = self._unite(giving_groups)
            input_names = document_names(run.root.input_documents)
            group.sibling_searches += self._sibling_searches_of(group, input_names)
            return group
        if group_of_writer is not None:
            return group_of_writer
        if writer is None:
            return None
        for group in self._groups_of(run.task_or_thread):
            is_new_query = not group.searched_for(query)
            if is_new_query and _was_shown_first_query(writer, group):
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
        """Add a run to the groups whose documents, answers or questions it was shown.

        A group is the runs of one question. The steps:

            1. Groups that the run does not continue are left out. An application with a
               memory shows the answer of an earlier question as an earlier turn of the
               conversation. If nobody speaks after that answer ("assistant's last
               words"), the answer may be a draft that the run revises. The group is
               left out all the same, and gets a doubt.
            2. The groups that the run was shown become one, and the run joins it.
            3. Sibling searches are noted: further searches of the same question, whose
               results no model read. They are recognised by finding documents that the
               run was shown, at about the same time.
            4. The group gets a doubt if the prompts show an answer of it right behind
               its question ("after its question"), and none of its documents. The run
               may revise that answer, or be a turn of its own.

        A doubt becomes a warning of the group's sample. ``Quotation`` lists the ways in
        which a prompt quotes an answer.

        Args:
            run: The run.
            calls: Its calls.

        Returns:
            The group that now holds the run; None if the run was shown no group.
        """
        groups_of_task = self._groups_of(run.task_or_thread)
        groups_of_others = self._latest_of_other_tasks(run.task_or_thread)
        quotation_by_group = _quotations_of_last_answers(
            [*groups_of_task, *groups_of_others], calls
        )
        groups_not_continued = _groups_not_continued(quotation_by_group, run, calls)
        for group in groups_not_continued:
            may_be_draft = quotation_by_group[group] == "assistant's last words"
            if may_be_draft:
                group.doubt(_MAY_GO_ON)
        shown_groups = groups_that_run_joins(
            [group for group in groups_of_task if group not in groups_not_continued],
            [group for group in groups_of_others if group not in groups_not_continued],
            Prompts.of(calls),
        )
        if not shown_groups:
            return None
        joined = self._unite([shown_group.group for shown_group in shown_groups])
        names_shown = _names_of_shown_documents(joined, shown_groups)
        joined.sibling_searches += self._sibling_searches_of(joined, names_shown)
        # a grade or a route is no free text, and answers nothing
        wrote_text = FREE_TEXT in calls.reply_forms.values()
        joined.add(run, is_answered=wrote_text)
        joined.was_read = True  # a model was shown what was found
        for shown_group in shown_groups:
            quotation_of_answer = quotation_by_group[shown_group.group]
            is_after_question = quotation_of_answer == "after its question"
            if is_after_question and not shown_group.shows_documents:
                joined.doubt(_MAY_GO_ON)
        return joined

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

    def _sibling_searches_of(
        self, group: RunGroup, names: Collection[str]
    ) -> list[RunGroup]:
        """Find searches near a group that found the same documents and were not read.

        An application may search twice for one question, and show a model what both
        searches found. The groups of the task or thread are gone through from the latest
        to the earliest:

            - A group that is overtaken is skipped: it was made before a question that is
              over by now.
            - Of the groups that began after the given one, all fitting ones are taken.
            - Of the groups that began before it, fitting ones are taken up to the first
              that does not fit: something else happened in between.

        Args:
            group: The group.
            names: The documents that a model or a reranker was given for the group: ids,
                or texts of documents without id.

        Returns:
            The searches, each a group of its own.
        """
        groups_of_task = self._groups_of(group.runs[-1].task_or_thread)
        groups_of_task.sort(key=lambda other: other.began, reverse=True)
        siblings: list[RunGroup] = []
        for other in groups_of_task:
            if other is group or other.is_overtaken:
                continue
            found_the_same = not other.document_names.isdisjoint(names)
            if found_the_same and not other.was_read:
                siblings.append(other)
            elif other.began < group.began:
                break
        return siblings

    def _with_sibling_searches(self, groups: Sequence[RunGroup]) -> list[RunGroup]:
        """Return groups in the state that they would have if no further run came.

        Each group then holds its unread siblings. A **sibling** is a search near a group
        that found some of the same documents, and that no model has read. An application
        may search twice for one question, and show what both searches found.

            - A sibling that asked the same query, or was made after the group began,
              belongs to the group. It is not returned by itself.
            - Any other sibling may be a question of its own. It stays a group, and the
              group beside it is put in doubt.

        Args:
            groups: The groups; they are not changed.

        Returns:
            The groups, or copies of them where siblings or a doubt were added.
        """
        # the group to which a sibling belongs; the first of several counts
        owner_by_sibling: dict[RunGroup, RunGroup] = {}
        for group in self._waiting:
            for sibling in self._unread_siblings(group):
                asks_the_same = not sibling.queries.isdisjoint(group.queries)
                if asks_the_same or sibling.began > group.began:
                    owner_by_sibling.setdefault(sibling, group)
        whole_groups: list[RunGroup] = []
        for group in groups:
            if group in owner_by_sibling:  # its owner holds it
                continue
            own_siblings: list[RunGroup] = []
            for sibling, owner in owner_by_sibling.items():
                if owner is group:
                    own_siblings.append(sibling)
            has_sibling_without_owner = any(
                sibling not in owner_by_sibling
                for sibling in self._unread_siblings(group)
            )
            whole_group = group
            if own_siblings or has_sibling_without_owner:
                whole_group = group.copy_with(own_siblings)
            if has_sibling_without_owner:
                whole_group.doubt(_SEARCHED_BEFORE)
            whole_groups.append(whole_group)
        return whole_groups

    def _unread_siblings(self, group: RunGroup) -> list[RunGroup]:
        """Return the sibling searches of a group that still wait and were never read."""
        waiting = [
            sibling for sibling in group.sibling_searches if sibling in self._waiting
        ]
        return [sibling for sibling in waiting if not sibling.was_read]

    def take_over_due(
        self, task_or_thread: str | None = None, query: str = ""
    ) -> list[RunGroup]:
        """Remove and return the groups that no further run will join, the oldest first.

        A group, the runs of one question, is due

            - if no run joined it for a minute;
            - or if it was answered, and a search begins now in its task or thread.

        The second case has two exceptions. A group goes on waiting

            - if one of its models wrote the query of that search;
            - if it is the last of the answered groups that searched for the same query:
              its answer may be a draft, and the search is made to revise it.

        A group returned holds its sibling searches: searches nearby that found some of
        the same documents, and that no model read. Groups of its task or thread that
        still wait and began before its last run are marked as overtaken: they are
        siblings of no later group.

        Args:
            task_or_thread: The task or thread in which a search begins now; None where
                no search begins.
            query: What is searched for, in one line.
        """
        now = time.monotonic()
        due: list[RunGroup] = []
        due_with_same_query: list[RunGroup] = []
        for group in self._waiting:
            if now - group.last_added_at > _LONGEST_WAIT_SECONDS:
                due.append(group)
            elif _is_followed_by_search(group, task_or_thread, query):
                if group.searched_for(query):
                    due_with_same_query.append(group)
                else:
                    due.append(group)
        due += due_with_same_query[:-1]
        due.sort(key=lambda group: group.began)
        whole_groups = self._with_sibling_searches(due)
        self._remove_runs_of(whole_groups)
        for whole_group in whole_groups:
            self._mark_groups_begun_before(whole_group.runs[-1])
        return whole_groups

    def _remove_runs_of(self, groups: Iterable[RunGroup]) -> None:
        """Remove the waiting groups whose runs some other groups hold."""
        roots_taken: set[Node] = set()
        for group in groups:
            roots_taken.update(run.root for run in group.runs)
        self._waiting = [
            group for group in self._waiting if group.runs[0].root not in roots_taken
        ]

    def _mark_groups_begun_before(self, last_run: Tree) -> None:
        """Mark waiting groups as overtaken by a group that is over.

        These are the groups of its task or thread that began before its last run.

        Args:
            last_run: The last run of the group that is over.
        """
        for group in self._groups_of(last_run.task_or_thread):
            if group.began < last_run.root.began:
                group.is_overtaken = True

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

    A search with a query that a model of the group wrote belongs to the group: False.

    Args:
        group: The group.
        task_or_thread: The task or thread in which a search begins; None where no
            search begins.
        query: What is searched for, in one line.
    """
    if group.answered_at is None or task_or_thread is None:
        return False
    is_same_task = group.runs[-1].task_or_thread == task_or_thread
    return is_same_task and not group.writes_query(query)


def _groups_that_found(
    documents: Iterable[Document], query: str, groups: Sequence[RunGroup]
) -> list[RunGroup]:
    """Return the groups from which the documents of a reranker come.

    A group holds the searches and model calls that belong to one question. Here the
    application called a reranker itself, so that nothing else tells its question.

    Only groups whose question has no answer yet are taken, if there are any. They are
    taken in turn until each document is accounted for: at first those that searched for
    the reranker's query, then the others, each time the latest first. If all groups have
    their answers, only the latest group is taken.

    Args:
        documents: What the reranker was given.
        query: What it was asked, in one line; empty if it was asked nothing.
        groups: The groups of one thread or task, the latest first.

    Returns:
        The groups; empty if none of them returned any of the documents.
    """
    missing_names = document_names(documents)  # of documents not accounted for
    giving_groups = [
        group for group in groups if not missing_names.isdisjoint(group.document_names)
    ]
    waiting = [group for group in giving_groups if group.answered_at is None]
    if not waiting:
        return giving_groups[:1]  # the latest one, or none
    # Those that searched for the query come first, since False sorts before True. The
    # sort is stable: the latest stay first.
    waiting.sort(key=lambda group: not group.searched_for(query))
    chosen: list[RunGroup] = []
    for group in waiting:
        if missing_names:
            chosen.append(group)
            missing_names -= group.document_names
    return chosen


def _names_of_shown_documents(
    group: RunGroup, shown_groups: Iterable[ShownGroup]
) -> set[str]:
    """Return the ids of a group's documents that prompts show; without an id the text.

    Args:
        group: The group.
        shown_groups: What the prompts show of the groups of which it is made.
    """
    texts_shown: set[str] = set()
    for shown_group in shown_groups:
        texts_shown |= shown_group.texts
    documents_shown = []
    for document in group.documents:
        if not texts_shown.isdisjoint(document.texts):
            documents_shown.append(document)
    return document_names(documents_shown)


def _was_shown_first_query(writer: Tree, group: RunGroup) -> bool:
    """Return whether the prompts of a run hold the first query of a group.

    The queries that such a run writes are further queries for that group.
    """
    queried_nodes = [node for node in group.nodes if node.query]
    if not queried_nodes:
        return False
    first_node = min(queried_nodes, key=lambda node: node.began)
    lines_shown = []
    for node in writer.root.walk():
        lines_shown += [as_one_line(message.text) for message in node.prompt]
    return as_one_line(first_node.query) in "\n".join(lines_shown)


def _is_answer_an_earlier_turn(
    group: RunGroup,
    quotation_of_answer: Quotation,
    assistant_lines: Collection[str],
    question: str | None,
) -> bool:
    """Return whether prompts hold the answer of a group as an earlier assistant turn.

    The conversation has then moved on from the group's question.

    Args:
        group: The group.
        quotation_of_answer: How the prompts quote its last answer.
        assistant_lines: The messages of the assistant in the prompts, each in one line.
        question: What the run of the prompts was asked; None if that is unknown.
    """
    if not group.answers.isdisjoint(assistant_lines):
        return True
    if quotation_of_answer not in ("earlier turn", "assistant's last words"):
        return False
    # "Q: … A: …" may also be the parts of the user's question with their answers, which
    # a model is to put together
    return not group.was_split_from(question)


def _asks_of_kept_documents(
    run: Tree, group: RunGroup, message_texts: Sequence[str]
) -> bool:
    """Return whether a run asks a new question of documents that the application kept.

    The application keeps what an answered group found, and hands the documents in again
    with the user's next question. No question of the group stands in the prompts then.

    Args:
        run: The run.
        group: The group.
        message_texts: The messages that the models of the run were shown.
    """
    if not run.root.input_documents or run.question is None:
        return False
    if group.answered_at is None:
        return False
    for question in group.questions:
        if as_one_line(question) == as_one_line(run.question):
            return False
        if any(question in text for text in message_texts):
            return False
    return True


def _groups_not_continued(
    quotation_by_group: Mapping[RunGroup, Quotation], run: Tree, calls: Calls
) -> list[RunGroup]:
    """Return the groups that a run does not continue.

    A group is the runs of one question. The run has another question in two cases:

        - The prompts of the run hold the group's answer as an earlier turn of the
          conversation.
        - The prompts do not hold the group's answer, and the run asks a new question of
          documents that the application kept from an earlier search.

    Args:
        quotation_by_group: How the prompts of the run quote the last answer of each
            group.
        run: The run.
        calls: Its calls.
    """
    message_texts: list[str] = []
    assistant_lines: set[str] = set()
    for call in calls.models:
        for message in call.prompt:
            message_texts.append(message.text)
            if message.role == "assistant":
                assistant_lines.add(as_one_line(message.text))
    groups_not_continued: list[RunGroup] = []
    for group, quotation_of_answer in quotation_by_group.items():
        is_earlier_turn = _is_answer_an_earlier_turn(
            group, quotation_of_answer, assistant_lines, run.question
        )
        is_absent = quotation_of_answer == "absent"
        if is_earlier_turn or (
            is_absent and _asks_of_kept_documents(run, group, message_texts)
        ):
            groups_not_continued.append(group)
    return groups_not_continued


def _quotations_of_last_answers(
    groups: Iterable[RunGroup], calls: Calls
) -> dict[RunGroup, Quotation]:
    """Return how the prompts of a run quote the last answer of each of some groups.

    Where an answer stands in several messages, the surest quotation counts.
    """
    messages: list[Text] = []
    for call in calls.models:
        messages += [Text(message.text) for message in call.prompt]
    quotation_by_group: dict[RunGroup, Quotation] = {}
    for group in groups:
        answer = group.last_answer
        questions = group.questions
        quotations = [quotation(answer, questions, message) for message in messages]
        surest: Quotation = min(quotations, key=QUOTATIONS.index, default="absent")
        quotation_by_group[group] = surest
    return quotation_by_group
