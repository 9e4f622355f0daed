"""Runs without a root that belong to one question.

An application of plain functions makes each search and each call of a model a run of
its own. A **group** holds those of one question. A run joins it by what it shows: a
document that was found there, an answer that was given there, or its question. A
**strand** is the task or thread that a run ran in.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture.calls import FREE_TEXT, Calls, Reply, end_of, text_of
from ragmetrics_core.capture.letters import Text
from ragmetrics_core.capture.locating import OWN, locate
from ragmetrics_core.capture.loose_runs import writes_query
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import QUOTATIONS, Quotation, quotation
from ragmetrics_core.capture.tree import Document, Node, Tree

_MOST_WAITING = 1000
_MOST_OF_OTHER_STRANDS = 32
_LONGEST_WAIT_S = 60.0
_MAY_GO_ON = (
    "a later call was shown the answer and nothing that was found: it may be a turn of"
    " its own, or work on the answer"
)


_ONE_OF_SEVERAL = (
    "a model wrote this question beside others: what the user asked, and what was made"
    " of the answers, is not known"
)
_SEVERAL_WROTE = (
    "several models wrote what was searched for, at once: which of them it was searched"
    " for is not certain"
)


_SEARCHED_BEFORE = (
    "a search just before found what the answer was shown as well, and nothing answered"
    " from it: whether it was made for this question is not certain"
)


def doubtful(tree: Tree, words: str) -> Tree:
    """The same run with one more doubt, in words."""
    return replace(tree, doubts=tuple(dict.fromkeys((*tree.doubts, words))))


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
        is_passed_by: Whether a question of its strand that began later was answered and
            is over.
        beside: Groups of searches near its own that found some of the same documents.
            If no model ever reads them, they belong to its question.
        writers: Those runs that wrote what others were asked.
        parts: Roots of runs that answered one of several questions that a model wrote.
    """

    trees: list[Tree]
    # when the last of them came, by the clock of this process
    last_came_at: float = field(default_factory=time.monotonic)
    # when the last run that answered it ended; None before
    answered_at: float | None = None
    # a model was shown what was found
    was_read: bool = False
    # a later question of its strand is over
    is_passed_by: bool = False
    # near searches that found some of the same documents
    beside: list[Group] = field(default_factory=list)
    # runs that wrote what others were asked
    writers: list[Tree] = field(default_factory=list)
    # the roots of runs that answered one of several questions that a model wrote
    parts: set[Node] = field(default_factory=set)

    @property
    def began(self) -> float:
        """When its first run began."""
        return min(tree.root.began for tree in self.trees)

    @property
    def nodes(self) -> Iterator[Node]:
        """The calls of all its runs."""
        return (node for tree in self.trees for node in tree.root.walk())

    @property
    def queries(self) -> set[str]:
        """What was searched for, and what else its calls were asked."""
        return {node.query for node in self.nodes if node.query}

    def searched_for(self, query: str) -> bool:
        """Whether one of its calls was asked a query, which stands in one line."""
        return query in map(as_one_line, self.queries)

    @property
    def questions(self) -> set[str]:
        """What its runs were asked, and its queries."""
        return {tree.question for tree in self.trees if tree.question} | self.queries

    @property
    def documents(self) -> list[Document]:
        """What was found and handed on, without what its own models wrote."""
        lists = [documents for calls in self._calls() for documents in calls.lists()]
        return [document for documents in lists for document in documents]

    @property
    def answers(self) -> set[str]:
        """What its models wrote, each text in one line, with the texts of structures.

        Where one stands as the assistant's word, the conversation has moved on.
        """
        replies = [Reply(call.reply) for call in self._answering_calls()]
        lines = {reply.line for reply in replies}
        fields = {text for reply in replies for text in reply.fields}
        return (lines | fields) - {""}

    @property
    def last_answer(self) -> str:
        """What a model wrote last; empty if none did."""
        answering = self._answering_calls()
        return text_of(max(answering, key=end_of)) if answering else ""

    def _answering_calls(self) -> list[Node]:
        """The calls of models that look most like answering, run by run.

        An engine inside a run that gives documents wrote one of these: it answers
        nothing by itself.
        """
        answering = [tree for tree in self.trees if not tree.gives_documents]
        return [call for tree in answering for call in Calls(tree, ()).likely]

    def _calls(self) -> list[Calls]:
        return [Calls(tree, ()) for tree in self.trees]

    def is_split_from(self, question: str | None) -> bool:
        """Whether its parts answered the questions into which a question was split."""
        questions = {as_one_line(writer.question) for writer in self.writers} - {""}
        return bool(self.parts) and as_one_line(question) in questions

    def is_of(self, strand: str) -> bool:
        """Whether one of its runs is of a strand."""
        return any(tree.strand == strand for tree in self.trees)

    def writes_query(self, query: str) -> bool:
        """Whether one of its models wrote a query."""
        return any(writes_query(tree, query) for tree in self.trees)

    @property
    def names_of_documents(self) -> set[str]:
        """The ids of what its calls found or returned; of documents without id the texts."""
        return {
            document.id or document.text
            for node in self.nodes
            for document in node.documents or ()
        }

    def turns(self) -> list[list[Tree]]:
        """Return its runs as turns: each inner list is one turn.

        Normally all runs are one. Where a model wrote several questions and nothing was
        made of their answers, each of these is a turn, in doubt.
        """
        written = {writer.root for writer in self.writers}
        asking = [tree for tree in self.trees if tree.root not in written]
        if any(tree.root not in self.parts for tree in asking):
            return [self.trees]
        return [[doubtful(tree, _ONE_OF_SEVERAL)] for tree in asking]

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
        showings: list[_Showing] = []
        if self.parts:
            # what a writer wrote is a question, which stands in the prompt of its part
            earlier = [
                known_tree
                for known_tree in self.trees
                if known_tree not in self.writers
            ]
            asked_before = Group(earlier, answered_at=self.answered_at)
            prompts = _Prompts.of(Calls(tree))
            showings = _showings([asked_before], prompts, by_question=True)
        is_told = any(showing.answers or showing.is_asked for showing in showings)
        if not is_told:
            self.parts.add(tree.root)
        self.add(tree, answers=is_told)

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


