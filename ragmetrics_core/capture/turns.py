"""Runs that belong to one question: a retrieval and what answers from it, a run that waits and the one that resumes."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic

from ragmetrics_core.capture.calls import (
    FREE_TEXT,
    NO_ANSWER,
    STRUCTURED,
    Calls,
    Reply,
    end_of,
    text_of,
)
from ragmetrics_core.capture.conversations import Conversations, Quoted, of_blocks
from ragmetrics_core.capture.hooks import Lock, Problems, Run
from ragmetrics_core.capture.letters import Text, stream
from ragmetrics_core.capture.locating import OWN, locate
from ragmetrics_core.capture.passages import EDGE, stands_apart
from ragmetrics_core.capture.plain_values import Overrides, one_line
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.capture.transcripts import (
    QUOTATIONS,
    Quotation,
    quotation,
)
from ragmetrics_core.capture.tree import FLOW, THREAD, Node, Tree
from ragmetrics_core.data import Sample

_MOST_WAITING = 1000
_MOST_NEAR = 32
_MOST_LOOSE = 8
_SECONDS = 60.0
_TALK = (
    "an earlier question and its answer stand in the prompt, but no history was found"
)
_MAY_GO_ON = (
    "a later call was shown the answer and nothing that was found: it may be a turn of"
    " its own, or work on the answer"
)
_READ_LATER = (
    "a later call was shown the answer: what it wrote may be what the user reads, or a"
    " remark on it; make both calls in one run, or say the answer by answer_from"
)
_READ_TOO_LATE = (
    "a call was shown an answer whose sample was handed on already; what it wrote may"
    " be what the user reads"
)


def joined(trees: Sequence[Tree], name: str) -> Tree:
    """Several runs of one turn as one: the first question that no model wrote, the last answer."""
    if len(trees) == 1:
        return trees[0]
    root = Node(
        "step",
        name,
        trees[0].root.began,
        trees[-1].root.ended,
        [tree.root for tree in trees],
    )
    calls = Calls(Tree(root))
    asking = _asking(trees, calls)
    question = (
        asking.question
        if asking is not None
        else next((node.query for node in calls.nodes if node.query), None)
    )
    last = _answering(trees, calls, question) if name == FLOW else trees[-1]
    given = {
        name: value for tree in reversed(trees) for name, value in tree.given.items()
    }
    return replace(
        last,
        root=root,
        question=question if asking is not None else None,
        asked_at="" if asking is None else asking.asked_at,
        history=last.history if asking is None else asking.history or last.history,
        error=last.error or last.root.error,
        gives_documents=all(tree.gives_documents for tree in trees),
        given=given,
        unread=sum(tree.unread for tree in trees),
        doubts=tuple(dict.fromkeys(doubt for tree in trees for doubt in tree.doubts)),
        other=tuple(one for tree in trees for one in tree.other),
        places=tuple(place for tree in reversed(trees) for place in tree.places),
        results=tuple(result for tree in reversed(trees) for result in tree.results),
    )


def _asking(trees: Sequence[Tree], calls: Calls) -> Tree | None:
    """The first run whose question is the user's: no model wrote it, and it is not what was found before."""
    written = {
        one_line(text)
        for call in calls.models
        for text in (text_of(call), *calls.replies[call].arguments)
    }
    found = {
        one_line(document.text) for documents in calls.lists() for document in documents
    }
    queries = {one_line(node.query) for node in calls.nodes if node.kind == "retriever"}
    for tree in trees:
        if tree.question is None or tree.root.kind == "retriever":
            continue
        question = one_line(tree.question)
        if question in queries - written:
            return tree
        if question not in written and not _is_made_of_documents(question, found):
            return tree
    return None


def _answering(trees: Sequence[Tree], calls: Calls, question: str | None) -> Tree:
    """The run with the last call that looks like answering, of those that were shown the question if there are such."""
    likely = [*calls.likely, *calls.asked(question, calls.likely)]
    if not likely:
        return trees[-1]
    return next((tree for tree in trees if likely[-1] in tree.root.walk()), trees[-1])


