"""Runs without a root that belong to one question.

An application of plain functions makes each search and each call of a model a run of
its own. A **group** holds those of one question. A run joins it by what it shows: a
document that was found there, an answer that was given there, or its question. A
**task or thread** is the one in which a run ran.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.calls import FREE_TEXT, Calls, end_of
from ragmetrics_core.capture.group import (
    Group,
    Prompts,
    ShownGroup,
    groups_that_run_joins,
    names_of,
)
from ragmetrics_core.capture.letters import Text
from ragmetrics_core.capture.loose_runs import writes_query
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import QUOTATIONS, Quotation, quotation
from ragmetrics_core.capture.tree import Document, Node, Tree

_MOST_WAITING = 1000
_MOST_OF_OTHER_STRANDS = 32
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


class Groups:
    """The groups that wait for further runs.

    The group that began to wait first stands first. Methods named ``take`` remove the
    groups that they return.
    """

    def __init__(self) -> None:
        self._waiting: list[Group] = []

    def __iter__(self) -> Iterator[Group]:
        """Give the groups as they are if no further run comes."""
        return iter(self._with_searches_beside(self._waiting))

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()

    def add_retrieval(self, tree: Tree, query: str, writers: Sequence[Tree]) -> None:
        """Put a retrieval that stands alone into the group of its question, or a new one.

        Its writer joins that group, too. If several runs may have written its query,
        all their groups are put in doubt.

        Args:
            tree: The retrieval.
            query: What was searched for first, in one line.
            writers: Loose runs that wrote this query.
        """
        open_writers = self._open_writers(tree.task_or_thread, query, writers)
        writer = self._writer_of_search(open_writers, query)
        group = self._group_that_goes_on(tree, query, writer)
        if group is None:
            group = self._begin_group()
        if writer is not None:
            group.add_writers([writer])
        group.add(tree, answers=False)
        if len(open_writers) <= 1:
            return
        for open_writer in open_writers:
            group_of_writer = self._group_of(open_writer)
            if group_of_writer is not None:
                group_of_writer.doubt(_SEVERAL_WROTE)

    def _open_writers(
        self, task_or_thread: str, query: str, writers: Sequence[Tree]
    ) -> list[Tree]:
        """The runs that may have written a query for a search that is made now.

        If some are of the search's task or thread, it is the last of these. Otherwise all count
        that wait for an answer; if none waits, the last one. The first to run stands
        first.
        """
        writer_by_root = {writer.root: writer for writer in writers}
        for group in self._waiting:
            for tree in group.trees:
                if writes_query(tree, query):
                    writer_by_root[tree.root] = tree
        first_to_last = sorted(
            writer_by_root.values(), key=lambda writer: writer.root.began
        )
        of_the_same_task = [
            writer
            for writer in first_to_last
            if writer.task_or_thread == task_or_thread
        ]
        if of_the_same_task:
            return of_the_same_task[-1:]
        waiting = [writer for writer in first_to_last if not self._is_answered(writer)]
        return waiting or first_to_last[-1:]

    def _is_answered(self, writer: Tree) -> bool:
        """Whether what a run wrote was searched for and answered from."""
        group = self._group_of(writer)
        if group is None or group.answered_at is None:
            return False
        return group.answered_at > end_of(writer.root)

    def _writer_of_search(self, writers: Sequence[Tree], query: str) -> Tree | None:
        """The run to which a search belongs; None without writers.

        It is the first whose query nobody searched for yet, else the last one.
        """
        for writer in writers:
            group = self._group_of(writer)
            if group is None or not group.searched_for(query):
                return writer
        return writers[-1] if writers else None

    def _group_of(self, tree: Tree) -> Group | None:
        """The group that holds a run; None if none does."""
        for group in self._waiting:
            if any(known.root is tree.root for known in group.trees):
                return group
        return None

    def _begin_group(self) -> Group:
        """Let a new group wait, which holds nothing yet."""
        group = Group([])
        self._waiting.append(group)
        return group

    def add_part(self, tree: Tree, writer: Tree) -> None:
        """Add a run that answers one of several questions that a model wrote.

        It joins the group of these questions.

        Args:
            tree: The run.
            writer: The loose run that wrote its question.
        """
        group = self._group_of(writer)
        if group is None:
            group = self._begin_group()
        group.add_writers([writer])
        group.add_part(tree)

    def _group_that_goes_on(
        self, tree: Tree, query: str, writer: Tree | None
    ) -> Group | None:
        """The group that a retrieval goes on with; None if there is none.

        There are three ways. The retrieval was handed documents of groups: a reranker
        that is called by hand. These groups become one. Or the group holds the run that
        wrote the query. Or that run was shown what was searched for in the group, and
        wrote a further query.

        Args:
            tree: The retrieval.
            query: What was searched for first, in one line.
            writer: The run that wrote it; None if none is known.
        """
        group_of_writer = None if writer is None else self._group_of(writer)
        giving = self._groups_it_was_handed(tree, query)
        if giving:
            if group_of_writer is not None and group_of_writer not in giving:
                giving.append(group_of_writer)
            group = self._unite(giving)
            names = names_of(tree.root.input_documents)
            group.beside += self._searches_beside(group, names)
            return group
        if writer is None or group_of_writer is not None:
            return group_of_writer
        for group in self._groups_of(tree.task_or_thread):
            if not group.searched_for(query) and _is_told_to(writer, group):
                return group
        return None

    def _groups_it_was_handed(self, tree: Tree, query: str) -> list[Group]:
        """The groups of runs whose documents a retrieval was handed, as a reranker is.

        Groups of its own task or thread go before others. Empty if it was
        handed documents of no group.

        Args:
            tree: The retrieval.
            query: What it was asked, in one line; empty if it was asked nothing.
        """
        documents = tree.root.input_documents
        giving = _groups_that_gave(
            documents, query, self._groups_of(tree.task_or_thread)
        )
        if giving:
            return giving
        return _groups_that_gave(
            documents, query, self._latest_of_other_tasks(tree.task_or_thread)
        )

    def join(self, tree: Tree, calls: Calls) -> Group | None:
        """Add a run to the groups whose documents it shows to a model.

        A group is the runs of one question. Several groups that the run shows become
        one. A group is put in doubt where the run quotes its answer and nothing tells
        whether it works on that answer or only goes on with the conversation.

        Args:
            tree: The run.
            calls: Its calls.

        Returns:
            The group that now holds the run; None if the run shows nothing of any.
        """
        groups = self._groups_of(tree.task_or_thread)
        groups_of_others = self._latest_of_other_tasks(tree.task_or_thread)
        quotations = _quotations_of_last_answers([*groups, *groups_of_others], calls)
        over = _groups_that_are_over(quotations, tree, calls)
        # "perhaps said": nobody is named behind the answer, so that it may be a draft
        for group in over:
            if quotations[group] == "perhaps said":
                group.doubt(_MAY_GO_ON)
        shown_groups = groups_that_run_joins(
            [group for group in groups if group not in over],
            [group for group in groups_of_others if group not in over],
            Prompts.of(calls),
        )
        if not shown_groups:
            return None
        joined = self._unite([shown_group.group for shown_group in shown_groups])
        names_shown = _names_of_documents_shown(joined, shown_groups)
        joined.beside += self._searches_beside(joined, names_shown)
        is_answered = any(calls.reply_forms[call] == FREE_TEXT for call in calls.models)
        joined.add(tree, answers=is_answered)
        joined.was_read = True
        for shown_group in shown_groups:
            is_beside = quotations[shown_group.group] == "beside its question"
            if is_beside and not shown_group.shows_what_was_found:
                joined.doubt(_MAY_GO_ON)
        return joined

    def _unite(self, groups: Sequence[Group]) -> Group:
        """Let the first of some groups hold the runs of the others, which wait no longer.

        Returns:
            The first group.
        """
        first_group, *further_groups = groups
        first_group.take_over(further_groups)
        self._waiting = [
            group for group in self._waiting if group not in further_groups
        ]
        return first_group

    def _searches_beside(self, group: Group, names: Collection[str]) -> list[Group]:
        """Other groups of the same task or thread that found some of the documents of a group.

        Such a group is a search that no model has read yet. It began after the first
        search of the group, or right before it, so that nothing was read or answered in
        between.

        Args:
            group: The group.
            names: The ids of the documents that a model or a reranker was handed for
                the group; of documents without id the texts.
        """
        groups = self._groups_of(group.trees[-1].task_or_thread)
        groups.sort(key=lambda search: search.began, reverse=True)
        beside: list[Group] = []
        for search in groups:
            if search is group or search.is_passed_by:
                continue
            found_the_same = not search.names_of_documents.isdisjoint(names)
            if found_the_same and not search.was_read:
                beside.append(search)
            elif search.began < group.began:
                # the searches are sorted: what began still earlier is of other turns
                break
        return beside

    def _with_searches_beside(self, groups: Sequence[Group]) -> list[Group]:
        """Some groups as they are if no further run comes, with the searches beside them.

        A search beside a group found some of the same documents, and no model has read
        it. It belongs to the question of the group if it was made after the first
        search of the group, or asked the same. Otherwise it may be a question of its
        own: both stay, and the group is in doubt.

        Args:
            groups: The groups; they stay as they are.

        Returns:
            The groups, or copies that hold more. A search that belongs to another group
            is not listed by itself.
        """
        owner_by_search: dict[Group, Group] = {}
        for group in self._waiting:
            for search in self._unread_beside(group):
                asks_the_same = not search.queries.isdisjoint(group.queries)
                if asks_the_same or search.began > group.began:
                    owner_by_search.setdefault(search, group)
        whole_groups: list[Group] = []
        for group in groups:
            if group in owner_by_search:
                continue
            own_searches: list[Group] = []
            for search, owner in owner_by_search.items():
                if owner is group:
                    own_searches.append(search)
            is_doubtful = any(
                search not in owner_by_search for search in self._unread_beside(group)
            )
            whole_group = group
            if own_searches or is_doubtful:
                whole_group = group.copy_with(own_searches)
            if is_doubtful:
                whole_group.doubt(_SEARCHED_BEFORE)
            whole_groups.append(whole_group)
        return whole_groups

    def _unread_beside(self, group: Group) -> list[Group]:
        """The searches beside a group that still wait and that no model has read."""
        waiting = [search for search in group.beside if search in self._waiting]
        return [search for search in waiting if not search.was_read]

    def take_over_due(
        self, task_or_thread: str | None = None, query: str = ""
    ) -> list[Group]:
        """Remove and return the groups that no further run will join.

        Nothing joined them for long, or they were answered and another question begins
        in their task or thread. A group that asked the same query may be due, too; the last of
        these waits on, since its answer may be a draft that is revised yet.

        Args:
            task_or_thread: Where a search begins now; None where none does.
            query: What is searched for, in one line. A group that wrote it goes on.
        """
        now = time.monotonic()
        due: list[Group] = []
        asks_the_same: list[Group] = []
        for group in self._waiting:
            waits_long = now - group.last_came_at > _LONGEST_WAIT_SECONDS
            is_left_behind = not waits_long and _is_left_behind(
                group, task_or_thread, query
            )
            if is_left_behind and group.searched_for(query):
                asks_the_same.append(group)
            elif waits_long or is_left_behind:
                due.append(group)
        # a draft of the last one may be revised yet
        due += asks_the_same[:-1]
        due.sort(key=lambda group: group.began)
        whole_groups = self._with_searches_beside(due)
        roots_taken: set[Node] = set()
        for group in whole_groups:
            roots_taken.update(tree.root for tree in group.trees)
        self._waiting = [
            group for group in self._waiting if group.trees[0].root not in roots_taken
        ]
        for over in whole_groups:
            last_run = over.trees[-1]
            for group in self._groups_of(last_run.task_or_thread):
                if group.began < last_run.root.began:
                    group.is_passed_by = True
        return whole_groups

    def take_too_many(self) -> list[Group]:
        """Remove and return the groups that wait longest, where too many wait."""
        n_too_many = max(0, len(self._waiting) - _MOST_WAITING)
        given_up = self._waiting[:n_too_many]
        del self._waiting[:n_too_many]
        return given_up

    def _groups_of(self, task_or_thread: str) -> list[Group]:
        """The groups that hold a run of a task or thread, the latest first."""
        latest_first = self._waiting[::-1]
        return [group for group in latest_first if group.has_run_of(task_or_thread)]

    def _latest_of_other_tasks(self, task_or_thread: str) -> list[Group]:
        """The groups that began to wait last and hold no run of a task or thread; the latest first."""
        latest = self._waiting[: -_MOST_OF_OTHER_STRANDS - 1 : -1]
        return [group for group in latest if not group.has_run_of(task_or_thread)]


def _is_left_behind(group: Group, task_or_thread: str | None, query: str) -> bool:
    """Whether a group was answered and another question begins in its task or thread."""
    if group.answered_at is None or task_or_thread is None:
        return False
    return group.trees[-1].task_or_thread == task_or_thread and not group.writes_query(
        query
    )


def _groups_that_gave(
    documents: Iterable[Document], query: str, groups: Sequence[Group]
) -> list[Group]:
    """Return the groups from which the documents of a reranker come.

    A group holds the searches and model calls that belong to one question. Here the
    application called a reranker itself, so that nothing else tells its question.

    Groups whose question has no answer yet go first. They are taken until each document
    is accounted for: those that searched for the reranker's query first, then the
    latest. If all groups have their answers, only the latest is taken.

    Args:
        documents: What the reranker was given.
        query: What it was asked, in one line; empty if it was asked nothing.
        groups: The groups of one thread or task, the latest first.

    Returns:
        The groups; empty if none of them returned any of the documents.
    """
    missing_names = names_of(documents)  # of documents that are not accounted for
    giving = [
        group
        for group in groups
        if not missing_names.isdisjoint(group.names_of_documents)
    ]
    waiting = [group for group in giving if group.answered_at is None]
    if not waiting:
        return giving[:1]  # the latest one, or none
    # Those that searched for the query come first, since False sorts before True. The
    # sort is stable: the latest stay first.
    waiting.sort(key=lambda group: not group.searched_for(query))
    chosen: list[Group] = []
    for group in waiting:
        if missing_names:
            chosen.append(group)
            missing_names -= group.names_of_documents
    return chosen


def _names_of_documents_shown(
    group: Group, shown_groups: Iterable[ShownGroup]
) -> set[str]:
    """The ids of a group's documents that prompts show; of documents without id the texts."""
    texts_shown: set[str] = set()
    for shown_group in shown_groups:
        texts_shown |= shown_group.texts
    documents_shown = []
    for document in group.documents:
        if not texts_shown.isdisjoint(document.texts):
            documents_shown.append(document)
    return names_of(documents_shown)


