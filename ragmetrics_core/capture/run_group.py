"""A group: the runs of an application that belong to one question of the user.

An application without a framework's chain makes each search, and each call of a model,
a run of its own. For "When did the bridge open?" these are two runs::

    run 1   a retriever is asked "When did the bridge open?" and finds "Opened in 1874."
    run 2   a model is shown "Opened in 1874." in its prompt, and writes "In 1874."

Both runs are one group, and the group is one sample. Run 2 joins the group of run 1
because its prompt shows a document that run 1 found. It could also join by the group's
question or by an earlier answer of the group. ``waiting_groups`` has these rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture.auxiliary_runs import writes_query
from ragmetrics_core.capture.calls import Calls, Reply, end_of, text_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Document, Node, Tree

_ONE_OF_SEVERAL = (
    "a model wrote this question beside others: what the user asked, and what was made"
    " of the answers, is not known"
)


def doubtful(tree: Tree, words: str) -> Tree:
    """Return a copy of a run with one more doubt, in words."""
    doubts = dict.fromkeys([*tree.doubts, words])
    return replace(tree, doubts=tuple(doubts))


@dataclass(eq=False)
class RunGroup:
    """The runs that belong to one question of the user.

    Attributes:
        runs: The runs, as trees of calls.
        last_added_at: When the last run was added, by the monotonic clock of this
            process.
        answered_at: When the last run that answered ended; None before.
        was_shown_to_model: Whether a model was shown what was found, whatever the model
            replied: it may have graded the documents.
        names_shown_to_model: The documents found that a model was shown, by id, or by
            text where a document has no id.
        query_writers: The runs of the group in which a model wrote the query or
            question of another run.
        part_roots: The outermost calls of runs that answered one of several questions
            into which a model split the user's question.
    """

    runs: list[Tree]
    last_added_at: float = field(default_factory=time.monotonic)
    answered_at: float | None = None
    was_shown_to_model: bool = False
    names_shown_to_model: set[str] = field(default_factory=set)
    query_writers: list[Tree] = field(default_factory=list)
    part_roots: set[Node] = field(default_factory=set)

    @property
    def began(self) -> float:
        """When its first run began."""
        return min(run.root.began for run in self.runs)

    @property
    def nodes(self) -> list[Node]:
        """The calls of all its runs."""
        nodes: list[Node] = []
        for run in self.runs:
            nodes += run.root.walk()
        return nodes

    @property
    def queries(self) -> set[str]:
        """The queries of its calls: what was searched for, and arguments of tools."""
        return {node.query for node in self.nodes if node.query}

    def searched_for(self, query_line: str) -> bool:
        """Return whether a call of the group was asked a query.

        Args:
            query_line: The query, in one line.
        """
        query_lines = {as_one_line(query) for query in self.queries}
        return query_line in query_lines

    @property
    def questions(self) -> set[str]:
        """The questions that its runs were asked, and its queries."""
        questions = {run.question for run in self.runs if run.question}
        return questions | self.queries

    @property
    def documents(self) -> list[Document]:
        """The documents that its runs found and handed on.

        Example: one run searched and found A, the next one found B: [A, B].
        Texts that a model of the same run wrote are left out. The text of a tool that
        the application called by hand counts as a document.
        """
        documents: list[Document] = []
        for run in self.runs:
            for documents_of_call in Calls(run, ()).lists():
                documents += documents_of_call
            root = run.root
            text = root.text or ""
            is_tool_without_documents = root.kind == "tool" and root.documents is None
            if is_tool_without_documents and len(text) >= SHORTEST:
                documents.append(Document(text))
        return documents

    @property
    def answers(self) -> set[str]:
        """The texts that its models wrote, each in one line.

        Of a structured reply, such as ``{"answer": "In 1874."}``, the texts in it count
        as well.
        """
        lines: set[str] = set()
        for call in self._answering_calls():
            reply = Reply(call.reply)
            lines.add(reply.line)
            lines.update(reply.fields)
        return lines - {""}

    @property
    def last_answer(self) -> str:
        """The text that a model wrote last; empty if no model wrote any."""
        answering_calls = self._answering_calls()
        if not answering_calls:
            return ""
        return text_of(max(answering_calls, key=end_of))

    def _answering_calls(self) -> list[Node]:
        """The calls of models that look most like answering, run by run."""
        answering_calls: list[Node] = []
        for run in self.runs:
            # a retriever may ask a model for its documents: that answers no question
            if not run.gives_only_documents:
                answering_calls += Calls(run, ()).likely_answer_calls
        return answering_calls

    def was_split_from(self, question: str | None) -> bool:
        """Return whether its runs answered parts of a question that a model had split.

        Args:
            question: The question that may have been split; None if it is unknown.
        """
        if not self.part_roots:
            return False
        split_questions = {
            as_one_line(query_writer.question) for query_writer in self.query_writers
        }
        return as_one_line(question) in split_questions - {""}

    def has_run_of(self, task_or_thread: str) -> bool:
        """Return whether one of its runs ran in a task or thread."""
        return any(run.task_or_thread == task_or_thread for run in self.runs)

    def writes_query(self, query: str) -> bool:
        """Return whether a model of one of its runs wrote a query."""
        return any(writes_query(run, query) for run in self.runs)

    @property
    def document_names(self) -> set[str]:
        """The ids of the documents that its calls returned; without an id the text."""
        names: set[str] = set()
        for node in self.nodes:
            names.update(document_names(node.documents or ()))
        return names

    def turns(self) -> list[list[Tree]]:
        """Return its runs as turns; each inner list is the runs of one turn.

        Usually all runs are one turn. A model may have split a question into several,
        and nothing was made of their answers: then each part is a turn, with a doubt.
        """
        writer_roots = {query_writer.root for query_writer in self.query_writers}
        asking_runs = [run for run in self.runs if run.root not in writer_roots]
        if any(run.root not in self.part_roots for run in asking_runs):
            return [self.runs]
        return [[doubtful(run, _ONE_OF_SEVERAL)] for run in asking_runs]

    def add_query_writers(self, writers: Iterable[Tree]) -> None:
        """Add runs whose models wrote the query or question of a run of the group."""
        for query_writer in writers:
            if query_writer not in self.runs:
                self.runs.append(query_writer)
                self.query_writers.append(query_writer)

    def add_part(self, run: Tree) -> None:
        """Add a run that answers one of several questions into which a model split one.

        A run that was shown an earlier part, as its question or its answer, puts the
        parts together: it answers the whole question, and is no part itself.
        """
        answers_whole_question = bool(self.part_roots) and self._shows_earlier_part(run)
        if not answers_whole_question:
            self.part_roots.add(run.root)
        self.add(run, is_answered=answers_whole_question)

    def _shows_earlier_part(self, run: Tree) -> bool:
        """Return whether a run was shown the question or the answer of an earlier part."""
        # a writer's texts are the questions of the parts, not answers of its own
        earlier_parts = [part for part in self.runs if part not in self.query_writers]
        group_of_parts = RunGroup(earlier_parts, answered_at=self.answered_at)
        shown = _look_for_group(group_of_parts, Prompts.of(Calls(run)))
        is_shown = shown.is_shown_by_texts or shown.is_asked_and_waits
        return is_shown and (bool(shown.answers) or shown.is_asked)

    def add(self, run: Tree, *, is_answered: bool) -> None:
        """Add a run.

        Args:
            run: The run.
            is_answered: Whether the run holds a text that may answer the question.
        """
        self.runs.append(run)
        self.last_added_at = time.monotonic()
        if is_answered:
            self.answered_at = end_of(run.root)

    def note_shown_to_model(self, names_of_documents: Iterable[str]) -> None:
        """Note that a model was shown what was found, and which documents these are.

        Args:
            names_of_documents: The ids of the documents, or their texts without ids.
        """
        self.was_shown_to_model = True
        self.names_shown_to_model.update(names_of_documents)

    def take_over(self, groups: Iterable[RunGroup]) -> None:
        """Add the runs of other groups; all runs then stand in the order they began."""
        for group in groups:
            self.runs += group.runs
            self.query_writers += group.query_writers
            self.part_roots |= group.part_roots
            self.was_shown_to_model |= group.was_shown_to_model
            self.names_shown_to_model |= group.names_shown_to_model
        self.runs.sort(key=lambda run: run.root.began)

    def copy_with(self, groups: Sequence[RunGroup]) -> RunGroup:
        """Return a copy that holds the runs of other groups as well."""
        whole_group = replace(
            self,
            runs=list(self.runs),
            query_writers=list(self.query_writers),
            part_roots=set(self.part_roots),
            names_shown_to_model=set(self.names_shown_to_model),
        )
        whole_group.take_over(groups)
        return whole_group

    def add_doubt(self, words: str) -> None:
        """Put the question of the group in doubt, in words."""
        # a doubt of one run is a doubt of the turn that the runs become
        self.runs[-1] = doubtful(self.runs[-1], words)


def document_names(documents: Iterable[Document]) -> set[str]:
    """Return the ids of some documents; for a document without an id its text."""
    return {document.id or document.text for document in documents}


@dataclass(frozen=True)
class Prompts:
    """The messages that the models of a run were shown, without the assistant's.

    Attributes:
        texts: The messages.
        texts_of_this_turn: Those of them after the assistant's last message. Messages
            before it belong to earlier turns of a conversation.
    """

    texts: Sequence[str]
    texts_of_this_turn: Sequence[str]

    @staticmethod
    def of(calls: Calls) -> Prompts:
        """Collect the messages of the prompts of some calls.

        Messages of the assistant are left out. Those after its last message are of
        this turn: of user "Open?", assistant "Yes.", user "And when?" the last one.
        """
        texts: list[str] = []
        texts_of_this_turn: list[str] = []
        for call in calls.models:
            texts_behind_assistant: list[str] = []
            for message in call.prompt:
                if message.role != "assistant":
                    texts.append(message.text)
                    texts_behind_assistant.append(message.text)
                elif message.text.strip():
                    texts_behind_assistant.clear()
            texts_of_this_turn += texts_behind_assistant
        return Prompts(texts, texts_of_this_turn)


@dataclass(frozen=True, eq=False)
class ShownGroup:
    """What the prompts of a run show of a group, be it nothing.

    Attributes:
        group: The group.
        found_documents: Whether the group found any documents, shown or not.
        is_asked: Whether a query of the group stands in the prompts.
        texts: Those documents and answers of the group that stand in the prompts.
        answers: Those of ``texts`` that are answers.
    """

    group: RunGroup
    found_documents: bool
    is_asked: bool
    texts: frozenset[str]
    answers: frozenset[str]

    @property
    def is_shown_by_texts(self) -> bool:
        """Whether the prompts show a document or an answer of the group.

        A group that found no documents is shown by its query instead.
        """
        is_query_enough = self.is_asked and not self.found_documents
        return bool(self.texts) or is_query_enough

    @property
    def is_asked_and_waits(self) -> bool:
        """Whether the prompts ask a query of the group, which is not answered yet."""
        return self.is_asked and self.group.answered_at is None

    def was_over_before(self, later: ShownGroup) -> bool:
        """Return whether the group was answered before another group began.

        A prompt of the later group that shows a text of this one only repeats what was
        said, or a document that was found again.

        Args:
            later: What the same prompts show of the other group.
        """
        answered_at = self.group.answered_at
        if answered_at is None or later.group.began < answered_at:
            return False
        # the same query again, and the answer in the prompt: the answer is a draft that
        # is revised, so that its question goes on
        is_draft = self.asks_the_same(later) and bool(self.answers)
        return not is_draft

    def asks_the_same(self, other: ShownGroup) -> bool:
        """Return whether both groups searched with one query."""
        return not self.group.queries.isdisjoint(other.group.queries)

    def continues(self, groups_of_task: Sequence[ShownGroup]) -> bool:
        """Return whether a run goes on with this group, which is of another thread.

        The prompts of the run must show a query of the group. Besides, the group began
        after all groups of the run's own thread were answered, or it still waits for the
        answer to another question than theirs.

        Args:
            groups_of_task: The groups of the run's own task or thread that its prompts
                show. These were all answered.
        """
        if not self.is_asked:
            return False
        if all(group.was_over_before(self) for group in groups_of_task):
            return True
        asks_another = not any(group.asks_the_same(self) for group in groups_of_task)
        return asks_another and self.group.answered_at is None

    @property
    def shows_documents(self) -> bool:
        """Whether a document of the group stands in the prompts."""
        return bool(self.texts - self.answers)


def groups_that_run_joins(
    groups: Sequence[RunGroup], task_or_thread: str, prompts: Prompts
) -> list[ShownGroup]:
    """Find the groups that a run belongs to, by what its prompts show of each.

    A group is left out if it was answered before another shown group began, or if all
    its shown texts belong to groups before it, too.

    Args:
        groups: The groups, the latest first.
        task_or_thread: The task or thread in which the run ran.
        prompts: The prompts of the run.

    Returns:
        The groups; at first those whose query is shown, then those whose answer is.
    """
    shown_groups = _shown_groups_of_run(groups, task_or_thread, prompts)
    current_groups: list[ShownGroup] = []
    for shown_group in shown_groups:
        if not any(shown_group.was_over_before(other) for other in shown_groups):
            current_groups.append(shown_group)
    current_groups.sort(key=_sort_key, reverse=True)
    return _groups_that_add_texts(current_groups)


def _shown_groups_of_run(
    groups: Sequence[RunGroup], task_or_thread: str, prompts: Prompts
) -> list[ShownGroup]:
    """Return the groups that a run's prompts show, its own task or thread first.

    Example: thread 1 searched for "bridge", and a worker thread for "ferry". A model in
    thread 1 is shown what the first search found: the group of "bridge" is returned.

    The groups of other threads count in two cases: none of its own thread is shown, as
    where a worker thread searches and the run answers; or those of its own thread are
    all answered, and the run goes on with another question.
    """
    of_task = _shown_of_task(groups, task_or_thread, prompts)
    if any(shown.group.answered_at is None for shown in of_task):
        return of_task
    of_others = _shown_of_others(groups, task_or_thread, prompts)
    if not of_task:
        return of_others
    return [*of_task, *(other for other in of_others if other.continues(of_task))]


def _shown_of_task(
    groups: Iterable[RunGroup], task_or_thread: str, prompts: Prompts
) -> list[ShownGroup]:
    """Return the groups of a task or thread that prompts show, or whose query they ask."""
    shown_groups = []
    for group in groups:
        if group.has_run_of(task_or_thread):
            shown = _look_for_group(group, prompts)
            if shown.is_shown_by_texts or shown.is_asked_and_waits:
                shown_groups.append(shown)
    return shown_groups


def _shown_of_others(
    groups: Iterable[RunGroup], task_or_thread: str, prompts: Prompts
) -> list[ShownGroup]:
    """Return the groups of other tasks and threads that prompts show.

    To ask the same query is not enough here: another user may have asked it.
    """
    shown_groups = []
    for group in groups:
        if not group.has_run_of(task_or_thread):
            shown = _look_for_group(group, prompts)
            if shown.is_shown_by_texts:
                shown_groups.append(shown)
    return shown_groups


def _groups_that_add_texts(shown_groups: Iterable[ShownGroup]) -> list[ShownGroup]:
    """Leave out each group all of whose shown texts belong to groups before it, too.

    A group stays if only its query is shown.
    """
    chosen_groups: list[ShownGroup] = []
    texts_of_chosen: set[str] = set()
    for shown_group in shown_groups:
        adds_text = not shown_group.texts <= texts_of_chosen
        # a group without shown texts is shown by its query alone
        if adds_text or not shown_group.texts:
            chosen_groups.append(shown_group)
            texts_of_chosen |= shown_group.texts
    return chosen_groups


def _sort_key(shown_group: ShownGroup) -> tuple[bool, bool, float]:
    """Return whether the query is shown, whether an answer is, and the group's age."""
    return (
        shown_group.is_asked,
        bool(shown_group.answers),
        shown_group.group.last_added_at,
    )