def _is_made_of_documents(question: str, texts: Iterable[str]) -> bool:
    """Whether what a chain was given is what was found before, whole or cut: a script that sums up its hits."""
    line, letters = one_line(question), stream(question)
    return any(
        (len(text) >= OWN and text in line)
        or (len(letters) >= EDGE and letters in stream(text))
        for text in texts
    )


@dataclass
class _Group:
    """Runs without a root that belong to one question, and when the last of them came."""

    trees: list[Tree]
    since: float = field(default_factory=time.monotonic)
    answered_at: float | None = None  # when the last run that answered it ended

    @property
    def began(self) -> float:
        """When its first run began."""
        return min(tree.root.began for tree in self.trees)

    def add(self, tree: Tree, *, answers: bool) -> None:
        self.trees.append(tree)
        self.since = time.monotonic()
        if answers:
            self.answered_at = end_of(tree.root)

    def doubt(self, words: str) -> None:
        """Say what is uncertain about the runs that belong to it."""
        last = self.trees[-1]
        doubts = tuple(dict.fromkeys((*last.doubts, words)))
        self.trees[-1] = replace(last, doubts=doubts)


@dataclass(frozen=True)
class _Showing:
    """What prompts show of a group."""

    group: _Group
    is_asked: bool  # its question stands there
    texts: frozenset[str]  # those of its documents and answers that stand there
    answers: frozenset[str]  # those of them that are answers

    def is_over_for(self, later: "_Showing") -> bool:
        """Whether the group has answered, and another question that prompts show began after that.

        Prompts of the other one repeat what was said, or a document that was found
        again. Where both were asked the same, a prompt that shows the answer goes on
        with it: a draft is revised.
        """
        answered_at = self.group.answered_at
        if answered_at is None or later.group.began < answered_at:
            return False
        return not (self.asks_the_same(later) and self.answers)

    def asks_the_same(self, other: "_Showing") -> bool:
        """Whether both groups searched with one query."""
        return not _queries(self.group).isdisjoint(_queries(other.group))

    def continues(self, answered: Sequence["_Showing"]) -> bool:
        """Whether prompts of another strand ask this group's question after those they answered.

        It began after those were answered, or is another question that still waits
        for its answer.
        """
        if not self.is_asked:
            return False
        if all(one.is_over_for(self) for one in answered):
            return True
        is_another = not any(one.asks_the_same(self) for one in answered)
        return is_another and self.group.answered_at is None

    @property
    def shows_what_was_found(self) -> bool:
        """Whether a document stands there."""
        return bool(self.texts - self.answers)