class Groups:
    """The groups that wait for further runs.

    The group that began to wait first stands first. Methods named ``take`` remove the
    groups that they return.
    """

    def __init__(self) -> None:
        self._waiting: list[Group] = []

    def __iter__(self) -> Iterator[Group]:
        """The groups as they are if no further run comes."""
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
        open_writers = self._open_writers(tree.strand, query, writers)
        writer = self._writer(open_writers, query)
        group = self._asking_for(tree, query, writer)
        if group is None:
            group = self._new_group()
        if writer is not None:
            group.add_writers([writer])
        group.add(tree, answers=False)
        if len(open_writers) > 1:
            for open_writer in open_writers:
                if (asking := self._group_of(open_writer)) is not None:
                    asking.doubt(_SEVERAL_WROTE)

    def _open_writers(
        self, strand: str, query: str, writers: Sequence[Tree]
    ) -> list[Tree]:
        """The runs that may have written a query for a search that is made now.

        If some are of the search's strand, it is the last of these. Otherwise all count
        that wait for an answer; if none waits, the last one. The first to run stands
        first.
        """
        written = [
            tree
            for group in self._waiting
            for tree in group.trees
            if writes_query(tree, query)
        ]
        all_of_them = {tree.root: tree for tree in (*writers, *written)}
        ordered = sorted(all_of_them.values(), key=lambda tree: tree.root.began)
        of_the_strand = [tree for tree in ordered if tree.strand == strand]
        if of_the_strand:
            return of_the_strand[-1:]
        waiting = [tree for tree in ordered if not self._is_answered(tree)]
        return waiting or ordered[-1:]

    def _is_answered(self, writer: Tree) -> bool:
        """Whether what a run wrote was searched for and answered from."""
        group = self._group_of(writer)
        if group is None or group.answered_at is None:
            return False
        return group.answered_at > end_of(writer.root)

    def _writer(self, writers: Sequence[Tree], query: str) -> Tree | None:
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

    def _new_group(self) -> Group:
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
        group = self._group_of(writer) or self._new_group()
        group.add_writers([writer])
        group.add_part(tree)

    def _asking_for(self, tree: Tree, query: str, writer: Tree | None) -> Group | None:
        """The group that a retrieval goes on with; None if there is none.

        There are three ways. The retrieval was handed documents of groups: a reranker
        that is called by hand. These groups become one. Or the group holds the run that
        wrote the query. Or that run was shown what was searched for in the group, and
        wrote a further query.
        """
        same, near_groups = self._near(tree.strand)
        giving = _groups_that_gave(tree.root.taken, query, same)
        if not giving:
            giving = _groups_that_gave(tree.root.taken, query, near_groups)
        of_writer = None if writer is None else self._group_of(writer)
        if giving:
            beside = [] if of_writer is None or of_writer in giving else [of_writer]
            group = self._as_one([*giving, *beside])
            names = {document.id or document.text for document in tree.root.taken}
            group.beside += self._searches_beside(group, names)
            return group
        if of_writer is not None:
            return of_writer
        if writer is None:
            return None
        for group in same:
            if not group.searched_for(query) and _is_told_to(writer, group):
                return group
        return None

    def join(self, tree: Tree, calls: Calls) -> Group | None:
        """Add a run to the groups whose documents it shows to a model.

        Several groups become one. Groups whose answer the run may only go on with are
        put in doubt.

        Returns:
            That group; None if the run shows nothing of any.
        """
        same, of_other_strands = self._near(tree.strand)
        ways = _ways_of_quoting([*same, *of_other_strands], calls)
        over = _over(ways, tree, calls)
        for group in over:
            if ways[group] == "perhaps said":
                group.doubt(_MAY_GO_ON)
        showings = _find_showings(
            [group for group in same if group not in over],
            [group for group in of_other_strands if group not in over],
            _Prompts.of(calls),
        )
        if not showings:
            return None
        shown = {text for showing in showings for text in showing.texts}
        group = self._as_one([showing.group for showing in showings])
        names_shown = {
            document.id or document.text
            for document in group.documents
            if not shown.isdisjoint(document.texts)
        }
        group.beside += self._searches_beside(group, names_shown)
        is_answered = any(calls.weights[call] == FREE_TEXT for call in calls.models)
        group.add(tree, answers=is_answered)
        group.was_read = True
        for showing in showings:
            is_beside = ways[showing.group] == "beside its question"
            if is_beside and not showing.shows_what_was_found:
                group.doubt(_MAY_GO_ON)
        return group

    def _as_one(self, groups: Sequence[Group]) -> Group:
        """The first of some groups, with what the others hold; these wait no longer."""
        first_group, *rest = groups
        first_group.take_over(rest)
        self._waiting = [group for group in self._waiting if group not in rest]
        return first_group

    def _searches_beside(self, group: Group, names: Collection[str]) -> list[Group]:
        """Searches near those of a group that found some of the same documents.

        No model has read them yet. They began after the first search of the group, or
        right before it, so that nothing was read or answered in between.

        Args:
            group: The group.
            names: The ids of the documents that a model or a reranker was handed for
                the group; of documents without id the texts.
        """
        same, _ = self._near(group.trees[-1].strand)
        same.sort(key=lambda other: other.began, reverse=True)
        beside: list[Group] = []
        for other in same:
            if other is group or other.is_passed_by:
                continue
            is_like_it = not other.was_read and not other.names_of_documents.isdisjoint(
                names
            )
            if is_like_it:
                beside.append(other)
            elif other.began < group.began:
                break
        return beside

    def _with_searches_beside(self, groups: Sequence[Group]) -> list[Group]:
        """Some groups as they are if no further run comes.

        A search beside a group that no model has read belongs to the question of that
        group if it was made after the first search of the group, or asked the same.
        Otherwise it may be a question of its own: both stay, and the group is in doubt.

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
            searches = [
                search for search, owner in owner_by_search.items() if owner is group
            ]
            is_doubtful = any(
                search not in owner_by_search for search in self._unread_beside(group)
            )
            whole = group.copy_with(searches) if searches or is_doubtful else group
            if is_doubtful:
                whole.doubt(_SEARCHED_BEFORE)
            whole_groups.append(whole)
        return whole_groups

    def _unread_beside(self, group: Group) -> list[Group]:
        """The searches beside a group that still wait and that no model has read."""
        return [
            search
            for search in group.beside
            if not search.was_read and search in self._waiting
        ]

    def take_over_due(self, strand: str | None = None, query: str = "") -> list[Group]:
        """Remove and return the groups that no further run will join.

        Nothing joined them for long, or they were answered and another question begins
        in their strand. A group that asked the same query may be due, too; the last of
        these waits on, since its answer may be a draft that is revised yet.

        Args:
            strand: Where a search begins now; None where none does.
            query: What is searched for, in one line. A group that wrote it goes on.
        """
        now = time.monotonic()
        due: list[Group] = []
        asks_the_same: list[Group] = []
        for group in self._waiting:
            if now - group.last_came_at > _LONGEST_WAIT_S:
                due.append(group)
            elif _is_left_behind(group, strand, query):
                if group.searched_for(query):
                    asks_the_same.append(group)
                else:
                    due.append(group)
        # a draft of the last one may be revised yet
        due += asks_the_same[:-1]
        due.sort(key=lambda group: group.began)
        whole_groups = self._with_searches_beside(due)
        taken = {tree.root for group in whole_groups for tree in group.trees}
        self._waiting = [
            group for group in self._waiting if group.trees[0].root not in taken
        ]
        for over in whole_groups:
            for group in self._near(over.trees[-1].strand)[0]:
                group.is_passed_by |= group.began < over.trees[-1].root.began
        return whole_groups

    def take_too_many(self) -> list[Group]:
        """Remove and return the groups that wait longest, where too many wait."""
        count = max(0, len(self._waiting) - _MOST_WAITING)
        given_up, self._waiting = self._waiting[:count], self._waiting[count:]
        return given_up

    def _near(self, strand: str) -> tuple[list[Group], list[Group]]:
        """The groups of a strand, and the latest groups of other strands.

        The latest stands first in both.
        """
        latest = self._waiting[::-1]
        same = [group for group in latest if group.is_of(strand)]
        of_other_strands = latest[:_MOST_OF_OTHER_STRANDS]
        return same, [group for group in of_other_strands if group not in same]


def _is_left_behind(group: Group, strand: str | None, query: str) -> bool:
    """Whether a group was answered and another question begins in its strand."""
    if group.answered_at is None or strand is None:
        return False
    return group.trees[-1].strand == strand and not group.writes_query(query)


def _groups_that_gave(
    documents: Iterable[Document], query: str, groups: Sequence[Group]
) -> list[Group]:
    """The groups whose documents a reranker was handed that the application called.

    Groups that searched for what the reranker is asked go before others, and of these
    the latest. Groups are taken until each document is accounted for. Groups that were
    answered count only where no other one gave any.

    Args:
        documents: What the reranker was handed.
        query: What it was asked, in one line; empty if it was asked nothing.
        groups: Groups of one strand, the latest first.

    Returns:
        The groups; empty if none gave any of the documents.
    """
    missing = {document.id or document.text for document in documents}
    giving = [
        group for group in groups if not missing.isdisjoint(group.names_of_documents)
    ]
    waiting = [group for group in giving if group.answered_at is None]
    if not waiting:
        return giving[:1]
    # a stable sort: the latest stay first
    waiting.sort(key=lambda group: not group.searched_for(query))
    chosen: list[Group] = []
    for group in waiting:
        if missing:
            chosen.append(group)
            missing -= group.names_of_documents
    return chosen


def _is_told_to(writer: Tree, group: Group) -> bool:
    """Whether a run was shown what was searched for first in a group.

    What it wrote are then further queries for that group.
    """
    words_shown = "\n".join(
        as_one_line(message.text)
        for node in writer.root.walk()
        for message in node.prompt
    )
    queried = [node for node in group.nodes if node.query]
    first_query = min(queried, key=lambda node: node.began, default=None)
    return first_query is not None and as_one_line(first_query.query) in words_shown


def _has_moved_on(
    group: Group, way: Quotation, said: Collection[str], question: str | None
) -> bool:
    """Whether prompts repeat a group's answer as the assistant's word.

    Args:
        group: The group.
        way: How the prompts quote its last answer.
        said: The messages of the assistant in the prompts, each in one line.
        question: What the run of the prompts was asked.
    """
    if not group.answers.isdisjoint(said):
        return True
    if way not in ("said", "perhaps said"):
        return False
    # pairs of a part and its answer look like a talk
    return not group.is_split_from(question)


def _asks_anew(tree: Tree, group: Group, prompts: Sequence[str]) -> bool:
    """Whether a run was handed documents and asks a question of its own.

    A group was answered, and the application kept what it had found. The group's own
    question stands in none of the prompts.
    """
    if not tree.root.taken or tree.question is None or group.answered_at is None:
        return False
    questions = group.questions
    is_the_same = as_one_line(tree.question) in map(as_one_line, questions)
    is_repeated = any(text in prompt for text in questions for prompt in prompts)
    return not is_the_same and not is_repeated


def _over(ways: Mapping[Group, Quotation], tree: Tree, calls: Calls) -> list[Group]:
    """The groups that a run does not go on with: their turn is over.

    Args:
        ways: How the prompts of the run quote the last answer of each group.
        tree: The run.
        calls: Its calls.
    """
    messages = [message for call in calls.models for message in call.prompt]
    prompts = [message.text for message in messages]
    said_lines: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            said_lines.add(as_one_line(message.text))
    over: list[Group] = []
    for group, way in ways.items():
        has_moved_on = _has_moved_on(group, way, said_lines, tree.question)
        is_forgotten = way == "nowhere" and _asks_anew(tree, group, prompts)
        if has_moved_on or is_forgotten:
            over.append(group)
    return over


def _ways_of_quoting(groups: Iterable[Group], calls: Calls) -> dict[Group, Quotation]:
    """How the prompts of a run quote the last answer of each of some groups."""
    hosts = [Text(message.text) for call in calls.models for message in call.prompt]
    return {group: _way_of_quoting(group, hosts) for group in groups}


def _way_of_quoting(group: Group, hosts: Sequence[Text]) -> Quotation:
    """How prompts quote the last answer of a group."""
    answer, questions = group.last_answer, group.questions
    ways = [quotation(answer, questions, host) for host in hosts]
    return min(ways, key=QUOTATIONS.index, default="nowhere")


# What prompts show of groups


@dataclass(frozen=True)
class _Prompts:
    """What the models of a run were shown, without what the assistant said.

    Attributes:
        texts: The messages.
        of_this_turn: Those behind the assistant's last message: the turn that goes on
            now.
    """

    texts: Sequence[str]
    # those that stand behind what the assistant said last: the turn that goes on now
    of_this_turn: Sequence[str]

    @staticmethod
    def of(calls: Calls) -> _Prompts:
        """The prompts of some calls."""
        texts: list[str] = []
        of_this_turn: list[str] = []
        for call in calls.models:
            spoken = [
                place
                for place, message in enumerate(call.prompt)
                if message.role == "assistant" and message.text.strip()
            ]
            start = spoken[-1] if spoken else 0
            for place, message in enumerate(call.prompt):
                if message.role != "assistant":
                    texts.append(message.text)
                    if place >= start:
                        of_this_turn.append(message.text)
        return _Prompts(texts, of_this_turn)


@dataclass(frozen=True, eq=False)
class _Showing:
    """What the prompts of a run show of a group.

    Attributes:
        group: The group.
        is_asked: Whether its question stands there.
        texts: Those of its documents and answers that stand there.
        answers: Those of these texts that are answers.
    """

    group: Group
    is_asked: bool  # its question stands there
    texts: frozenset[str]  # those of its documents and answers that stand there
    answers: frozenset[str]  # those of them that are answers

    def is_over_for(self, later: _Showing) -> bool:
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
        return not (self.asks_the_same(later) and self.answers)

    def asks_the_same(self, other: _Showing) -> bool:
        """Whether both groups searched with one query."""
        return not self.group.queries.isdisjoint(other.group.queries)

    def continues(self, answered: Sequence[_Showing]) -> bool:
        """Whether a run goes on with a group of another strand than its own.

        The run's prompts show the group's question. Either the group began after those
        of the run's strand were answered, or it has another question and still waits
        for an answer.

        Args:
            answered: What the prompts show of the groups of the run's own strand.
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