def _look_for_group(group: RunGroup, prompts: Prompts) -> ShownGroup:
    r"""Find what the prompts of a run show of a group: queries, documents, answers.

    Example: a group, the runs of one question so far, searched for "When did it open?"
    and found "Opened in 1874.". The prompt "Opened in 1874.\nQuestion: When did it
    open?" of a further run shows both. An answer is what a model of the group replied.
    """
    document_texts = [text for document in group.documents for text in document.texts]
    # a group that found no document is recognised by its queries alone
    answers = _long_answers(group) if document_texts else set()
    sought_texts = [*document_texts, *answers]
    shown_indexes = locate(sought_texts, prompts.texts).shown_in_order
    shown_texts = frozenset(sought_texts[index] for index in shown_indexes)
    return ShownGroup(
        group,
        found_documents=bool(document_texts),
        is_asked=any(_is_asked_in(prompts, query) for query in group.queries),
        texts=shown_texts,
        answers=shown_texts & answers,
    )


def _long_answers(group: RunGroup) -> set[str]:
    """Return the answers of a group but for short ones, which stand anywhere: "Yes"."""
    return {answer for answer in group.answers if len(answer) >= DISTINCTIVE_LENGTH}


def _is_asked_in(prompts: Prompts, query: str) -> bool:
    """Return whether a query stands in a message of the turn that goes on now."""
    return any(query in text for text in prompts.texts_of_this_turn)