class Turns(Generic[Run]):
    """Makes samples of runs as they end, and joins those that belong to one question or conversation.

    ``trees`` makes the trees of a recorded run; ``hint`` says what to do where runs
    were seen and none gave a sample.
    """

    def __init__(
        self,
        trees: Callable[[Run], Iterable[Tree]],
        where: Overrides,
        problems: Problems | None = None,
        hint: str = "",
    ) -> None:
        self._trees, self._where, self._hint = trees, where, hint
        self.problems = Problems() if problems is None else problems
        # by thread: it waits for a person, or gave no answer
        self._held: OrderedDict[str, list[Tree]] = OrderedDict()
        self._groups: list[_Group] = []
        self._loose: OrderedDict[str, list[Tree]] = OrderedDict()
        self._seen = self._made = 0
        # questions of runs that gave no sample, each in one line; None of those that
        # count whatever else was asked
        self._without: deque[str | None] = deque()
        # what samples ask and answer, each in one line
        self._words: OrderedDict[str, None] = OrderedDict()
        self.conversations = Conversations()
        # the samples that were made last of one run each
        self._recent: deque[tuple[Tree, Sample]] = deque(maxlen=_MOST_NEAR)
        # by identity: samples whose answer a later call was shown, and what they are now
        self._doubted: dict[int, tuple[Sample, Sample]] = {}
        self._lock = Lock()

    def share(self, named: str | None = None, redact: object = None) -> None:
        """Go on with what other blocks of the same conversation found."""
        shared = of_blocks(named, redact if isinstance(redact, Hashable) else object())
        self.conversations = Conversations(before=shared) if named is None else shared

    def add(self, run: Run) -> list[Sample]:
        """Samples that are complete with this run.

        What must wait for another run is kept.
        """
        with self._lock:
            self._seen += 1
            found = [sample for tree in self._trees(run) for sample in self._of(tree)]
            self._made += len(found)
            return found

    def revised(self, sample: Sample) -> Sample:
        """A sample of ``add`` as it is now: a later run may have put its answer in doubt."""
        with self._lock:
            _, now = self._doubted.pop(id(sample), (sample, sample))
            return now

    def rest(self, *, over: bool = False) -> list[Sample]:
        """Samples that wait for a further run.

        Nothing is forgotten, and what the user should know is said.
        """
        with self._lock:
            held = [(group.trees, FLOW) for group in self._groups]
            held += [
                (trees, THREAD) for trees in self._held.values() if not trees[-1].paused
            ]
            found = [
                sample
                for trees, name in held
                for sample in self._made_of(trees, name, over=over)
            ]
            if any(trees[-1].paused for trees in self._held.values()):
                self.problems.note(
                    "a graph waits for a person; its question is evaluated when it is"
                    " resumed"
                )
            for _ in self._doubted:
                self.problems.note(_READ_TOO_LATE)
            self._doubted.clear()
            if self._hint:
                self._note_those_without_a_sample(made=bool(self._made or found))
            return found

    def _note_those_without_a_sample(self, *, made: bool) -> None:
        """Say what to do, once for each question.

        Where nothing was made at all, once for all other runs.
        """
        while self._without:
            self._note_the_first_without_a_sample()
        if self._seen and not made and not self.problems:
            self.problems.note(self._hint)

    def _note_the_first_without_a_sample(self) -> None:
        """Count it, unless a sample asks or answers the same: it was routed, titled or checked there."""
        question = self._without.popleft()
        if self._hint and (question is None or question not in self._words):
            self.problems.note(self._hint)

    def _gave_none(self, tree: Tree, *, called_tools: bool) -> None:
        """Remember that a question gave no sample, until it is known what else was asked."""
        if tree.question is None:
            return
        self._without.append(None if called_tools else one_line(tree.question))
        if len(self._without) > _MOST_WAITING:
            self._note_the_first_without_a_sample()

    def part(self) -> list[Sample]:
        """Samples of groups, which no later run joins: what comes belongs to another trace."""
        with self._lock:
            found = [
                sample
                for group in self._groups
                for sample in self._made_of(group.trees)
            ]
            self._groups.clear()
            self._loose.clear()
            self._made += len(found)
            return found

    def finish(self) -> list[Sample]:
        """The same, and forget them."""
        with self._lock:
            found = self.part() + self.rest(over=True)
            self._held = OrderedDict(
                (key, trees) for key, trees in self._held.items() if trees[-1].paused
            )
            self._made += len(found)
            return found

    def _of(self, tree: Tree) -> list[Sample]:
        if self._where.build is not None:
            return samples_of(tree, self._where)
        thread, earlier, found = tree.thread, list[Tree](), list[Sample]()
        if thread is not None:
            before = self._held.pop(thread, [])
            if tree.continues:
                earlier = before
            elif before and not before[-1].paused:  # nobody went on with it
                found = self._made_of(before, THREAD)
            if tree.paused:
                return found + self._hold(thread, [*earlier, tree])
        return found + self._answered([*earlier, tree])

    def _answered(self, parts: list[Tree]) -> list[Sample]:
        """A run that may answer by itself.

        Without a retrieval of its own it may go on with another.
        """
        tree = parts[-1]
        writers = self._writers(tree) if len(parts) == 1 else []
        whole = joined([*writers, *parts], FLOW if writers else THREAD)
        calls = Calls(whole, self._where.context_tools or ())
        is_alone = len(parts) == 1 and not (tree.error or tree.root.error)
        if is_alone and (tree.gives_documents or tree.root.kind == "retriever"):
            return self._retrieved(tree)
        if (
            is_alone
            and calls.models
            and not calls.tried
            and self._goes_on_elsewhere(tree, calls)
        ):
            return self._settled()
        whole = self._placed(whole)
        found = samples_of(whole, self._where)
        if tree.thread is not None and any(sample.answer is None for sample in found):
            return self._hold(tree.thread, parts)
        self.conversations.add(whole, found)
        self._remember(whole, found)
        self._keep_words(found)
        if not found and tree.root.kind == "agent" and tree.answers:
            self._gave_none(tree, called_tools=True)
        return found

    def _remember(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Keep the sample of a run for a while: a later call may be shown its answer."""
        self._recent.extend((tree, sample) for sample in samples if len(samples) == 1)

    def _keep_words(self, samples: Sequence[Sample]) -> None:
        """Keep what samples ask and answer for a while: a run that is asked the same needs none."""
        for sample in samples:
            for text in (sample.question, sample.standalone_question, sample.answer):
                self._words[one_line(text)] = None
        while len(self._words) > _MOST_WAITING:
            self._words.popitem(last=False)

    def _doubt_answers_shown_to(
        self, tree: Tree, calls: Calls, questions: Collection[str] | None = None
    ) -> None:
        """Put answers in doubt that a call outside of their runs was shown: it may have written the final answer.

        Args:
            tree: The run of that call.
            calls: Its calls.
            questions: Only answers to these, as they are compared; by default all.
        """
        if max(calls.weights.values(), default=NO_ANSWER) < STRUCTURED:
            return
        hosts = [
            Text(message.text)
            for call in calls.models
            for message in call.prompt
            if message.role != "assistant"
        ]
        of_strand = [one for run, one in self._recent if run.strand == tree.strand]
        last = of_strand[-1] if of_strand else None
        for earlier, sample in list(self._recent):
            now = self._doubted.get(id(sample), (sample, sample))[1]
            is_meant = questions is None or one_line(sample.question) in questions
            if (
                now is sample
                and is_meant
                and _is_worked_on(sample, hosts, is_last=sample is last)
            ):
                doubtful = replace(earlier, doubts=(*earlier.doubts, _READ_LATER))
                for revised in samples_of(doubtful, self._where):
                    self._doubted[id(sample)] = sample, revised

    def _goes_on_elsewhere(self, tree: Tree, calls: Calls) -> bool:
        """Whether a run without a retrieval answers from what another one found, or is no sample by itself."""
        group = self._joined_by(tree, calls)
        if group is not None:
            # the same was searched for again, beside the answer
            asked = set(map(one_line, _queries(group)))
            self._doubt_answers_shown_to(tree, calls, asked)
            return True
        self._doubt_answers_shown_to(tree, calls)
        if self._counts(tree):
            return False
        if tree.conversation is not None:  # what it found may be spoken of later
            self._made_of([replace(tree, is_query=True)])
        return True

    def _placed(self, tree: Tree) -> Tree:
        """A run as a turn of its conversation.

        It is in doubt where its prompts hold an earlier turn, and nothing tells that turn
        from a draft. A question that a model wrote is no turn of the user's.
        """
        quoted = [] if tree.history else self._quoted_by(tree)
        said = [
            one.turn
            for one in quoted
            if one.is_said and not self._is_written(tree.strand, one.turn.question)
        ]
        placed = self.conversations.placed(tree, said[-1] if said else None)
        if quoted and not placed.history:
            return replace(placed, doubts=(*placed.doubts, _TALK))
        return placed

    def _quoted_by(self, tree: Tree) -> list[Quoted]:
        """Earlier turns of which question and answer stand in the prompts of a run."""
        calls = Calls(tree)
        prompts = [
            "\n".join(message.text for message in call.prompt) for call in calls.models
        ]
        said_now = {one_line(node.query) for node in calls.nodes}
        said_now.add(one_line(tree.question))
        # what no later call can have been shown explains no words of a prompt
        latest = max((call.began for call in calls.models), default=0.0)
        said_now |= {
            calls.replies[call].line for call in calls.models if end_of(call) <= latest
        }
        return list(self.conversations.quoted_in(prompts, said_now))

    def _is_written(self, strand: str, question: str) -> bool:
        """Whether a model that was called by itself wrote a question."""
        return any(_wrote(one, question) for one in self._loose_near(strand))

    def _writers(self, tree: Tree) -> list[Tree]:
        """Earlier calls of models that wrote what a run is asked: what the user asked stands there.

        The call of a tool is used once.
        """
        loose, asked = self._loose.get(tree.strand, []), one_line(tree.question)
        found = [part for part in loose if asked and _chose(part, asked)]
        for one in found:
            # a text may be asked again: of an engine, then of a retriever
            if _count_of_tool_calls(one) == 1:
                loose.remove(one)
        self._are_used(found)
        return found

    def _are_used(self, trees: Iterable[Tree]) -> None:
        """Runs belong to a sample after all."""
        for tree in trees:
            with suppress(ValueError):
                self._without.remove(one_line(tree.question))

    def _counts(self, tree: Tree) -> bool:
        """Whether a run is a sample by itself.

        If not, a later retrieval may use what it wrote.
        """
        if tree.is_query or tree.root.taken or self._where.contexts_from is not None:
            return True
        called_tools = any(node.kind == "tool" for node in tree.root.walk())
        self._gave_none(tree, called_tools=called_tools)
        loose = self._loose.setdefault(tree.strand, [])
        self._loose.move_to_end(tree.strand)
        loose.append(tree)
        del loose[:-_MOST_LOOSE]
        if len(self._loose) > _MOST_WAITING:
            self._loose.popitem(last=False)
        return False

    # Runs without a root

    def _retrieved(self, tree: Tree) -> list[Sample]:
        """A retrieval that stands alone begins a group, or goes on with one whose question was rewritten for it."""
        query = one_line(
            next((node.query for node in tree.root.walk() if node.query), None)
        )
        found = self._settled(tree.strand, query)
        wrote = [one for one in self._loose_near(tree.strand) if _wrote(one, query)]
        self._are_used(wrote)
        same, others = self._near(tree.strand)
        group = next(
            (
                one
                for one in (*same, *others)
                if any(_wrote(part, query) for part in one.trees)
            ),
            None,
        )
        group = group or next(
            (one for one in same if any(_is_told_to(writer, one) for writer in wrote)),
            None,
        )
        group = group or next(
            (one for one in (*same, *others) if _gave(one, tree)), None
        )
        if group is None:
            self._groups.append(group := _Group([*wrote]))
        elif wrote:
            group.trees += [one for one in wrote if one not in group.trees]
        group.add(tree, answers=False)
        if len(self._groups) > _MOST_WAITING:
            found += self._made_of(self._groups.pop(0).trees)
        return found

    def _loose_near(self, strand: str) -> list[Tree]:
        """Runs that are no samples by themselves: those of a strand, and the latest of others.

        Searches for several queries at once run in threads of their own.
        """
        own = self._loose.get(strand, [])
        latest = [*self._loose.values()][-_MOST_LOOSE:]
        return [*own, *(one for some in latest if some is not own for one in some)]

    def _joined_by(self, tree: Tree, calls: Calls) -> _Group | None:
        """Add a run to the groups whose documents it shows to a model.

        Several groups become one.

        Returns:
            That group; None if the run shows nothing of any.
        """
        messages = [message for call in calls.models for message in call.prompt]
        prompts = [message.text for message in messages]
        said = {
            one_line(message.text)
            for message in messages
            if message.role == "assistant"
        }
        same, others = self._near(tree.strand)
        quotations = _quotations([*same, *others], prompts)
        over = [
            group
            for group in (*same, *others)
            if quotations[id(group)] in ("said", "perhaps said")
            or not _answers(group).isdisjoint(said)
        ]
        for group in over:
            if quotations[id(group)] == "perhaps said":
                group.doubt(_MAY_GO_ON)
        showings = _shown(
            [group for group in same if group not in over],
            [group for group in others if group not in over],
            prompts,
        )
        if not showings:
            return None
        found = [showing.group for showing in showings]
        is_in_doubt = any(
            quotations[id(showing.group)] == "beside its question"
            and not showing.shows_what_was_found
            for showing in showings
        )
        first, *rest = found
        for group in rest:
            first.trees += group.trees
            self._groups.remove(group)
        first.trees.sort(key=lambda part: part.root.began)
        first.add(
            tree, answers=any(calls.weights[call] == FREE_TEXT for call in calls.models)
        )
        if is_in_doubt:
            first.doubt(_MAY_GO_ON)
        return first

    def _near(self, strand: str) -> tuple[list[_Group], list[_Group]]:
        """Groups of a strand, and the latest of others; the latest first."""
        latest = self._groups[::-1]
        same = [
            group
            for group in latest
            if any(part.strand == strand for part in group.trees)
        ]
        return same, [group for group in latest[:_MOST_NEAR] if group not in same]

    def _settled(self, strand: str | None = None, query: str = "") -> list[Sample]:
        """Groups that are over: nothing joined them for long, or another question begins in their strand."""
        now, over = time.monotonic(), []
        for group in self._groups:
            moved_on = (
                group.answered_at is not None
                and strand is not None
                and group.trees[-1].strand == strand
            )
            if now - group.since > _SECONDS or (
                moved_on and not any(_wrote(part, query) for part in group.trees)
            ):
                over.append(group)
        self._groups = [group for group in self._groups if group not in over]
        return [sample for one in over for sample in self._made_of(one.trees)]

    def _made_of(
        self, trees: Sequence[Tree], name: str = FLOW, *, over: bool = True
    ) -> list[Sample]:
        """Samples of runs that belong together; ``over``: no further run will, so that they are a turn."""
        whole = self._placed(joined(trees, name))
        found = samples_of(whole, self._where)
        self._keep_words(found)
        if over:
            self.conversations.add(whole, found)
            self._remember(whole, found)
        return found

    def _hold(self, thread: str, trees: list[Tree]) -> list[Sample]:
        """Hold runs in bounded memory; what had to go for them gives its samples."""
        self._held[thread] = trees
        return (
            self._made_of(self._held.popitem(last=False)[1], THREAD)
            if len(self._held) > _MOST_WAITING
            else []
        )


def _count_of_tool_calls(tree: Tree) -> int:
    """How many tools the models of a run called."""
    replies = [node.reply for node in tree.root.walk() if node.reply is not None]
    return sum(len(reply.calls) for reply in replies)


def _chose(tree: Tree, query: str) -> bool:
    """Whether a model of a run called a tool with a query, or wrote the query and nothing else."""
    replies = [Reply(node.reply) for node in tree.root.walk() if node.kind == "model"]
    return any(
        query in (reply.line, *map(one_line, reply.arguments)) for reply in replies
    )


def _wrote(tree: Tree, query: str) -> bool:
    """Whether a model of a run wrote a query."""
    return any(
        Reply(node.reply).wrote(query)
        for node in tree.root.walk()
        if node.kind == "model"
    )


def _is_told_to(writer: Tree, group: _Group) -> bool:
    """Whether a run was shown what was searched for in a group: it wrote further queries for it."""
    shown = "\n".join(
        one_line(message.text) for node in writer.root.walk() for message in node.prompt
    )
    return any(one_line(query) in shown for query in _queries(group))


def _gave(group: _Group, tree: Tree) -> bool:
    """Whether a group holds documents that a run was handed: a reranker called by hand."""
    held = {
        one.id or one.text
        for part in group.trees
        for node in part.root.walk()
        for one in node.documents or ()
    }
    return any((one.id or one.text) in held for one in tree.root.taken)


def _shown(
    same: Sequence[_Group], others: Sequence[_Group], prompts: Sequence[str]
) -> list[_Showing]:
    """What prompts show of the groups that belong to them.

    Those whose question stands there come first, then the latest; each adds a text.

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
        one for one in showings if not any(one.is_over_for(other) for other in showings)
    ]
    current.sort(
        key=lambda showing: (showing.is_asked, showing.group.since), reverse=True
    )
    chosen: list[_Showing] = []
    texts: set[str] = set()
    for showing in current:
        if not showing.texts or showing.texts - texts:
            chosen.append(showing)
            texts |= showing.texts
    return chosen