def _find_showings(
    same: Sequence[Group], others: Sequence[Group], prompts: _Prompts
) -> list[_Showing]:
    """Find the groups that a run belongs to, with what its prompts show of each.

    Groups whose question stands there come first, of these those whose answer does,
    then the latest. A group that adds no text to those before it is left out.

    Args:
        same: The groups of the strand in which the prompts were sent. Others count
            where all of these are over, and then only those whose question stands
            there.
        others: The groups of other strands.
        prompts: The prompts of one run.
    """
    showings = _showings(same, prompts, by_question=True)
    if all(showing.group.answered_at is not None for showing in showings):
        beside = _showings(others, prompts)
        if showings:
            beside = [other for other in beside if other.continues(showings)]
        showings += beside
    current = [
        showing
        for showing in showings
        if not any(showing.is_over_for(other) for other in showings)
    ]
    current.sort(
        key=lambda showing: (
            showing.is_asked,
            bool(showing.answers),
            showing.group.last_came_at,
        ),
        reverse=True,
    )
    chosen: list[_Showing] = []
    texts: set[str] = set()
    for showing in current:
        if not showing.texts or showing.texts - texts:
            chosen.append(showing)
            texts |= showing.texts
    return chosen


def _showings(
    groups: Sequence[Group], prompts: _Prompts, *, by_question: bool = False
) -> list[_Showing]:
    """What prompts show of each of some groups, without those of which they show nothing.

    Of a group that found documents one of them stands there, or what was answered from
    them; of another its question.

    Args:
        groups: The groups.
        prompts: The prompts of one run.
        by_question: The question alone is enough where nothing was answered yet, too:
            no document was good enough.
    """
    showings = []
    for group in groups:
        is_asked = any(
            query in text for query in group.queries for text in prompts.of_this_turn
        )
        texts_found = [text for document in group.documents for text in document.texts]
        answers = {text for text in group.answers if texts_found and len(text) >= OWN}
        candidates = [*texts_found, *answers]
        order = locate(candidates, prompts.texts).order
        texts = frozenset(candidates[index] for index in order)
        waits = by_question and group.answered_at is None
        if texts or (is_asked and (waits or not candidates)):
            showings.append(_Showing(group, is_asked, texts, texts & answers))
    return showings
