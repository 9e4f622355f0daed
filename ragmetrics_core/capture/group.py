"""One group of runs that belong to one question, and what a run is shown of groups.

A **group** holds the runs of plain functions that belong to one question. A run shows a
group if its prompts hold a document that was found there, an answer that was given
there, or its question. ``groups`` has the rules by which a run joins a group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture.calls import Calls, Reply, end_of, text_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.loose_runs import writes_query
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Document, Node, Tree

_ONE_OF_SEVERAL = (
    "a model wrote this question beside others: what the user asked, and what was made"
    " of the answers, is not known"
)


def doubtful(tree: Tree, words: str) -> Tree:
    """The same run with one more doubt, in words."""
    doubts = dict.fromkeys([*tree.doubts, words])
    return replace(tree, doubts=tuple(doubts))


@dataclass(eq=False)
class Group:
    """Runs without a root that belong to one question.

    Attributes:
        trees: The runs.
        last_came_at: When the last of them came, by the monotonic clock of this
            process.
        answered_at: When the last run that answered it ended; None before.
        was_read: Whether a model was shown what was found, whatever it replied: it may
            have answered in a word or two, or have graded the documents.
        is_passed_by: Whether a question of its task or thread that began later was answered and
            is over.
        beside: Groups of searches near its own that found some of the same documents.
            If no model ever reads them, they belong to its question.
        writers: Those runs that wrote what others were asked.
        parts: Roots of runs that answered one of several questions that a model wrote.
    """

    trees: list[Tree]
    last_came_at: float = field(default_factory=time.monotonic)
    answered_at: float | None = None
    was_read: bool = False
    is_passed_by: bool = False
    beside: list[Group] = field(default_factory=list)
    writers: list[Tree] = field(default_factory=list)
    parts: set[Node] = field(default_factory=set)

    @property
    def began(self) -> float:
        """When its first run began."""
        return min(tree.root.began for tree in self.trees)

    @property
    def nodes(self) -> list[Node]:
        """The calls of all its runs."""
        nodes: list[Node] = []
        for tree in self.trees:
            nodes += tree.root.walk()
        return nodes

    @property
    def queries(self) -> set[str]:
        """What was searched for, and what else its calls were asked."""
        return {node.query for node in self.nodes if node.query}

    def searched_for(self, query: str) -> bool:
        """Whether one of its calls was asked a query, which stands in one line."""
        query_lines = {as_one_line(known_query) for known_query in self.queries}
        return query in query_lines

    @property
    def questions(self) -> set[str]:
        """What its runs were asked, and its queries."""
        questions = {tree.question for tree in self.trees if tree.question}
        return questions | self.queries

    @property
    def documents(self) -> list[Document]:
        """What was found and handed on, without what its own models wrote."""
        documents: list[Document] = []
        for tree in self.trees:
            for listed in Calls(tree, ()).lists():
                documents += listed
            # a tool that the application called by hand and that returned text
            root = tree.root
            text = root.text or ""
            is_text_alone = root.kind == "tool" and root.documents is None
            if is_text_alone and len(text) >= SHORTEST:
                documents.append(Document(text))
        return documents

    @property
    def answers(self) -> set[str]:
        """What its models wrote, each text in one line, with the texts of structures.

        Where one stands as the assistant's word, the conversation has moved on.
        """
        lines: set[str] = set()
        for call in self._answering_calls():
            reply = Reply(call.reply)
            lines.add(reply.line)
            lines.update(reply.fields)
        return lines - {""}

    @property
    def last_answer(self) -> str:
        """What a model wrote last; empty if none did."""
        answering_calls = self._answering_calls()
        if not answering_calls:
            return ""
        return text_of(max(answering_calls, key=end_of))

    def _answering_calls(self) -> list[Node]:
        """The calls of models that look most like answering, run by run.

        An engine inside a run that gives documents wrote one of these: it answers
        nothing by itself.
        """
        answering_calls: list[Node] = []
        for tree in self.trees:
            if not tree.gives_only_documents:
                answering_calls += Calls(tree, ()).likely_answer_calls
        return answering_calls

    def is_split_from(self, question: str | None) -> bool:
        """Whether its parts answered the questions into which a question was split."""
        if not self.parts:
            return False
        split_questions = {as_one_line(writer.question) for writer in self.writers}
        return as_one_line(question) in split_questions - {""}

    def has_run_of(self, task_or_thread: str) -> bool:
        """Whether one of its runs is of a task or thread."""
        return any(tree.task_or_thread == task_or_thread for tree in self.trees)

    def writes_query(self, query: str) -> bool:
        """Whether one of its models wrote a query."""
        return any(writes_query(tree, query) for tree in self.trees)

    @property
    def names_of_documents(self) -> set[str]:
        """The ids of what its calls found or returned; of documents without id the texts."""
        names: set[str] = set()
        for node in self.nodes:
            names.update(names_of(node.documents or ()))
        return names

    def turns(self) -> list[list[Tree]]:
        """Return its runs as turns: each inner list is one turn.

        Normally all runs are one. Where a model wrote several questions and nothing was
        made of their answers, each of these is a turn, in doubt.
        """
        writer_roots = {writer.root for writer in self.writers}
        asking_runs = [tree for tree in self.trees if tree.root not in writer_roots]
        if any(tree.root not in self.parts for tree in asking_runs):
            return [self.trees]
        return [[doubtful(tree, _ONE_OF_SEVERAL)] for tree in asking_runs]

    def add_writers(self, writers: Iterable[Tree]) -> None:
        """Add runs that wrote what others of it are asked."""
        for writer in writers:
            if writer not in self.trees:
                self.trees.append(writer)
                self.writers.append(writer)

    def add_part(self, tree: Tree) -> None:
        """Add a run that answered one of several questions that a model wrote.

        A run that was shown the question or answer of an earlier part answers for all:
        it is no part itself.
        """
        answers_for_all = bool(self.parts) and self._shows_earlier_part(tree)
        if not answers_for_all:
            self.parts.add(tree.root)
        self.add(tree, answers=answers_for_all)

    def _shows_earlier_part(self, tree: Tree) -> bool:
        """Whether a run was shown the question or the answer of an earlier part."""
        # what a writer wrote is a question, which stands in the prompt of its part
        earlier_parts = [part for part in self.trees if part not in self.writers]
        group_of_parts = Group(earlier_parts, answered_at=self.answered_at)
        shown_groups = _shown_groups(
            [group_of_parts], Prompts.of(Calls(tree)), by_question=True
        )
        return any(
            shown_group.answers or shown_group.is_asked for shown_group in shown_groups
        )

    def add(self, tree: Tree, *, answers: bool) -> None:
        """Add a run.

        Args:
            tree: The run.
            answers: Whether it holds a text that may answer the question.
        """
        self.trees.append(tree)
        self.last_came_at = time.monotonic()
        if answers:
            self.answered_at = end_of(tree.root)

    def take_over(self, groups: Iterable[Group]) -> None:
        """Hold the runs of other groups, too, in the order in which they began."""
        for group in groups:
            self.trees += group.trees
            self.writers += group.writers
            self.parts |= group.parts
            self.was_read |= group.was_read
            self.beside += group.beside
        self.trees.sort(key=lambda tree: tree.root.began)

    def copy_with(self, groups: Sequence[Group]) -> Group:
        """A copy that holds the runs of other groups, too."""
        whole = replace(
            self,
            trees=list(self.trees),
            writers=list(self.writers),
            parts=set(self.parts),
            beside=list(self.beside),
        )
        whole.take_over(groups)
        return whole

    def doubt(self, words: str) -> None:
        """Put its runs in doubt, in words."""
        self.trees[-1] = doubtful(self.trees[-1], words)


def names_of(documents: Iterable[Document]) -> set[str]:
    """The ids of some documents; of documents without id the texts."""
    return {document.id or document.text for document in documents}


@dataclass(frozen=True)
class Prompts:
    """What the models of a run were shown, without what the assistant said.

    Attributes:
        texts: The messages.
        of_this_turn: Those behind the assistant's last message: the turn that goes on
            now.
    """

    texts: Sequence[str]
    of_this_turn: Sequence[str]

    @staticmethod
    def of(calls: Calls) -> Prompts:
        """The prompts of some calls."""
        texts: list[str] = []
        of_this_turn: list[str] = []
        for call in calls.models:
            behind_assistant: list[str] = []
            for message in call.prompt:
                if message.role != "assistant":
                    texts.append(message.text)
                    behind_assistant.append(message.text)
                elif message.text.strip():
                    behind_assistant.clear()
            of_this_turn += behind_assistant
        return Prompts(texts, of_this_turn)


@dataclass(frozen=True, eq=False)
class ShownGroup:
    """What the prompts of a run show of a group.

    Attributes:
        group: The group.
        is_asked: Whether its question stands there.
        texts: Those of its documents and answers that stand there.
        answers: Those of these texts that are answers.
    """

    group: Group
    is_asked: bool
    texts: frozenset[str]
    answers: frozenset[str]

    def is_over_for(self, later: ShownGroup) -> bool:
        """Whether the group was over before another group began.

        It was answered by then. Prompts of the later group only repeat what was said,
        or a document that was found again. Where both searched with one query, and a
        prompt shows the answer, it is not over: a draft is revised.

        Args:
            later: What the same prompts show of the other group.
        """
        answered_at = self.group.answered_at
        if answered_at is None or later.group.began < answered_at:
            return False
        is_draft = self.asks_the_same(later) and bool(self.answers)
        return not is_draft

    def asks_the_same(self, other: ShownGroup) -> bool:
        """Whether both groups searched with one query."""
        return not self.group.queries.isdisjoint(other.group.queries)

    def continues(self, answered: Sequence[ShownGroup]) -> bool:
        """Whether a run goes on with a group of another task or thread than its own.

        The run's prompts show the group's question. Either the group began after those
        of the run's task or thread were answered, or it has another question and still waits
        for an answer.

        Args:
            answered: What the prompts show of the groups of the run's own task or thread.
        """
        if not self.is_asked:
            return False
        if all(other.is_over_for(self) for other in answered):
            return True
        is_another = not any(other.asks_the_same(self) for other in answered)
        return is_another and self.group.answered_at is None

    @property
    def shows_what_was_found(self) -> bool:
        """Whether a document stands there."""
        return bool(self.texts - self.answers)


def groups_that_run_joins(
    groups_of_task: Sequence[Group],
    groups_of_others: Sequence[Group],
    prompts: Prompts,
) -> list[ShownGroup]:
    """Find the groups that a run belongs to, with what its prompts show of each.

    A group, the runs of one question, counts by what the prompts show of it: its
    documents, its answers, its question. Groups of the run's own task or thread (its task or
    thread) go before others. Others count where all of these are answered, and then
    only those whose question stands in the prompts.

    Args:
        groups_of_task: The groups of the run's own task or thread.
        groups_of_others: The groups of other tasks or threads.
        prompts: The prompts of the run.

    Returns:
        The groups whose question stands there first, of these those whose answer does,
        then the latest. A group that adds no text to those before it is left out, and
        so is one that was over when another began.
    """
    shown_groups = _shown_groups(groups_of_task, prompts, by_question=True)
    all_are_answered = all(
        shown_group.group.answered_at is not None for shown_group in shown_groups
    )
    if all_are_answered:
        shown_groups_of_others = _shown_groups(groups_of_others, prompts)
        if shown_groups:
            shown_groups_of_others = [
                other
                for other in shown_groups_of_others
                if other.continues(shown_groups)
            ]
        shown_groups += shown_groups_of_others
    current: list[ShownGroup] = []
    for shown_group in shown_groups:
        if not any(shown_group.is_over_for(other) for other in shown_groups):
            current.append(shown_group)
    current.sort(key=_asked_and_latest, reverse=True)
    chosen: list[ShownGroup] = []
    texts_of_chosen: set[str] = set()
    for shown_group in current:
        adds_text = not shown_group.texts <= texts_of_chosen
        if adds_text or not shown_group.texts:
            chosen.append(shown_group)
            texts_of_chosen |= shown_group.texts
    return chosen


def _asked_and_latest(shown_group: ShownGroup) -> tuple[bool, bool, float]:
    """What shown groups are sorted by: the question stands there, an answer does, the time."""
    return (
        shown_group.is_asked,
        bool(shown_group.answers),
        shown_group.group.last_came_at,
    )


def _shown_groups(
    groups: Sequence[Group], prompts: Prompts, *, by_question: bool = False
) -> list[ShownGroup]:
    """What prompts show of each of some groups, without those of which they show nothing.

    Of a group that found documents one of them stands there, or what was answered from
    them; of another its question.

    Args:
        groups: The groups.
        prompts: The prompts of one run.
        by_question: The question alone is enough where nothing was answered yet, too:
            no document was good enough.
    """
    shown_groups = []
    for group in groups:
        is_asked = any(_is_asked_in(prompts, query) for query in group.queries)
        texts_found: list[str] = []
        for document in group.documents:
            texts_found += document.texts
        answers: set[str] = set()
        if texts_found:
            answers = {
                answer for answer in group.answers if len(answer) >= DISTINCTIVE_LENGTH
            }
        candidates = [*texts_found, *answers]
        order = locate(candidates, prompts.texts).shown_in_order
        texts = frozenset(candidates[index] for index in order)
        waits_for_answer = by_question and group.answered_at is None
        is_enough = waits_for_answer or not candidates
        if texts or (is_asked and is_enough):
            shown_groups.append(ShownGroup(group, is_asked, texts, texts & answers))
    return shown_groups


def _is_asked_in(prompts: Prompts, query: str) -> bool:
    """Whether a query stands in a message of the turn that goes on now."""
    return any(query in text for text in prompts.of_this_turn)