def _quotations(
    groups: Iterable[_Group], prompts: Sequence[str]
) -> dict[int, Quotation]:
    """How prompts quote the last answer of each of some groups, by the identity of the group."""
    hosts = [Text(prompt) for prompt in prompts]
    ways: dict[int, Quotation] = {}
    for group in groups:
        answer, questions = _last_answer(group), _questions(group)
        quoted = [quotation(answer, questions, host) for host in hosts]
        ways[id(group)] = min(quoted, key=QUOTATIONS.index, default="nowhere")
    return ways


def _showings(
    groups: Sequence[_Group], prompts: Sequence[str], *, by_question: bool = False
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
            query in prompt for query in _queries(group) for prompt in prompts
        )
        documents = [
            document
            for part in group.trees
            for some in Calls(part, ()).lists()
            for document in some
        ]
        held = [
            text for document in documents for text in (document.text, *document.forms)
        ]
        answers = {text for text in _answers(group) if held and len(text) >= OWN}
        held += answers
        texts = frozenset(held[index] for index in locate(held, prompts).order)
        waits = by_question and group.answered_at is None
        if texts or (is_asked and (waits or not held)):
            showings.append(_Showing(group, is_asked, texts, texts & answers))
    return showings


def _answers(group: _Group) -> set[str]:
    """What models wrote in a group.

    Where it stands as the assistant's word, the conversation has moved on.
    """
    replies = [
        Reply(call.reply) for part in group.trees for call in Calls(part, ()).likely
    ]
    texts = {reply.line for reply in replies}
    return texts.union(*(reply.fields for reply in replies)) - {""}


