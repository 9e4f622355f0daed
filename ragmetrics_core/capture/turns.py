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
    - A **task or thread** is the application's, in which a run ran.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from ragmetrics_core.capture.answers_read_later import AnswersReadLater
from ragmetrics_core.capture.auxiliary_runs import AuxiliaryRuns
from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.conversations import (
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
from ragmetrics_core.capture.tree_checks import check_tree
from ragmetrics_core.capture.unsampled import Unsampled
from ragmetrics_core.capture.waiting_groups import WaitingGroups
from ragmetrics_core.data import Sample, SettingError, Turn
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
        """Begin with empty stores of the runs that wait for a later run.

        Examples of such runs: a search by itself waits for a model that answers from
        it, and a graph that stopped for a person waits for the run that resumes it.

        Args:
            trees: Reads a run of the framework as trees of calls.
            overrides: The user's own rules for question, contexts and answer.
            problems: Where problems are counted; None for a new count.
            hint: Advice for the user, such as "name the tools that search". It is noted
                in ``problems`` once for each question that gets no sample. Empty to
                note nothing.
        """
        self._trees_of = trees
        self._overrides = overrides
        self.problems = Problems() if problems is None else problems
        self._n_runs = 0
        self._n_samples = 0
        # graphs that stopped, by the key that the resuming run has as well
        self._waiting_runs_by_resumption_key: OrderedDict[str, list[Tree]] = (
            OrderedDict()
        )
        # searches and model calls of plain functions, grouped by question
        self._waiting_groups = WaitingGroups()
        # model calls whose text may be a later run's question: a rewritten query
        self._auxiliary_runs = AuxiliaryRuns()
        self._documents_found_before = _DocumentsFoundBefore()
        # questions of runs that gave no sample; another run may still give the sample
        self._unsampled_questions = Unsampled(self.problems, hint)
        # The answers of the last samples. If a later call revises such an answer, the
        # sample gets a doubt.
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
            trees = self._trees_of(run)
            if isinstance(trees, Tree):
                raise SettingError("trees() of an adapter returned a Tree: yield it")
            for tree in trees:
                if self._overrides.build is None:
                    check_tree(tree)  # before anything reads it
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

        Args:
            is_final: Whether no further run comes, so that the samples are remembered
                as turns.
        """
        samples = self._samples_of_groups(self._waiting_groups, is_final=is_final)
        samples += self._samples_of_unresumed_runs(is_final=is_final)
        n_doubted_too_late = self._earlier_answers.forget_doubted_samples()
        for _ in range(n_doubted_too_late):
            self.problems.note(_READ_TOO_LATE)
        gave_any_sample = bool(self._n_samples or samples)
        self._unsampled_questions.note_problems(
            is_without_samples=self._n_runs > 0 and not gave_any_sample
        )
        return samples

    def _samples_of_unresumed_runs(self, *, is_final: bool) -> list[Sample]:
        """Make the samples of runs that no further run resumed.

        Runs that stopped for a person give none: that is noted as a problem.

        Args:
            is_final: Whether no further run comes, so that the samples are remembered
                as turns.
        """
        samples: list[Sample] = []
        is_any_paused = False
        for runs_of_turn in self._waiting_runs_by_resumption_key.values():
            if runs_of_turn[-1].is_paused:
                is_any_paused = True
            else:
                samples += self._samples_of_joined(
                    runs_of_turn, THREAD, is_final=is_final
                )
        if is_any_paused:
            self.problems.note(_PAUSED)
        return samples

    def finish_trace(self) -> list[Sample]:
        """Make the samples of all groups, and forget groups and auxiliary runs.

        It is called at the end of a trace: no run of another trace joins them.
        """
        with self._lock:
            samples = self._samples_of_groups(self._waiting_groups)
            self._waiting_groups.clear()
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
            for resumption_key, runs in list(
                self._waiting_runs_by_resumption_key.items()
            ):
                if not runs[-1].is_paused:
                    del self._waiting_runs_by_resumption_key[resumption_key]
            self._n_samples += len(samples)
            return samples

    def _take_in(self, tree: Tree) -> list[Sample]:
        """Take in one run, and return the samples that are complete now.

        Example: a graph asked a person, and this run resumes it: both runs are taken in
        as one turn. If a new question comes instead, the graph's run gives its samples
        now, as it is.
        """
        if self._overrides.build is not None:
            return samples_of(tree, self._overrides)
        if tree.resumption_key is None:
            return self._take_in_turn([tree])
        earlier_runs = self._waiting_runs_by_resumption_key.pop(tree.resumption_key, [])
        if tree.continues:
            return self._take_in_turn([*earlier_runs, tree])
        return [*self._samples_of_abandoned(earlier_runs), *self._take_in_turn([tree])]

    def _samples_of_abandoned(self, runs_of_turn: list[Tree]) -> list[Sample]:
        """Make the samples of a turn after which the user asked something new.

        A turn that stopped for a person, and was not resumed, gives none.
        """
        if not runs_of_turn or runs_of_turn[-1].is_paused:
            return []
        return self._samples_of_joined(runs_of_turn, THREAD)

    def _take_in_turn(self, runs_of_turn: list[Tree]) -> list[Sample]:
        """Take in a new run, and return the samples that are complete with it.

        Example: a chain that searched and answered gives its sample at once. A graph
        that stopped for a person gives none: it waits for the run that resumes it.

        Args:
            runs_of_turn: The runs that the new run resumes, and the new run as the
                last. Usually the new run alone.
        """
        new_run = runs_of_turn[-1]
        resumption_key = new_run.resumption_key  # None: no later run can resume it
        if resumption_key is not None and new_run.is_paused:
            # a graph asked a person
            return self._let_wait(resumption_key, runs_of_turn)
        whole_turn = self._join_runs_of_turn(runs_of_turn)
        calls = Calls(whole_turn, self._overrides.context_tools or ())
        if resumption_key is not None and _stops_before_tools(calls):
            # a graph stopped at a breakpoint before its search
            return self._let_wait(resumption_key, runs_of_turn)
        resumes_another = len(runs_of_turn) > 1
        if resumes_another:
            return self._end_turn(runs_of_turn, calls)
        return self._take_in_single_run(new_run, calls)

    def _join_runs_of_turn(self, runs_of_turn: list[Tree]) -> Tree:
        """Join the runs of one turn into one run that holds the calls of all.

        Example: a graph searched, and stopped for a person; a second run resumed it, and
        answered. The joined run has the search and the answer. A single run is joined
        with an earlier run in which a model rewrote its question, if there is one.
        """
        if len(runs_of_turn) > 1:
            return join_trees(runs_of_turn, THREAD)
        return self._join_with_calls_that_wrote_question(runs_of_turn[0])

    def _take_in_single_run(self, tree: Tree, calls: Calls) -> list[Sample]:
        """Take in a run that resumes no other, and return the samples that are complete.

        A chain that searched and answered gives its own sample. A single search, or a
        single call of a model, is kept until a later run belongs to the same question.
        Example: a search for "ferry" is kept. With it the question about "bridge" is
        over, which waited until now: the sample of this question is returned.

        Args:
            tree: The run.
            calls: Its calls, with those of the runs that wrote its question.
        """
        has_failed = bool(tree.error or tree.root.error)
        kept_run = None if has_failed else self._keep_for_other_runs(tree, calls)
        if kept_run is None:
            return self._end_turn([tree], calls)
        return kept_run.samples_of_other_questions

    def _end_turn(self, runs_of_turn: list[Tree], calls: Calls) -> list[Sample]:
        """Make the samples of the runs that answer one question, and remember them.

        Example: "And the ferry?" follows "When did the bridge open?". The sample of the
        second question gets the first question and its answer as its history.

        Args:
            runs_of_turn: The runs that answer the question; usually one.
            calls: The calls of these runs, joined into one run.

        Returns:
            The samples. If one lacks an answer, and a later run may resume this one, the
            runs wait for it, and their samples are made then.
        """
        joined_tree = self._place_in_conversation(calls.tree)
        # the other runs stopped before they answered
        answering_run = runs_of_turn[-1]
        if self._reuses_documents_of_earlier_turn(answering_run, calls):
            # "Sum up what you found": its question may be that of the earlier turn
            joined_tree = doubtful(joined_tree, _FOUND_EARLIER)
        samples = samples_of(joined_tree, self._overrides)
        lacks_answer = any(sample.answer is None for sample in samples)
        resumption_key = joined_tree.resumption_key  # None: it cannot be resumed
        if lacks_answer and resumption_key is not None:
            return self._let_wait(resumption_key, runs_of_turn)
        if not samples:
            self._note_unsampled_question(joined_tree, runs_of_turn)
        elif not lacks_answer:
            # the same question again: the user reads this answer, not the earlier one
            self._earlier_answers.doubt_answer_replaced_by(joined_tree)
        self._remember_samples(joined_tree, samples)
        return samples

    def _reuses_documents_of_earlier_turn(self, tree: Tree, calls: Calls) -> bool:
        """Return whether a run did not search, and was given an earlier turn's documents.

        The text found as its question may then be of that earlier turn.
        """
        if calls.has_search:
            return False
        return self._documents_found_before.holds_any(tree.root.input_documents)

    def _remember_samples(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember the samples of a run for later turns, and note problems of them."""
        self._remember(tree, samples)
        self._unsampled_questions.keep_words_of(samples)
        self._note_texts_of_tools(samples)

    def _note_texts_of_tools(self, samples: Iterable[Sample]) -> None:
        """Note a problem for each sample whose evidence is the text of tools alone.

        It names the tools, and the setting that makes contexts of their texts. Where the
        user said that these tools do not search, the sample has no such warning, and
        there is no problem.
        """
        for sample in samples:
            names = tools_with_undivided_text(sample)
            if not names or sample.capture is None:
                continue
            how_to_name = how_to_name_tools(names)
            if any(how_to_name in warning for warning in sample.capture.warnings):
                self.problems.note(how_to_name)

    def _note_unsampled_question(
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
            self._unsampled_questions.add(joined_tree, counts_anyway=True)
        elif tree.was_routed_away:
            self._unsampled_questions.add(tree, counts_anyway=False)

    def _keep_for_other_runs(self, tree: Tree, calls: Calls) -> _KeptRun | None:
        """Keep a run that a later run may complete: a search, a model call or a part.

        Args:
            tree: The run.
            calls: Its calls, with those of the runs that wrote its question.

        Returns:
            The kept run; None if the run was not kept.
        """
        if tree.gives_only_documents or tree.root.kind == "retriever":
            return _KeptRun(self._keep_retrieval(tree))
        if calls.models and not calls.has_search_of_application:
            was_kept = self._keep_call_of_model(tree, calls)
            if was_kept:
                return _KeptRun(self._samples_due())
        if tree.is_always_a_sample or calls.has_search:
            return self._keep_part_of_question(tree, calls)
        return None

    def _keep_part_of_question(self, tree: Tree, calls: Calls) -> _KeptRun | None:
        """Keep a run that was asked one of several questions that a model wrote.

        Example: a model split "Compare the bridge and the ferry" into two questions,
        and this run answers "When was the bridge built?". A later run may put the
        answers together.

        Args:
            tree: The run.
            calls: Its calls; those of a joined run if it was joined with its writer.

        Returns:
            The kept run, with the samples of groups that are given up, since too many
            wait; None if the run was not kept.
        """
        query_writer = self._auxiliary_runs.writer_of_several(tree)
        was_joined_with_writer = calls.tree.root is not tree.root
        if query_writer is None or was_joined_with_writer:
            return None
        self._unsampled_questions.remove_questions_of([query_writer])
        if self._overrides.contexts_from is not None:
            tree = doubtful(tree, _NAMED_IN_EACH_PART)
        self._waiting_groups.add_part(tree, query_writer)
        given_up = self._waiting_groups.take_too_many()
        return _KeptRun(self._samples_of_groups(given_up))

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
                ``THREAD`` for a run and the runs that resumed it.
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
            self._unsampled_questions.keep_words_of(samples)
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
        self._waiting_runs_by_resumption_key[resumption_key] = runs
        if len(self._waiting_runs_by_resumption_key) <= _MOST_WAITING:
            return []
        _, oldest_runs = self._waiting_runs_by_resumption_key.popitem(last=False)
        return self._samples_of_joined(oldest_runs, THREAD)

    # Runs of plain functions

    def _join_with_calls_that_wrote_question(self, tree: Tree) -> Tree:
        """Join a run with the earlier calls of models that wrote its question.

        Example: a model rewrote "And the ferry?" as "When does the ferry sail?", and then
        a chain was called with this text: one run of both. Without such a call the run is
        returned as it is.
        """
        writers = self._auxiliary_runs.take_writers_of(tree)
        if not writers:
            return tree
        self._unsampled_questions.remove_questions_of(writers)
        return join_trees([*writers, tree], FLOW)

    def _keep_retrieval(self, tree: Tree) -> list[Sample]:
        """Keep a search that ran by itself, until a model answers from what it found.

        Example: ``retriever.invoke("ferry times")`` without a chain. A model call just
        before had written "ferry times" from the question: it is kept with the search.

        Returns:
            The samples of other questions: of those that are over, since their thread
            searches anew, and of the oldest ones, if too many wait for an answer.
        """
        query = _first_query(tree)
        # the thread searches anew: the question that it answered before is over
        samples = self._samples_due(tree.task_or_thread, query)
        writers = self._auxiliary_runs.writers_of_query(query, tree.task_or_thread)
        # a run that wrote the query lacks no sample: it may get that of the search
        self._unsampled_questions.remove_questions_of(writers)
        self._waiting_groups.add_retrieval(tree, query, writers)
        self._documents_found_before.add_of(tree)
        return samples + self._samples_of_groups(self._waiting_groups.take_too_many())

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
            self._waiting_groups.take_over_due(task_or_thread, query)
        )

    def _keep_call_of_model(self, tree: Tree, calls: Calls) -> bool:
        """Keep a run that called models and did not search, if it is no sample.

        It joins the group whose findings it was shown, or is kept as an auxiliary run,
        such as a model that rewrites the question. Earlier answers that stand in its
        prompts are put in doubt: what it wrote may be what the user reads.

        Returns:
            Whether it was kept.
        """
        group = self._waiting_groups.join(tree, calls)
        if group is not None:
            queries = {as_one_line(query) for query in group.queries}
            self._earlier_answers.doubt_answers_shown_to(tree, calls, queries)
            return True
        self._earlier_answers.doubt_answers_shown_to(tree, calls)
        if calls.has_search or self._is_a_sample_by_itself(calls):
            return False
        self._keep_auxiliary_run(tree)
        return True

    def _keep_auxiliary_run(self, tree: Tree) -> None:
        """Keep a run of models that gives no sample: a later search may use its text.

        Its question is noted as one without a sample. If the run called a tool, it is
        no router or title, and the note stays even if a sample asks the same.
        """
        called_tools = any(node.kind == "tool" for node in tree.root.walk())
        self._unsampled_questions.add(tree, counts_anyway=called_tools)
        self._auxiliary_runs.add(tree)
        if tree.conversation_id is not None:
            # later turns of the conversation may speak of what this run said
            as_sample = replace(tree, is_always_a_sample=True)
            turn = self._place_in_conversation(as_sample)
            self._remember(turn, samples_of(turn, self._overrides))

    def _is_a_sample_by_itself(self, calls: Calls) -> bool:
        """Return whether a run that searched for nothing is a sample all the same.

        It is if the framework calls it a query, if it called a tool and answered, if it
        was given documents, or if the user names the place of its contexts.
        """
        tree = calls.tree
        user_names_contexts = self._overrides.contexts_from is not None
        has_input_documents = bool(tree.root.input_documents)
        return (
            tree.is_always_a_sample
            or calls.answers_after_a_tool
            or has_input_documents
            or user_names_contexts
        )

    # Turns of a conversation

    def _place_in_conversation(self, tree: Tree) -> Tree:
        """Return a run as a turn of its conversation, with history and earlier calls.

        The history is the framework's, else the messages before the question in the
        answering prompt, else the turns that a prompt quotes as text.
        """
        if tree.is_history_of_prompt and not self.conversations.holds_turn_of(
            tree.history
        ):
            tree = doubtful(tree, _MAY_BE_EXAMPLES)
        if tree.history:
            return self.conversations.place_turn(tree)
        calls = Calls(tree)
        tree = self._with_history_of_prompt(calls)
        if tree.history:
            return self.conversations.place_turn(tree)
        return self._place_by_quotations(calls)

    def _place_by_quotations(self, calls: Calls) -> Tree:
        r"""Give a run its history, from earlier turns that its prompts quote as text.

        Only a quotation that names the speakers gives a history: "User: When did it
        open?\nAssistant: In 1874.\nUser: And the ferry?" quotes an earlier turn. But
        "Question: When did it open? Draft: In 1874." may quote a draft: the run gets no
        history, and its sample gets a warning.
        """
        quoted_turns = self._find_quoted_turns(calls)
        earlier_turns = [
            quoted.turn for quoted in quoted_turns if quoted.names_speakers
        ]
        last_turn = earlier_turns[-1] if earlier_turns else None
        placed = self.conversations.place_turn(calls.tree, last_turn)
        if placed.history:
            return placed
        return self._doubt_words_without_speakers(placed, quoted_turns, calls)

    def _doubt_words_without_speakers(
        self, placed: Tree, quoted_turns: Sequence[QuotedTurn], calls: Calls
    ) -> Tree:
        """Put a run in doubt whose prompts hold words of earlier turns as mere text.

        Args:
            placed: The run, which has no history.
            quoted_turns: The earlier turns whose question and answer stand there.
            calls: The calls of the run.
        """
        if quoted_turns:
            words: list[str] = []
            for quoted in quoted_turns:
                words += [quoted.turn.question, quoted.turn.answer]
            return _doubt_words_of_conversation(
                placed, words, _EARLIER_QUESTION_AND_ANSWER
            )
        answers = self._earlier_answers_in_prompts(calls)
        if answers:
            return _doubt_words_of_conversation(placed, answers, _EARLIER_ANSWER_ALONE)
        return placed

    def _earlier_answers_in_prompts(self, calls: Calls) -> list[str]:
        """Find answers of earlier turns in the prompts of a run.

        Example: an earlier turn answered "The bridge was opened in 1874 by the mayor.".
        A prompt of this run repeats this sentence without its question: "The bridge was
        opened in 1874 by the mayor. Make it longer."
        """
        # queries, replies and documents of this run may have the same words; they are
        # no earlier answers
        lines_of_run = {calls.replies[call].line for call in calls.models}
        for node in calls.nodes:
            lines_of_run |= {as_one_line(node.query), as_one_line(node.text)}
        # a search, a reranker and a joiner return the same texts: each is read once
        texts_found = {document.text for document in _documents_found(calls)}
        lines_of_run |= {as_one_line(text) for text in texts_found}
        prompts = [message.text for call in calls.models for message in call.prompt]
        return self.conversations.find_answers(prompts, lines_of_run)

    def _with_history_of_prompt(self, calls: Calls) -> Tree:
        """Return a run with the history that its answering prompt holds as messages.

        Messages that hold no captured turn may be examples. Then only runs of plain
        functions get them, with a doubt: nothing else tells the history of these.

        Returns:
            The run with its history; the run as it is if the prompt tells none.
        """
        tree = calls.tree
        history = _history_in_answering_prompt(calls)
        if not any(message.role == "assistant" for message in history):
            return tree
        with_history = replace(tree, history=history)
        if self.conversations.holds_turn_of(history):
            return with_history
        if _is_of_plain_functions(tree):
            return doubtful(with_history, _MAY_BE_EXAMPLES)
        return tree

    def _find_quoted_turns(self, calls: Calls) -> list[QuotedTurn]:
        """Find the earlier turns whose question and answer stand in a prompt of a run."""
        prompts: list[str] = []
        for call in calls.models:
            message_texts = [message.text for message in call.prompt]
            prompts.append("\n".join(message_texts))
        # The run may ask or search for the words of an earlier turn anew: then they
        # stand in its prompts as its own.
        own_lines = {as_one_line(node.query) for node in calls.nodes}
        own_lines.add(as_one_line(calls.tree.question))
        return list(self.conversations.find_quoted_turns(prompts, own_lines))


def _first_query(tree: Tree) -> str:
    """Return what a run asked first, in one line; empty if it asked nothing."""
    queries = (node.query for node in tree.root.walk() if node.query)
    return as_one_line(next(queries, None))


def _history_in_answering_prompt(calls: Calls) -> tuple[Turn, ...]:
    """Return what user and assistant said before the question in the answering prompt.

    That is the prompt of the last call that looks like answering; calls that were shown
    the question go before others. Example: user "Open?", assistant "Yes.", user "And
    when?": the turns "Open?" and "Yes.". Empty without such a call.
    """
    question = calls.tree.question
    if question is None and _is_of_plain_functions(calls.tree):
        question = question_without_chain(calls)
    answering_call = calls.last_answer_to(question)
    if answering_call is None:
        return ()
    return turns_before_question(
        answering_call.prompt, question, _documents_found(calls)
    )


def _is_of_plain_functions(tree: Tree) -> bool:
    """Return whether a run was joined of single calls, since no framework made a chain."""
    return tree.root.name == FLOW


def _documents_found(calls: Calls) -> list[Document]:
    """Return the documents that the calls of a run returned, call by call."""
    documents: list[Document] = []
    for documents_of_call in calls.lists():
        documents += documents_of_call
    return documents


def _doubt_words_of_conversation(tree: Tree, words: Iterable[str], doubt: str) -> Tree:
    """Put a run in doubt whose prompts hold words of earlier turns.

    The words count as instructions, so that they are no evidence for its answer.
    """
    with_words = replace(tree, instructions=(*tree.instructions, *words))
    return doubtful(with_words, doubt)


@dataclass(frozen=True)
class _KeptRun:
    """A run that is kept, since a later run may belong to the same question.

    Attributes:
        samples_of_other_questions: The samples of the questions that are over now that
            this run has come; often none.
    """

    samples_of_other_questions: list[Sample]


class _DocumentsFoundBefore:
    """The documents that searches found lately, in bounded memory.

    The application may keep them, and hand them in again in a later turn.
    """

    def __init__(self) -> None:
        self._hashes: OrderedDict[int, None] = OrderedDict()  # the latest last

    def add_of(self, tree: Tree) -> None:
        """Note the documents that the searches of a run found."""
        for node in tree.root.walk():
            for document in node.documents or ():
                self._hashes[_hash_of(document)] = None
        while len(self._hashes) > _MOST_HASHES:
            self._hashes.popitem(last=False)

    def holds_any(self, documents: Iterable[Document]) -> bool:
        """Return whether an earlier search found any of the documents."""
        return any(_hash_of(document) in self._hashes for document in documents)


def _hash_of(document: Document) -> int:
    """Return a number by which a document of an earlier turn is recognised."""
    return hash(document.id or document.text)


def _stops_before_tools(calls: Calls) -> bool:
    """Return whether a graph stopped at a breakpoint before it ran its tools.

    Example: its last message asks for the tool ``search("ferry")``, and no call of the
    run is that search.
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
    # tools that the model asked for, by the ids that their runs would have
    ids_of_tool_calls = {tool_call.id for tool_call in last_message.tool_calls}
    return all(node.tool_call_id not in ids_of_tool_calls for node in calls.nodes)