def _is_told_to(writer: Tree, group: Group) -> bool:
    """Whether a run was shown what was searched for first in a group.

    What it wrote are then further queries for that group.
    """
    queried_nodes = [node for node in group.nodes if node.query]
    if not queried_nodes:
        return False
    first_node = min(queried_nodes, key=lambda node: node.began)
    lines_shown = []
    for node in writer.root.walk():
        lines_shown += [as_one_line(message.text) for message in node.prompt]
    return as_one_line(first_node.query) in "\n".join(lines_shown)


def _is_answer_repeated(
    group: Group,
    way: Quotation,
    assistant_lines: Collection[str],
    question: str | None,
) -> bool:
    """Whether prompts repeat a group's answer as the assistant's word.

    The conversation has then moved on from the group.

    Args:
        group: The group.
        way: How the prompts quote its last answer.
        assistant_lines: The messages of the assistant in the prompts, each in one line.
        question: What the run of the prompts was asked.
    """
    if not group.answers.isdisjoint(assistant_lines):
        return True
    if way not in ("said", "perhaps said"):
        return False
    # pairs of a part and its answer look like a talk
    return not group.is_split_from(question)


def _asks_anew(tree: Tree, group: Group, message_texts: Sequence[str]) -> bool:
    """Whether a run was handed documents and asks a question of its own.

    A group was answered, and the application kept what it had found. The group's own
    question stands in none of the prompts.

    Args:
        tree: The run.
        group: The group.
        message_texts: The messages that the models of the run were shown.
    """
    if (
        not tree.root.input_documents
        or tree.question is None
        or group.answered_at is None
    ):
        return False
    for question in group.questions:
        if as_one_line(question) == as_one_line(tree.question):
            return False
        if any(question in text for text in message_texts):
            return False
    return True


