"""Answers that a later run may have replaced, so that the user reads another text.

An application of plain functions answers in one run, and may revise the answer in the
next, without a further search::

    run 1   "When did it open?"                     "In 1874."        a sample
    run 2   "Make it a sentence: In 1874."          "It opened in 1874."

The user may read what run 2 wrote. The sample of run 1 is then put in doubt: it is made
anew, with a warning. Where run 2 holds "In 1874." as an earlier turn of a conversation,
nothing is doubted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from ragmetrics_core.capture.calls import (
    FREE_TEXT,
    STRUCTURED,
    Calls,
    texts_not_of_models,
)
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.normalized_text import Text
from ragmetrics_core.capture.passages import stands_apart
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import holds, quotation
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Sample

_MOST_KEPT = 32
_READ_LATER = (
    "a later call was shown the answer: what it wrote may be what the user reads, or a"
    " remark on it; make both calls in one run, or say the answer by answer_from"
)
_ASKED_AGAIN = (
    "a later call was asked the same question: what it wrote may be what the user reads"
)


class AnswersReadLater:
    """The samples that were made last, and doubts about those a later run may replace.

    Args:
        samples_of: Makes the samples of a run.
    """

    def __init__(self, samples_of: Callable[[Tree], Sequence[Sample]]) -> None:
        self._samples_of = samples_of
        self._recent: deque[tuple[Tree, Sample]] = deque(maxlen=_MOST_KEPT)
        # by identity each sample that is in doubt, and what it is now
        self._doubted: dict[int, tuple[Sample, Sample]] = {}

    def remember(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Keep the sample of a run for a while.

        The answers of a run with several samples are never doubted.
        """
        if len(samples) == 1:
            self._recent.append((tree, samples[0]))

    def revise_sample(self, sample: Sample) -> Sample:
        """Return a sample as it is now, with its doubt if it has one.

        The doubt is forgotten then.
        """
        if id(sample) not in self._doubted:
            return sample
        _, sample_with_doubt = self._doubted.pop(id(sample))
        return sample_with_doubt

    def forget_doubted_samples(self) -> int:
        """Forget the doubted samples that were handed on before they were doubted.

        Returns:
            How many samples these were.
        """
        n_doubted = len(self._doubted)
        self._doubted.clear()
        return n_doubted

    def doubt_answers_shown_to(
        self, tree: Tree, calls: Calls, questions: Collection[str] | None = None
    ) -> None:
        """Doubt recent answers that a later run took as input or answered anew.

        Run 1 answers "In 1874."; run 2 gets "Make it a sentence: In 1874." and writes
        "It opened in 1874.". The user may read this in the place of "In 1874.", so that
        the sample of run 1 gets a doubt.

        Args:
            tree: The later run.
            calls: The calls of the later run.
            questions: Only answers to these questions, each in one line, are looked at.
                None for answers to any question; then the last answer is also doubted
                if the run was asked the same question again.
        """
        if not _wrote_text_to_read(calls):
            return  # the run wrote only labels, such as "relevant", or queries
        if questions is None:
            self._doubt_last_answer_if_asked_again(tree, calls)
        messages: list[Text] = []
        for call in calls.models:
            messages += [Text(text) for text in texts_not_of_models(call)]
        _, last_sample = self._last_of(tree.task_or_thread)
        for run, sample in self._answers_not_in_history(tree):
            if questions is not None and as_one_line(sample.question) not in questions:
                continue
            # "Draft: In 1874." gives the answer to the latest run to work on; an older
            # answer of the same few words stands there by chance
            is_last = sample is last_sample
            if _is_given_to_work_on(sample, messages, is_last=is_last):
                self._doubt(run, sample, _READ_LATER)

    def _doubt_last_answer_if_asked_again(self, tree: Tree, calls: Calls) -> None:
        """Doubt the last answer of a run's task or thread if the run was asked the same."""
        _, last_sample = self._last_of(tree.task_or_thread)
        questions_of_run = _questions_to(tree, calls)
        for run, sample in self._answers_not_in_history(tree):
            is_last = sample is last_sample
            if is_last and as_one_line(sample.question) in questions_of_run:
                self._doubt(run, sample, _ASKED_AGAIN)

    def _answers_not_in_history(self, tree: Tree) -> list[tuple[Tree, Sample]]:
        """Return the recent samples without a doubt whose answer is no earlier turn.

        The history of the run ``tree`` does not hold such an answer.
        """
        history_lines = {as_one_line(turn.content) for turn in tree.history}
        return [
            (run, sample)
            for run, sample in self._recent
            if id(sample) not in self._doubted
            and as_one_line(sample.answer) not in history_lines
        ]

    def _last_of(self, task_or_thread: str) -> tuple[Tree, Sample] | tuple[None, None]:
        """Return the last kept run of a task or thread, and its sample; None without one."""
        for run, sample in reversed(self._recent):
            if run.task_or_thread == task_or_thread:
                return run, sample
        return None, None

    def doubt_answer_replaced_by(self, tree: Tree) -> None:
        """Doubt the last answer of a task or thread if a run answers its turn anew.

        Two runs that were asked the same question answer one turn in two cases:

        - both have the same earlier messages, so that the second run does not come after
          the first one in the conversation;
        - the first run asked no model, and gave a text of the framework, "Empty
          Response". The second one writes "In 1874.", which the user may read.
        """
        earlier_run, sample = self._last_of(tree.task_or_thread)
        if earlier_run is None or sample is None or sample.answer is None:
            return
        if as_one_line(sample.question) != as_one_line(tree.question):
            return
        # Two runs without earlier messages say nothing: a question may be asked twice.
        have_same_history = bool(tree.history) and earlier_run.history == tree.history
        asked_no_model = not Calls(earlier_run).models
        is_doubted = id(sample) in self._doubted
        if (have_same_history or asked_no_model) and not is_doubted:
            self._doubt(earlier_run, sample, _ASKED_AGAIN)

    def _doubt(self, run: Tree, sample: Sample, words: str) -> None:
        """Make the sample of a run anew, with one more doubt in words."""
        doubtful_run = replace(run, doubts=(*run.doubts, words))
        for sample_with_doubt in self._samples_of(doubtful_run):
            self._doubted[id(sample)] = sample, sample_with_doubt


