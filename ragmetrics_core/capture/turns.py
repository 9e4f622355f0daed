"""Makes samples of runs as they end, and joins runs that belong together.

Some runs are a sample at once: a chain that searched and answered. Others wait for the
run that completes them::

    run of the application                        what happens to it here
    a retriever alone                             waits in a group for what answers from it
    a model alone, shown what was found           joins that group
    a model alone, that rewrote the question      is kept as an auxiliary run: a later run
                                                  may be asked what it wrote
    a graph that stops for a person               waits for the run that resumes it
    a chain that searched and answered            a sample

Four terms:

    - A **turn** is one question of a user, with all runs that answer it.
    - A **group** is the runs of one question in an application of plain functions, in
      which each search and each call of a model is a run of its own.
    - An **auxiliary run** gives no sample by itself, and a later run may use its text.
    - A **task or thread** is that of the application in which a run ran.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from ragmetrics_core.capture.answers_read_later import AnswersReadLater
from ragmetrics_core.capture.auxiliary_runs import AuxiliaryRuns, writes_query
from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.conversations import (
    CapturedTurn,
    Conversations,
    QuotedTurn,
    conversations_of_blocks,
)
from ragmetrics_core.capture.hooks import Lock, Problems, Run
from ragmetrics_core.capture.joining import join_trees
from ragmetrics_core.capture.plain_values import Overrides, as_one_line
from ragmetrics_core.capture.prompt_turns import turns_before_question
from ragmetrics_core.capture.question import question_without_chain
from ragmetrics_core.capture.run_group import RunGroup, doubtful
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.capture.tree import FLOW, THREAD, Document, Message, Tree
from ragmetrics_core.capture.unsampled import Unsampled
from ragmetrics_core.capture.waiting_groups import WaitingGroups
from ragmetrics_core.data import Sample
from ragmetrics_core.data.undivided import (
    how_to_name_tools,
    tools_with_undivided_text,
)

_MOST_WAITING = 1000
_MOST_HASHES = 10_000
_EARLIER_QUESTION_AND_ANSWER = (
    "an earlier question and its answer stand in the prompt, but no history was found"
)
_EARLIER_ANSWER_ALONE = (
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

    Runs of one question are joined into one sample. Runs of one conversation become
    turns of it: a later one knows what earlier ones found and said.

    Args:
        trees: Makes the trees of a recorded run.
        overrides: Where the user says that question, contexts and answer are.
        problems: Where internal errors are counted.
        hint: What the user should do if there were runs and no sample, in words; it is
            counted as a problem then. Empty to count nothing.
    """

    def __init__(
        self,
        trees: Callable[[Run], Iterable[Tree]],
        overrides: Overrides,
        problems: Problems | None = None,
        hint: str = "",
    ) -> None:
        """Begin without any run."""
        self._trees_of = trees
        self._overrides = overrides
        self.problems = Problems() if problems is None else problems
        self._n_runs = 0
        self._n_samples = 0
        # runs that wait for a run that resumes them, because they stopped for a person
        # or gave no answer, by the key that both share
        self._waiting_runs_by_key: OrderedDict[str, list[Tree]] = OrderedDict()
        # runs of plain functions that wait for further runs of their question
        self._groups = WaitingGroups()
        # runs whose text a later run may be asked
        self._auxiliary_runs = AuxiliaryRuns()
        # of the documents that retrievals without a chain found, the latest last: the
        # application may hand them in again in a later turn
        self._hashes_of_documents: OrderedDict[int, None] = OrderedDict()
        # questions of runs that gave no sample
        self._unsampled = Unsampled(self.problems, hint)
        # samples whose answer a later run may replace
        self._earlier_answers = AnswersReadLater(
            lambda tree: samples_of(tree, overrides)
        )
        self.conversations = Conversations()
        self._lock = Lock()

    def share_with_conversation(
        self, name: str | None = None, redact: object = None
    ) -> None:
        """Continue the conversation that other ``capture()`` blocks recorded.

        Args:
            name: The conversation's name; None if the user gave none.
            redact: The function that hides texts in this block. Only blocks with the
                same function share turns.
        """
        # a function that cannot be compared is shared with no other block
        redact_to_compare = redact if isinstance(redact, Hashable) else object()
        shared = conversations_of_blocks(name, redact_to_compare)
        if name is not None:
            self.conversations = shared
        else:
            self.conversations = Conversations(other_blocks=shared)

    def add(self, run: Run) -> list[Sample]:
        """Take in a recorded run, and return the samples that are complete now.

        A run that must wait for another run is kept. The samples may be of runs that
        were taken in before.
        """
        with self._lock:
            self._n_runs += 1
            samples: list[Sample] = []
            for tree in self._trees_of(run):
                samples += self._take_in(tree)
            self._n_samples += len(samples)
            return samples

    def revise_sample(self, sample: Sample) -> Sample:
        """Return a sample of ``add`` as it is now; a later run may have added a doubt."""
        with self._lock:
            return self._earlier_answers.revise_sample(sample)

    def samples_that_wait(self, *, is_final: bool = False) -> list[Sample]:
        """Make the samples of runs that still wait for a further run, and keep the runs.

        Problems are noted: a run that waits for a person, an answer that was put in
        doubt after its sample was handed on, and questions without a sample.

        Args:
            is_final: Whether no further run comes. Then the samples become turns of
                their conversations.
        """
        with self._lock:
            conversations = self.conversations
            if not is_final:
                # a further run may change these samples: they are remembered in a copy
                self.conversations = conversations.copy_for_trial()
            try:
                return self._make_samples_of_waiting(is_final=is_final)
            finally:
                self.conversations = conversations

    def _make_samples_of_waiting(self, *, is_final: bool) -> list[Sample]:
        """Make the samples of all runs that wait for a further run, and note problems.

            - Each group, the runs of one question in plain functions, gives its samples.
            - Runs that wait because they gave no answer give a sample without one.
            - Runs that stopped for a person give no sample. That is noted as a problem.

        Two more problems are noted: samples that were put in doubt after the caller had
        got them, and questions of runs that gave no sample.

        Args:
            is_final: Whether no further run comes, so that the samples are remembered
                as turns.
        """
        samples = self._samples_of_groups(self._groups, is_final=is_final)
        is_any_paused = False
        for waiting_runs in self._waiting_runs_by_key.values():
            last_run = waiting_runs[-1]
            if last_run.is_paused:
                is_any_paused = True
            else:
                samples += self._samples_of_joined(
                    waiting_runs, THREAD, is_final=is_final
                )
        if is_any_paused:
            self.problems.note(_PAUSED)
        # the caller has these samples already, without their doubt
        n_doubted_too_late = self._earlier_answers.forget_doubted_samples()
        for _ in range(n_doubted_too_late):
            self.problems.note(_READ_TOO_LATE)
        gave_any_sample = bool(self._n_samples or samples)
        # tells the user of each question that no sample asks or answers
        self._unsampled.note_problems(
            is_without_samples=self._n_runs > 0 and not gave_any_sample
        )
        return samples

    def finish_trace(self) -> list[Sample]:
        """Make the samples of all groups, and forget groups and auxiliary runs.

        It is called at the end of a trace: no run of another trace joins them.
        """
        with self._lock:
            samples = self._samples_of_groups(self._groups)
            self._groups.clear()
            self._auxiliary_runs.clear()
            self._n_samples += len(samples)
            return samples

    def finish(self) -> list[Sample]:
        """Make the samples of all runs that wait, and forget these runs.

        Runs that wait for a person are kept.
        """
        with self._lock:
            samples = self.finish_trace()
            samples += self.samples_that_wait(is_final=True)
            for resumption_key, runs in list(self._waiting_runs_by_key.items()):
                if not runs[-1].is_paused:
                    del self._waiting_runs_by_key[resumption_key]
            self._n_samples += len(samples)
            return samples

    def _take_in(self, tree: Tree) -> list[Sample]:
        """Take in one run, and return the samples that are complete now.

        Cases, in the order of the branches:

            - The user's own ``build=`` makes the samples, and nothing is joined.
            - The run is of no thread that can be resumed: it is taken in by itself.
            - The run resumes earlier runs of its thread: it is joined with them.
            - The run asks something new in its thread. An earlier run of the thread
              that stopped for a person is dropped, since nobody resumed it. An earlier
              run that only gave no answer is a turn of its own.
            - The run stops for a person: it waits for the run that resumes it.
        """
        if self._overrides.build is not None:
            return samples_of(tree, self._overrides)
        if tree.resumption_key is None:
            return self._take_in_joined([tree])
        samples: list[Sample] = []
        runs_of_turn = [tree]
        earlier_runs = self._waiting_runs_by_key.pop(tree.resumption_key, [])
        if tree.continues:
            runs_of_turn = [*earlier_runs, tree]
        elif earlier_runs and not earlier_runs[-1].is_paused:
            samples += self._samples_of_joined(earlier_runs, THREAD)
        if tree.is_paused:
            samples += self._let_wait(tree.resumption_key, runs_of_turn)
        else:
            samples += self._take_in_joined(runs_of_turn)
        return samples

    def _take_in_joined(self, runs_of_turn: list[Tree]) -> list[Sample]:
        """Take in a run that did not stop for a person; return the samples complete now.

        The run is joined with the runs that it resumes, or else with the auxiliary runs
        that wrote its question. The joined run becomes a sample, and a turn of its
        conversation. If its answer may replace the answer of an earlier sample, that
        sample is put in doubt. Where the run gives no sample, as a router does, its
        question is noted.

        Three kinds of runs wait or are kept. In the order of the branches:

            - A graph stopped before its tools: it waits for the run that resumes it.
            - The run is kept for other runs, as a search alone is. The samples returned
              are then those of other questions, which are over now.
            - A graph gave no answer: it waits, since the run that resumes it may answer.

        Args:
            runs_of_turn: The runs of its thread that the run resumes, and the run
                itself as the last one.
        """
        tree = runs_of_turn[-1]
        joined_tree = self._join_with_writers(runs_of_turn)
        calls = Calls(joined_tree, self._overrides.context_tools or ())
        if tree.resumption_key is not None and _stops_before_tools(calls):
            return self._let_wait(tree.resumption_key, runs_of_turn)
        has_failed = bool(tree.error or tree.root.error)
        resumes_none = len(runs_of_turn) == 1
        # no other run completes a run that failed, or that resumes others
        if resumes_none and not has_failed:
            samples_of_others = self._keep_for_other_runs(tree, calls)
            if samples_of_others is not None:  # the run was kept
                return samples_of_others
        joined_tree = self._place_in_conversation(joined_tree)
        # The application kept the documents of an earlier turn, and hands them in
        # without a search: the text found as the question may be of that earlier turn.
        if not calls.tried and self._was_found_earlier(tree.root.input_documents):
            joined_tree = doubtful(joined_tree, _FOUND_EARLIER)
        samples = samples_of(joined_tree, self._overrides)
        is_without_answer = any(sample.answer is None for sample in samples)
        if tree.resumption_key is not None and is_without_answer:
            return self._let_wait(tree.resumption_key, runs_of_turn)
        if samples:
            self._earlier_answers.doubt_answer_replaced_by(joined_tree, calls)
        else:
            self._count_without_sample(joined_tree, runs_of_turn)
        self._remember_samples(joined_tree, samples)
        return samples

    def _remember_samples(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember the samples of a run for later turns, and note problems of them."""
        self._remember(tree, samples)
        self._unsampled.keep_words_of(samples)
        self._note_texts_of_tools(samples)

    def _note_texts_of_tools(self, samples: Iterable[Sample]) -> None:
        """Note a problem for each sample whose evidence is the text of tools alone.

        It names the tools, and the setting that makes contexts of their texts.
        """
        for sample in samples:
            names = tools_with_undivided_text(sample)
            if names:
                self.problems.note(how_to_name_tools(names))

    def _count_without_sample(
        self, joined_tree: Tree, runs_of_turn: Sequence[Tree]
    ) -> None:
        """Note the question of a run that gave no sample, if it needs one.

            - A resumed run, or an agent that answered, is noted in any case.
            - A run that a router kept from searching is noted; the note is dropped if
              some sample asks the same.

        Args:
            joined_tree: The run, joined with the runs that it resumes.
            runs_of_turn: The runs that it resumes, and the run as the last one.
        """
        tree = runs_of_turn[-1]
        is_answer_of_agent = tree.root.kind == "agent" and bool(tree.answers)
        if len(runs_of_turn) > 1 or is_answer_of_agent:
            self._unsampled.add(joined_tree, counts_anyway=True)
        elif tree.was_routed_away:
            self._unsampled.add(tree, counts_anyway=False)

    def _keep_for_other_runs(self, tree: Tree, calls: Calls) -> list[Sample] | None:
        """Keep a run for other runs, if it is no sample by itself.

        Three kinds of runs are kept, in the order of the branches:

            - a search alone: a later run answers from what it found;
            - a call of a model for which the application did not search: it may answer
              from what an earlier search found, or write what a later run is asked;
            - a run that was asked one of several questions into which a model split the
              user's: a later run may put the answers together.

        Args:
            tree: The run.
            calls: Its calls, with those of the runs that wrote its question.

        Returns:
            The samples of other questions that are over now, perhaps none; None if the
            run was not kept, so that it is a sample by itself or gives none.
        """
        if tree.gives_only_documents or tree.root.kind == "retriever":
            return self._keep_retrieval(tree)
        if not calls.tried_by_application:
            if calls.models and self._keep_call_of_model(tree, calls):
                return self._samples_due()
            # nothing was searched in it, and the framework calls it no query
            if not tree.is_always_a_sample and not calls.tried:
                return None
        writer = self._auxiliary_runs.writer_of_several(tree)
        # joined with its writer already: it was asked the only question that was written
        has_joined_writer = calls.tree.root is not tree.root
        if writer is None or has_joined_writer:
            return None
        self._unsampled.strike([writer])
        if self._overrides.contexts_from is not None:
            tree = doubtful(tree, _NAMED_IN_EACH_PART)
        self._groups.add_part(tree, writer)
        return self._samples_of_groups(self._groups.take_too_many())

    def _samples_of_groups(
        self, groups: Iterable[RunGroup], *, is_final: bool = True
    ) -> list[Sample]:
        """Make the samples of groups, one for each turn.

        Args:
            groups: The groups.
            is_final: Whether no further run joins them, so that they are remembered as
                turns.
        """
        samples: list[Sample] = []
        for group in groups:
            for runs in group.turns():
                samples += self._samples_of_joined(runs, FLOW, is_final=is_final)
        return samples

    def _samples_of_joined(
        self, runs: Sequence[Tree], name: str, *, is_final: bool = True
    ) -> list[Sample]:
        """Join the runs of one turn, and make the samples of it.

        Args:
            runs: The runs.
            name: Why they are one turn: ``FLOW`` for runs of plain functions,
                ``THREAD`` for a run and those that resumed it.
            is_final: Whether no further run joins them, so that they are remembered as
                a turn.
        """
        joined_tree = self._place_in_conversation(join_trees(runs, name))
        samples = samples_of(joined_tree, self._overrides)
        if is_final:
            self._remember_samples(joined_tree, samples)
        else:
            # into the copy for a trial: other waiting runs may be the next turn
            self.conversations.add(joined_tree, samples)
            self._unsampled.keep_words_of(samples)
        return samples

    def _remember(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember a turn for later turns of its conversation, and to doubt its answer."""
        self.conversations.add(tree, samples)
        self._earlier_answers.remember(tree, samples)

    def _let_wait(self, resumption_key: str, runs: list[Tree]) -> list[Sample]:
        """Let runs of a thread wait until another run resumes them.

        Memory is bounded: where too many threads wait, the oldest one is given up.

        Returns:
            The samples of the thread that was given up; empty if none was.
        """
        self._waiting_runs_by_key[resumption_key] = runs
        if len(self._waiting_runs_by_key) <= _MOST_WAITING:
            return []
        _, oldest_runs = self._waiting_runs_by_key.popitem(last=False)
        return self._samples_of_joined(oldest_runs, THREAD)

    # Runs of plain functions

    def _join_with_writers(self, runs_of_turn: Sequence[Tree]) -> Tree:
        """Join a run with the runs that it resumes, else with the writers of its question.

        Args:
            runs_of_turn: The runs that the run resumes, and the run as the last one.

        Returns:
            The joined run; the run itself if nothing is joined.
        """
        if len(runs_of_turn) > 1:
            return join_trees(runs_of_turn, THREAD)
        (tree,) = runs_of_turn
        writers = self._auxiliary_runs.take_writers_of(tree)
        if not writers:
            return tree
        self._unsampled.strike(writers)
        return join_trees([*writers, tree], FLOW)

    def _keep_retrieval(self, tree: Tree) -> list[Sample]:
        """Keep a search that ran by itself until a run answers from it.

        The search joins the group of its question, or begins one. The auxiliary runs
        that wrote its query join as well, so that they no longer count as runs without
        a sample. The documents found are noted, since a later turn may use them again.

        Returns:
            The samples of other groups that are over now: they were answered, or wait
            too long, or too many wait.
        """
        queries = (node.query for node in tree.root.walk() if node.query)
        first_query = as_one_line(next(queries, None))
        samples = self._samples_due(tree.task_or_thread, first_query)
        auxiliary_runs = self._auxiliary_runs.runs_near(tree.task_or_thread)
        writers = [run for run in auxiliary_runs if writes_query(run, first_query)]
        self._unsampled.strike(writers)
        self._groups.add_retrieval(tree, first_query, writers)
        self._note_documents_found(tree)
        return samples + self._samples_of_groups(self._groups.take_too_many())

    def _note_documents_found(self, tree: Tree) -> None:
        """Note the documents that a search found, for a while.

        The application may keep them, too, and hand them in again without a search.
        """
        for node in tree.root.walk():
            for document in node.documents or ():
                self._hashes_of_documents[_hash_of(document)] = None
        while len(self._hashes_of_documents) > _MOST_HASHES:
            self._hashes_of_documents.popitem(last=False)

    def _was_found_earlier(self, documents: Iterable[Document]) -> bool:
        """Return whether an earlier search that ran by itself found one of some documents."""
        return any(
            _hash_of(document) in self._hashes_of_documents for document in documents
        )

    def _samples_due(
        self, task_or_thread: str | None = None, query: str = ""
    ) -> list[Sample]:
        """Make the samples of the groups that no further run will join.

        Args:
            task_or_thread: The task or thread in which a search begins now; None where
                no search begins.
            query: What is searched for, in one line.
        """
        return self._samples_of_groups(
            self._groups.take_over_due(task_or_thread, query)
        )

    def _keep_call_of_model(self, tree: Tree, calls: Calls) -> bool:
        """Keep a run that called models and did not search, if it is no sample.

        In the order of the branches:

            - The run was shown what a group found: it joins that group.
            - The run is a sample by itself, and is not kept: the model's provider searched
              while the model answered, or ``_is_a_sample_by_itself`` says so.
            - Otherwise it is kept as an auxiliary run: a later search may use its text.

        In each case, earlier answers that stand in its prompts are put in doubt: what it
        wrote may be what the user reads.

        Args:
            tree: The run.
            calls: Its calls, with those of the runs that wrote its question.

        Returns:
            Whether it was kept.
        """
        group = self._groups.join(tree, calls)
        if group is not None:
            # an earlier answer to the same queries may be replaced by this one
            queries = {as_one_line(query) for query in group.queries}
            self._earlier_answers.doubt_answers_shown_to(tree, calls, queries)
            return True
        self._earlier_answers.doubt_answers_shown_to(tree, calls)
        if calls.tried or self._is_a_sample_by_itself(tree):
            return False
        # a run that called a tool is no router or title: its question needs a sample
        called_tools = any(node.kind == "tool" for node in tree.root.walk())
        self._unsampled.add(tree, counts_anyway=called_tools)
        self._auxiliary_runs.add(tree)
        if tree.conversation_id is not None:
            # later turns of the conversation may speak of what this run said
            as_turn = self._place_in_conversation(
                replace(tree, is_always_a_sample=True)
            )
            self._remember(as_turn, samples_of(as_turn, self._overrides))
        return True

    def _is_a_sample_by_itself(self, tree: Tree) -> bool:
        """Return whether a run that searched for nothing is a sample all the same.

        It is if the framework calls it a query, if it was given documents, or if the
        user names the place of its contexts.
        """
        user_names_contexts = self._overrides.contexts_from is not None
        has_input_documents = bool(tree.root.input_documents)
        return tree.is_always_a_sample or has_input_documents or user_names_contexts

    # Turns of a conversation

    def _place_in_conversation(self, tree: Tree) -> Tree:
        """Return a run as a turn of its conversation, with history and earlier calls.

        The history is looked for in this order:

            1. The framework tells it.
            2. The answering prompt holds it as messages of user and assistant.
            3. A prompt quotes a captured turn as text that names who speaks: "User: …
               Assistant: … User: …". That turn and those before it are the history.
            4. A prompt quotes question and answer of a captured turn, and does not say
               who speaks. They may as well be a draft or an example: the run gets a
               doubt and no history, and the words are no evidence for its answer.
            5. A prompt holds only the answer of a captured turn: as in case 4.
        """
        # none of the messages before the question is a turn that was captured
        if tree.is_history_of_prompt and not self.conversations.holds_turn_of(
            tree.history
        ):
            tree = doubtful(tree, _MAY_BE_EXAMPLES)
        if tree.history:
            return self.conversations.place_turn(tree)
        with_history = self._with_history_of_prompt(tree)
        if with_history is not None:
            return self.conversations.place_turn(with_history)
        quoted_turns = self._find_quoted_turns(tree)
        last_turn = self._last_quoted_turn_of_user(quoted_turns, tree.task_or_thread)
        placed = self.conversations.place_turn(tree, last_turn)
        if placed.history:
            return placed
        if quoted_turns:
            words: list[str] = []
            for quoted in quoted_turns:
                words += [quoted.turn.question, quoted.turn.answer]
            with_words = _with_words_of_conversation(placed, words)
            return doubtful(with_words, _EARLIER_QUESTION_AND_ANSWER)
        answers = self._answers_without_questions(tree)
        if answers:
            with_words = _with_words_of_conversation(placed, answers)
            return doubtful(with_words, _EARLIER_ANSWER_ALONE)
        return placed

    def _last_quoted_turn_of_user(
        self, quoted_turns: Iterable[QuotedTurn], task_or_thread: str
    ) -> CapturedTurn | None:
        """Return the last turn that a prompt quotes as an earlier turn; None without one.

        A turn whose question an auxiliary run wrote is left out: the user did not ask
        it.
        """
        last_turn: CapturedTurn | None = None
        for quoted in quoted_turns:
            if not quoted.is_earlier_turn:
                continue
            if not self._was_written_by_model(quoted.turn.question, task_or_thread):
                last_turn = quoted.turn
        return last_turn

    def _answers_without_questions(self, tree: Tree) -> list[str]:
        """Return the answers of earlier turns that the prompts of a run hold.

        It is called where no prompt holds such an answer with its question. Texts of
        this run do not count as earlier answers: its queries, replies and documents.
        """
        calls = Calls(tree)
        lines_of_this_run = {calls.replies[call].line for call in calls.models}
        for node in calls.nodes:
            lines_of_this_run |= {as_one_line(node.query), as_one_line(node.text)}
        for documents in calls.lists():
            lines_of_this_run |= {as_one_line(document.text) for document in documents}
        prompts = [message.text for call in calls.models for message in call.prompt]
        return self.conversations.find_answers(prompts, lines_of_this_run)

    def _with_history_of_prompt(self, tree: Tree) -> Tree | None:
        """Return a run with the history that its answering prompt holds as messages.

        The answering prompt is that of the last call that looks like answering. Calls
        that were shown the question go before other calls. The messages of user and
        assistant before the question are the history, in two cases:

            - They hold a turn that was captured before.
            - They hold none, and the run is one of plain functions, in which nothing but
              the prompt tells the history. The run is put in doubt, since the messages
              may be examples.

        Returns:
            The run with its history; None if the prompt holds no history.
        """
        calls = Calls(tree)
        question = tree.question
        is_of_plain_functions = tree.root.name == FLOW
        if question is None and is_of_plain_functions:
            question = question_without_chain(calls)
        calls_shown_question = calls.filter_by_question(
            question, calls.likely_answer_calls
        )
        answering_calls = calls_shown_question or calls.likely_answer_calls
        if not answering_calls:
            return None
        # a message that only shows what was found is left out of the history
        documents_found: list[Document] = []
        for documents_of_call in calls.lists():
            documents_found += documents_of_call
        history = turns_before_question(
            answering_calls[-1].prompt, question, documents_found
        )
        if not any(message.role == "assistant" for message in history):
            return None
        with_history = replace(tree, history=history)
        if self.conversations.holds_turn_of(history):
            return with_history
        if is_of_plain_functions:
            return doubtful(with_history, _MAY_BE_EXAMPLES)
        return None

    def _find_quoted_turns(self, tree: Tree) -> list[QuotedTurn]:
        """Find the earlier turns whose question and answer stand in a prompt of a run.

        The run's own words, such as its queries, may be the same as those of an earlier
        turn. They are handed on, so that they are not taken for that turn.
        """
        calls = Calls(tree)
        prompts = []
        for call in calls.models:
            message_texts = [message.text for message in call.prompt]
            prompts.append("\n".join(message_texts))
        # texts of this run that its prompts may show, each in one line
        lines_of_this_run = {as_one_line(node.query) for node in calls.nodes}
        lines_of_this_run.add(as_one_line(tree.question))
        last_call_began = max((call.began for call in calls.models), default=0.0)
        for call in calls.models:
            # a later call of the run may have been shown the reply in its prompt
            if end_of(call) <= last_call_began:
                lines_of_this_run.add(calls.replies[call].line)
        return list(self.conversations.find_quoted_turns(prompts, lines_of_this_run))

    def _was_written_by_model(self, question: str, task_or_thread: str) -> bool:
        """Return whether a model of an auxiliary run wrote a question."""
        auxiliary_runs = self._auxiliary_runs.runs_near(task_or_thread)
        return any(writes_query(run, question) for run in auxiliary_runs)


def _with_words_of_conversation(tree: Tree, words: Iterable[str]) -> Tree:
    """Return a run some of whose prompts' words are of earlier turns, and no evidence."""
    return replace(tree, instructions=(*tree.instructions, *words))


def _hash_of(document: Document) -> int:
    """Return a number by which a document of an earlier turn is recognised."""
    return hash(document.id or document.text)


def _stops_before_tools(calls: Calls) -> bool:
    """Return whether a graph stopped at a breakpoint before its tools.

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