def _groups_that_are_over(
    quotations: Mapping[Group, Quotation], tree: Tree, calls: Calls
) -> list[Group]:
    """The groups that a run does not go on with.

    The run belongs to a later question than such a group. Its prompts repeat the
    group's answer as the assistant's word. Or they quote it nowhere, and the run asks a
    question of its own of documents that it was handed.

    Args:
        quotations: How the prompts of the run quote the last answer of each group.
        tree: The run.
        calls: Its calls.
    """
    message_texts: list[str] = []
    assistant_lines: set[str] = set()
    for call in calls.models:
        for message in call.prompt:
            message_texts.append(message.text)
            if message.role == "assistant":
                assistant_lines.add(as_one_line(message.text))
    over: list[Group] = []
    for group, way in quotations.items():
        is_repeated = _is_answer_repeated(group, way, assistant_lines, tree.question)
        is_forgotten = way == "nowhere" and _asks_anew(tree, group, message_texts)
        if is_repeated or is_forgotten:
            over.append(group)
    return over


def _quotations_of_last_answers(
    groups: Iterable[Group], calls: Calls
) -> dict[Group, Quotation]:
    """How the prompts of a run quote the last answer of each of some groups.

    Of several places at which an answer stands the surest counts.
    """
    messages: list[Text] = []
    for call in calls.models:
        messages += [Text(message.text) for message in call.prompt]
    quotation_of_group: dict[Group, Quotation] = {}
    for group in groups:
        answer = group.last_answer
        questions = group.questions
        ways = [quotation(answer, questions, message) for message in messages]
        surest: Quotation = min(ways, key=QUOTATIONS.index, default="nowhere")
        quotation_of_group[group] = surest
    return quotation_of_group


# What prompts show of groups