def _wrote_text_to_read(calls: Calls) -> bool:
    """Return whether a model wrote a text that a user may read: free or structured.

    Labels such as "relevant", verdicts and queries do not count.
    """
    forms = calls.reply_forms.values()
    return FREE_TEXT in forms or STRUCTURED in forms


def _questions_to(tree: Tree, calls: Calls) -> set[str]:
    """Return the texts that a run was asked, each in one line.

    These are its question, and the last message of the user to each of its models.
    Empty if one of its models wrote further questions, such as "When did the bridge
    open?": this model rewrote the user's question.
    """
    if any(calls.replies[call].questions for call in calls.models):
        return set()
    lines = {as_one_line(tree.question)}
    for call in calls.models:
        messages = [message for message in call.prompt if message.role == "user"]
        if messages:
            lines.add(as_one_line(messages[-1].text))
    return lines - {""}


def _is_given_to_work_on(
    sample: Sample, messages: Sequence[Text], *, is_last: bool
) -> bool:
    """Whether the prompts of a later run hold an answer as a text to work on.

    "Make it longer: It opened in 1874." does. "Assistant: It opened in 1874." does not:
    there the answer is an earlier turn of a conversation.

    Args:
        sample: The sample of the answer.
        messages: The messages of the later run's prompts.
        is_last: Whether the sample is the last one of the task or thread.
    """
    answer = sample.answer or ""
    question = sample.question or ""
    quotations = [
        quotation(answer, questions=[question], host=message) for message in messages
    ]
    if "earlier turn" in quotations:
        return False
    if all(kind == "absent" for kind in quotations):
        return False
    if len(answer) >= DISTINCTIVE_LENGTH:
        return True
    # a short answer, such as "In 1874.", may stand there by chance
    if any(holds(question, message) for message in messages):
        return True
    # "Draft: In 1874." in a message, or the answer as a line of its own
    return is_last and _stands_apart_in(answer, messages)


def _stands_apart_in(answer: str, messages: Iterable[Text]) -> bool:
    """Return whether several words are a line of a message or stand after a label.

    "Draft: In 1874." holds such an answer.
    """
    if len(answer.split()) <= 1:
        return False
    return any(stands_apart(answer.strip(), message.raw) for message in messages)
