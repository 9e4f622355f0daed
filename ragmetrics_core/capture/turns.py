"""Runs that belong to one question, joined before samples are made of them.

A retrieval waits for what answers from it, and a paused run for the one that resumes
it. Four terms:

    - A **turn** is one question of a user, with all runs that answer it.
    - A **group** is the runs of one question that have no outermost run around them.
    - A **task or thread** is the one in which a run ran.
    - A run is **loose** if it gives no sample by itself, such as a rewriter of the
      question: a later run may use what it wrote.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from ragmetrics_core.capture.answers_read_later import AnswersReadLater
from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.conversations import (
    CapturedTurn,
    Conversations,
    QuotedTurn,
    conversations_of_blocks,
)
from ragmetrics_core.capture.group import Group, doubtful
from ragmetrics_core.capture.groups import Groups
from ragmetrics_core.capture.hooks import Lock, Problems, Run
from ragmetrics_core.capture.joining import join_trees
from ragmetrics_core.capture.loose_runs import LooseRuns, writes_query
from ragmetrics_core.capture.plain_values import Overrides, as_one_line
from ragmetrics_core.capture.prompt_turns import turns_before_question
from ragmetrics_core.capture.question import question_without_chain
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.capture.tree import FLOW, THREAD, Document, Message, Tree
from ragmetrics_core.capture.unsampled import Unsampled
from ragmetrics_core.data import Sample
from ragmetrics_core.data.undivided import (
    how_to_name_tools,
    tools_with_undivided_text,
)

_MOST_WAITING = 1000
_MOST_FOUND = 10_000
_TALK = (
    "an earlier question and its answer stand in the prompt, but no history was found"
)
_ANSWER_ALONE = (
    "an earlier answer stands in the prompt without its question, and no history was"
    " found"
)
_MAY_BE_EXAMPLES = (
    "messages of user and assistant stand before the question in the prompt: they are"
    " taken for earlier turns, and may be examples"
)
_READ_TOO_LATE = (
    "a call was shown an answer whose sample was handed on already; what it wrote may"
    " be what the user reads"
)
_NAMED_IN_EACH_PART = (
    "each part of a question has contexts at contexts_from=, and those of one are taken"
)
_FOUND_EARLIER = (
    "the documents were found in an earlier turn and handed in again: what was searched"
    " for now, and which of what was asked are the user's words, is not certain"
)
_PAUSED = "a graph waits for a person; its question is evaluated when it is resumed"


class Turns(Generic[Run]):
    """Makes samples of runs as they end, and joins runs that belong together.

    They belong together if they are of one question, and go on with each other if they
    are of one conversation.

    Args:
        trees: Makes the trees of a recorded run.
        where: What the user says of them.
        problems: Where internal errors are counted.
        hint: What to do where runs were seen and none gave a sample.
    """

    def __init__(
        self,
        trees: Callable[[Run], Iterable[Tree]],
        where: Overrides,
        problems: Problems | None = None,
        hint: str = "",
    ) -> None:
        self._trees_of = trees
        self._where = where
        self.problems = Problems() if problems is None else problems
        # by thread the runs that wait for a person, or gave no answer
        self._waiting_runs: OrderedDict[str, list[Tree]] = OrderedDict()
        self._groups = Groups()
        self._loose_runs = LooseRuns()
        # hashes of documents that retrievals without a root found, the last one last
        self._hashes_found: OrderedDict[int, None] = OrderedDict()
        self._n_runs = 0
        self._n_samples = 0
        self._unsampled = Unsampled(self.problems, hint)
        # answers that a later call may replace
        self._read_later = AnswersReadLater(lambda tree: samples_of(tree, where))
        self.conversations = Conversations()
        self._lock = Lock()

    def share_with_conversation(
        self, named: str | None = None, redact: object = None
    ) -> None:
        """Go on with what other blocks found of the same conversation.

        Args:
            named: The conversation's name; None if the user gave none.
            redact: What hides texts in this block. Blocks share only if they have the
                same.
        """
        # what cannot be compared is shared with nobody
        redact_to_compare = redact if isinstance(redact, Hashable) else object()
        shared = conversations_of_blocks(named, redact_to_compare)
        if named is not None:
            self.conversations = shared
        else:
            self.conversations = Conversations(before=shared)

    def add(self, run: Run) -> list[Sample]:
        """Take in a recorded run, and return the samples that are complete with it.

        What must wait for another run is kept.
        """
        with self._lock:
            self._n_runs += 1
            samples: list[Sample] = []
            for tree in self._trees_of(run):
                samples += self._samples_with(tree)
            self._n_samples += len(samples)
            return samples

    def revise_sample(self, sample: Sample) -> Sample:
        """A sample of ``add`` as it is now: a later run may have put its answer in doubt."""
        with self._lock:
            return self._read_later.revise_sample(sample)

    def samples_that_wait(self, *, over: bool = False) -> list[Sample]:
        """Make the samples of runs that still wait for a further run.

        Nothing is forgotten. Problems are noted: a run that waits for a person, an
        answer that was doubted too late, questions without a sample.

        Args:
            over: Whether no further run comes, so that these runs are turns.
        """
        with self._lock:
            conversations = self.conversations
            if not over:
                self.conversations = conversations.copy_for_trial()
            try:
                return self._samples_of_waiting(over=over)
            finally:
                self.conversations = conversations

    def _samples_of_waiting(self, *, over: bool) -> list[Sample]:
        """The samples of ``samples_that_wait``, with the conversations that are set."""
        samples = self._samples_of_groups(self._groups, over=over)
        is_any_paused = False
        for trees in self._waiting_runs.values():
            if trees[-1].is_paused:
                is_any_paused = True
            else:
                samples += self._samples_of_several(trees, THREAD, over=over)
        if is_any_paused:
            self.problems.note(_PAUSED)
        for _ in range(self._read_later.forget_doubted()):
            self.problems.note(_READ_TOO_LATE)
        gave_any = bool(self._n_samples or samples)
        self._unsampled.count(runs_without_any=self._n_runs > 0 and not gave_any)
        return samples

    def finish_trace(self) -> list[Sample]:
        """Make the samples of all groups, and forget groups and loose runs.

        It is called at the end of a trace: no run of another trace joins them.
        """
        with self._lock:
            samples = self._samples_of_groups(self._groups)
            self._groups.clear()
            self._loose_runs.clear()
            self._n_samples += len(samples)
            return samples

    def finish(self) -> list[Sample]:
        """Make the samples of all that waits, and forget it.

        Runs that wait for a person are kept.
        """
        with self._lock:
            samples = self.finish_trace()
            samples += self.samples_that_wait(over=True)
            for thread, trees in list(self._waiting_runs.items()):
                if not trees[-1].is_paused:
                    del self._waiting_runs[thread]
            self._n_samples += len(samples)
            return samples

    def _samples_with(self, tree: Tree) -> list[Sample]:
        """Take in one run, and return the samples that are complete with it.

        A run of a thread goes on with the earlier runs of that thread, if it says so.
        If it asks something new, the earlier ones are a turn of their own.
        """
        if self._where.build is not None:
            return samples_of(tree, self._where)
        if tree.resumption_key is None:
            return self._samples_of_answered([tree])
        samples: list[Sample] = []
        parts = [tree]
        earlier_runs = self._waiting_runs.pop(tree.resumption_key, [])
        if tree.continues:
            parts = [*earlier_runs, tree]
        elif earlier_runs and not earlier_runs[-1].is_paused:  # nobody went on with it
            samples += self._samples_of_several(earlier_runs, THREAD)
        if tree.is_paused:
            samples += self._let_wait(tree.resumption_key, parts)
        else:
            samples += self._samples_of_answered(parts)
        return samples

    def _samples_of_answered(self, parts: list[Tree]) -> list[Sample]:
        """Return the samples of a run that may answer by itself.

        It is joined with the runs that wrote what it is asked. If it retrieved nothing
        it may wait for, or belong to, a retrieval; then the samples are those of other
        runs that are complete now.

        Args:
            parts: The runs of its thread that it goes on with, and the run as the last
                one.
        """
        tree = parts[-1]
        whole_tree = self._with_its_writers(parts)
        calls = Calls(whole_tree, self._where.context_tools or ())
        # a breakpoint: the run that resumes the graph goes on with it
        if tree.resumption_key is not None and _stops_before_tools(calls):
            return self._let_wait(tree.resumption_key, parts)
        has_failed = bool(tree.error or tree.root.error)
        goes_on_with_nothing = len(parts) == 1
        if goes_on_with_nothing and not has_failed:
            samples_of_others = self._samples_if_it_waits(tree, calls)
            if samples_of_others is not None:
                return samples_of_others
        whole_tree = self._place_tree(whole_tree)
        # the user's question may be an earlier one, since nothing was searched for now
        if not calls.tried and self._was_found_earlier(tree.root.input_documents):
            whole_tree = doubtful(whole_tree, _FOUND_EARLIER)
        samples = samples_of(whole_tree, self._where)
        is_without_answer = any(sample.answer is None for sample in samples)
        # a later run of the thread may answer in its place
        if tree.resumption_key is not None and is_without_answer:
            return self._let_wait(tree.resumption_key, parts)
        if samples:
            self._read_later.doubt_one_that_is_replaced(whole_tree, calls)
        else:
            self._count_without_sample(whole_tree, parts)
        self._remember(whole_tree, samples)
        self._unsampled.keep_words_of(samples)
        self._note_texts_of_tools(samples)
        return samples

    def _note_texts_of_tools(self, samples: Iterable[Sample]) -> None:
        """Note a problem for each sample whose evidence is the text of tools alone.

        It names the tools, and the setting that makes contexts of their texts.
        """
        for sample in samples:
            names = tools_with_undivided_text(sample)
            if names:
                self.problems.note(how_to_name_tools(names))

    def _count_without_sample(self, whole_tree: Tree, parts: Sequence[Tree]) -> None:
        """Count a run that answered, or was turned away, and gave no sample.

        Args:
            whole_tree: The run with what it goes on with.
            parts: These, the run the last one.
        """
        tree = parts[-1]
        is_an_agents_answer = tree.root.kind == "agent" and bool(tree.answers)
        if len(parts) > 1 or is_an_agents_answer:
            self._unsampled.add(whole_tree, counts_anyway=True)
        elif tree.was_routed_away:
            self._unsampled.add(tree, counts_anyway=False)

    def _samples_if_it_waits(self, tree: Tree, calls: Calls) -> list[Sample] | None:
        """Keep a run that is no sample by itself but belongs to others, if it is one.

        It is a search, a part of a question, or a call that shows what was found.

        Args:
            tree: The run.
            calls: Its calls, and those of the runs that wrote what it is asked.

        Returns:
            The samples that are complete with it; None if it is no such run.
        """
        if tree.gives_only_documents or tree.root.kind == "retriever":
            return self._keep_retrieval(tree)
        if not calls.tried_by_application:
            if calls.models and self._keep_as_part_of_others(tree, calls):
                return self._samples_due()
            if not tree.is_always_a_sample and not calls.tried:
                return None
        writer = self._loose_runs.writer_of_several(tree)
        if writer is None or calls.tree.root is not tree.root:
            return None
        self._unsampled.strike([writer])
        if self._where.contexts_from is not None:
            tree = doubtful(tree, _NAMED_IN_EACH_PART)
        self._groups.add_part(tree, writer)
        return self._samples_of_groups(self._groups.take_too_many())

    def _samples_of_groups(
        self, groups: Iterable[Group], *, over: bool = True
    ) -> list[Sample]:
        """Samples of groups.

        Args:
            groups: The groups.
            over: Whether no further run joins them, so that they are remembered as
                turns.
        """
        samples: list[Sample] = []
        for group in groups:
            for trees in group.turns():
                samples += self._samples_of_several(trees, FLOW, over=over)
        return samples

    def _samples_of_several(
        self, trees: Sequence[Tree], name: str, *, over: bool = True
    ) -> list[Sample]:
        """Samples of runs that belong together.

        Args:
            trees: The runs.
            name: What joins them: ``FLOW`` or ``THREAD``.
            over: Whether no further run joins them, so that they are remembered as a
                turn.
        """
        whole_tree = self._place_tree(join_trees(trees, name))
        samples = samples_of(whole_tree, self._where)
        self._unsampled.keep_words_of(samples)
        if over:
            self._remember(whole_tree, samples)
            self._note_texts_of_tools(samples)
        else:
            # on trial: what waits as well may be the next turn
            self.conversations.add(whole_tree, samples)
        return samples

    def _remember(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Keep a turn: the conversation goes on with it, and a later call may be shown its answer."""
        self.conversations.add(tree, samples)
        self._read_later.remember(tree, samples)

    def _let_wait(self, thread: str, trees: list[Tree]) -> list[Sample]:
        """Let the runs of a thread wait until another goes on with them.

        Memory is bounded: where too many threads wait, the eldest one is given up, and
        its samples are returned.
        """
        self._waiting_runs[thread] = trees
        if len(self._waiting_runs) <= _MOST_WAITING:
            return []
        _, eldest = self._waiting_runs.popitem(last=False)
        return self._samples_of_several(eldest, THREAD)

    # Runs without a root

    def _with_its_writers(self, parts: Sequence[Tree]) -> Tree:
        """Join a run with what belongs to it.

        A run that goes on with nothing is joined with those that wrote what it is
        asked. Otherwise all parts are joined.
        """
        if len(parts) > 1:
            return join_trees(parts, THREAD)
        (tree,) = parts
        writers = self._loose_runs.take_writers_of(tree)
        if not writers:
            return join_trees(parts, THREAD)
        self._unsampled.strike(writers)
        return join_trees([*writers, tree], FLOW)

    def _keep_retrieval(self, tree: Tree) -> list[Sample]:
        """Keep a retrieval that stands alone until a run answers from it.

        It joins the group of its question, together with the loose runs that wrote its
        query. Those then belong to a sample. What it found is noted for later turns.

        Returns:
            The samples of other groups that are over now: they were answered or waited
            long, or too many wait.
        """
        queries = (node.query for node in tree.root.walk() if node.query)
        query = as_one_line(next(queries, None))
        samples = self._samples_due(tree.task_or_thread, query)
        runs_of_task = self._loose_runs.runs_near(tree.task_or_thread)
        writers = [run for run in runs_of_task if writes_query(run, query)]
        self._unsampled.strike(writers)
        self._groups.add_retrieval(tree, query, writers)
        self._note_documents_found(tree)
        return samples + self._samples_of_groups(self._groups.take_too_many())

    def _note_documents_found(self, tree: Tree) -> None:
        """Note what a retrieval found, for a while.

        The application may keep it, too, and hand it in again without a search.
        """
        for node in tree.root.walk():
            for document in node.documents or ():
                self._hashes_found[_hash_of(document)] = None
        while len(self._hashes_found) > _MOST_FOUND:
            self._hashes_found.popitem(last=False)

    def _was_found_earlier(self, documents: Iterable[Document]) -> bool:
        """Whether one of some documents was found by a retrieval without a root."""
        return any(_hash_of(document) in self._hashes_found for document in documents)

    def _samples_due(
        self, task_or_thread: str | None = None, query: str = ""
    ) -> list[Sample]:
        """Samples of groups that no further run will join."""
        return self._samples_of_groups(
            self._groups.take_over_due(task_or_thread, query)
        )

    def _keep_as_part_of_others(self, tree: Tree, calls: Calls) -> bool:
        """Keep a run without a retrieval for other runs, unless it is a sample by itself.

        If it shows what a group found, it joins that group. Otherwise it is kept as a
        loose run. Answers that it was shown are put in doubt.

        Returns:
            False if it is a sample by itself, and was not kept.
        """
        group = self._groups.join(tree, calls)
        if group is not None:
            # the same was searched for again, beside the answer
            queries = {as_one_line(query) for query in group.queries}
            self._read_later.doubt_those_shown_to(tree, calls, queries)
            return True
        self._read_later.doubt_those_shown_to(tree, calls)
        if calls.tried or self._is_a_sample_by_itself(tree):
            return False
        called_tools = any(node.kind == "tool" for node in tree.root.walk())
        self._unsampled.add(tree, counts_anyway=called_tools)
        self._loose_runs.add(tree)
        if tree.conversation_id is not None:  # what it found may be spoken of later
            as_turn = self._place_tree(replace(tree, is_always_a_sample=True))
            self._remember(as_turn, samples_of(as_turn, self._where))
        return True

    def _is_a_sample_by_itself(self, tree: Tree) -> bool:
        """Whether a run that retrieved nothing is a sample.

        If not, a later retrieval may use what it wrote.
        """
        user_names_contexts = self._where.contexts_from is not None
        was_handed_documents = bool(tree.root.input_documents)
        return tree.is_always_a_sample or was_handed_documents or user_names_contexts

    # Turns of a conversation

    def _place_tree(self, tree: Tree) -> Tree:
        """A run as a turn of its conversation, with its history and its earlier calls.

        A run without a history may hold earlier turns in its prompts. Where nothing
        tells such a turn from a draft that is worked on, the run is in doubt. A
        question that a model wrote is no turn of the user's.
        """
        quoted_turns: list[QuotedTurn] = []
        if tree.is_history_of_prompt and not self.conversations.holds_turn_of(
            tree.history
        ):
            tree = doubtful(tree, _MAY_BE_EXAMPLES)
        if not tree.history:
            with_turns = self._with_turns_of_prompt(tree)
            if with_turns is not None:
                return self.conversations.place_turn(with_turns)
            quoted_turns = self._find_quoted_turns(tree)
        last_said_turn: CapturedTurn | None = None
        for quoted in quoted_turns:
            question = quoted.turn.question
            if not quoted.is_said:
                continue
            if not self._is_written_by_loose_run(question, tree.task_or_thread):
                last_said_turn = quoted.turn
        placed = self.conversations.place_turn(tree, last_said_turn)
        if placed.history:
            return placed
        if quoted_turns:
            words: list[str] = []
            for quoted in quoted_turns:
                words += [quoted.turn.question, quoted.turn.answer]
            return doubtful(_with_words_of_talk(placed, words), _TALK)
        answers_alone = self._answers_shown_alone(tree)
        if answers_alone:
            return doubtful(_with_words_of_talk(placed, answers_alone), _ANSWER_ALONE)
        return placed

    def _answers_shown_alone(self, tree: Tree) -> list[str]:
        """The earlier answers that the prompts of a run hold without their questions."""
        calls = Calls(tree)
        lines_of_now = {calls.replies[call].line for call in calls.models}
        for node in calls.nodes:
            lines_of_now |= {as_one_line(node.query), as_one_line(node.text)}
        for documents in calls.lists():
            lines_of_now |= {as_one_line(document.text) for document in documents}
        prompts = [message.text for call in calls.models for message in call.prompt]
        return self.conversations.find_answers_alone(prompts, lines_of_now)

    def _with_turns_of_prompt(self, tree: Tree) -> Tree | None:
        """A run with the history that stands as messages in the prompt of its answer.

        The history counts if it holds a captured turn. In a run of plain functions it
        counts anyway, in doubt: only the prompt tells what was said before, and typed
        messages may be examples.

        Returns:
            The run; None if its prompt tells no history.
        """
        calls = Calls(tree)
        question = tree.question
        if question is None and tree.root.name == FLOW:
            question = question_without_chain(calls)
        asked = calls.filter_by_question(question, calls.likely_answer_calls)
        answering_calls = [*calls.likely_answer_calls, *asked]
        if not answering_calls:
            return None
        documents = [document for listed in calls.lists() for document in listed]
        history = turns_before_question(answering_calls[-1].prompt, question, documents)
        if not any(said_turn.role == "assistant" for said_turn in history):
            return None
        with_turns = replace(tree, history=history)
        if self.conversations.holds_turn_of(history):
            return with_turns
        if tree.root.name != FLOW:
            return None
        return doubtful(with_turns, _MAY_BE_EXAMPLES)

    def _find_quoted_turns(self, tree: Tree) -> list[QuotedTurn]:
        """Earlier turns of which question and answer stand in the prompts of a run."""
        calls = Calls(tree)
        prompts = []
        for call in calls.models:
            message_texts = [message.text for message in call.prompt]
            prompts.append("\n".join(message_texts))
        lines_of_now = {as_one_line(node.query) for node in calls.nodes}
        lines_of_now.add(as_one_line(tree.question))
        # what no later call can have been shown explains no words of a prompt
        last_began = max((call.began for call in calls.models), default=0.0)
        for call in calls.models:
            if end_of(call) <= last_began:
                lines_of_now.add(calls.replies[call].line)
        return list(self.conversations.find_quoted_turns(prompts, lines_of_now))

    def _is_written_by_loose_run(self, question: str, task_or_thread: str) -> bool:
        """Whether a loose run of a task or thread wrote a question."""
        loose_runs = self._loose_runs.runs_near(task_or_thread)
        return any(writes_query(run, question) for run in loose_runs)


def _with_words_of_talk(tree: Tree, words: Iterable[str]) -> Tree:
    """A run of whose prompts some words are known to be of an earlier turn, and no evidence."""
    return replace(tree, instructions=(*tree.instructions, *words))


def _hash_of(document: Document) -> int:
    """What a document is recognised by that was found in an earlier turn."""
    return hash(document.id or document.text)


def _stops_before_tools(calls: Calls) -> bool:
    """Whether a graph stopped at a breakpoint before its tools.

    Its messages end with calls of tools that did not run.
    """
    output = calls.tree.output
    if not isinstance(output, Mapping):
        return False
    messages = output.get("messages")
    if not isinstance(messages, (list, tuple)) or not messages:
        return False
    last_message = messages[-1]
    if not isinstance(last_message, Message) or not last_message.tool_calls:
        return False
    ids_of_tool_calls = {tool_call.id for tool_call in last_message.tool_calls}
    return all(node.tool_call_id not in ids_of_tool_calls for node in calls.nodes)