def _is_worked_on(sample: Sample, hosts: Sequence[Text], *, is_last: bool) -> bool:
    """Whether messages of a prompt hold an answer, and not as an earlier turn of a talk.

    A short one counts where its question stands there, too, or where it is the last one
    and stands by itself.
    """
    answer, question = sample.answer or "", sample.question or ""
    ways = [quotation(answer, {question}, host) for host in hosts]
    if "said" in ways or all(way == "nowhere" for way in ways):
        return False
    if len(answer) >= OWN:
        return True
    is_asked = any(quotation(question, (), host) != "nowhere" for host in hosts)
    is_apart = any(stands_apart(answer.strip(), host.raw) for host in hosts)
    return is_asked or (is_last and is_apart and len(answer.split()) > 1)


def _last_answer(group: _Group) -> str:
    """What a model wrote last in a group; empty if none did."""
    calls = [call for part in group.trees for call in Calls(part, ()).likely]
    return text_of(max(calls, key=end_of)) if calls else ""


def _questions(group: _Group) -> set[str]:
    """What was asked in a group, of retrievers and of its runs."""
    asked = {tree.question for tree in group.trees if tree.question}
    return asked | _queries(group)


def _queries(group: _Group) -> set[str]:
    return {
        node.query for part in group.trees for node in part.root.walk() if node.query
    }
