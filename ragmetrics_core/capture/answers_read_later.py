"""Answers that a later run was shown, so that the user may read another text instead.

A sample whose answer is **doubted** is made anew, with that doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ragmetrics_core.capture.calls import FREE_TEXT, NO_ANSWER, STRUCTURED, Calls
from ragmetrics_core.capture.letters import Text
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.passages import stands_apart
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import quotation
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
    """The samples that were made last, and which of their answers a later run read.

    That run may have written what the user reads in their place.

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
        """A sample as it is now, with its doubt if it has one.

        The doubt is forgotten then.
        """
        if id(sample) not in self._doubted:
            return sample
        _, sample_with_doubt = self._doubted.pop(id(sample))
        return sample_with_doubt

    def forget_doubted(self) -> int:
        """Forget the doubted samples that nobody asked for any more.

        Returns:
            How many they were.
        """
        count = len(self._doubted)
        self._doubted.clear()
        return count

    def doubt_those_shown_to(
        self, tree: Tree, calls: Calls, questions: Collection[str] | None = None
    ) -> None:
        """Put answers in doubt that the calls of another run were shown.

        That run may have written the text that the user reads. A run whose calls only
        gave labels or queries wrote none.

        Args:
            tree: The run.
            calls: Its calls.
            questions: Only answers to these, each in one line; None for all.
        """
        if max(calls.reply_forms.values(), default=NO_ANSWER) < STRUCTURED:
            return
        messages: list[Text] = []
        for call in calls.models:
            for message in call.prompt:
                if message.role != "assistant":
                    messages.append(Text(message.text))
        _, last_sample = self._last_of(tree.task_or_thread)
        questions_of_run: Collection[str] = ()
        if questions is None:
            questions_of_run = _questions_to(tree, calls)
        # what a run is handed as an earlier turn it does not write anew
        said_before = {as_one_line(turn.content) for turn in tree.history}
        for run, sample in list(self._recent):
            is_earlier_turn = as_one_line(sample.answer) in said_before
            if id(sample) in self._doubted or is_earlier_turn:
                continue
            question = as_one_line(sample.question)
            is_last = sample is last_sample
            if is_last and question and question in questions_of_run:
                self._doubt(run, sample, _ASKED_AGAIN)
            elif questions is not None and question not in questions:
                continue
            elif _is_worked_on(sample, messages, is_last=is_last):
                self._doubt(run, sample, _READ_LATER)

    def _last_of(self, task_or_thread: str) -> tuple[Tree, Sample] | tuple[None, None]:
        """The last run of a task or thread that was kept, with its sample; None without one."""
        for run, sample in reversed(self._recent):
            if run.task_or_thread == task_or_thread:
                return run, sample
        return None, None

    def doubt_one_that_is_replaced(self, tree: Tree, calls: Calls) -> None:
        """Doubt the last answer of a task or thread if this run may have replaced it.

        The run was asked the same. Besides, no model wrote the earlier answer, or both
        runs were handed the same history, so that the earlier answer is not in it.
        """
        run, sample = self._last_of(tree.task_or_thread)
        writes_text = FREE_TEXT in calls.reply_forms.values()
        if run is None or sample is None or not writes_text:
            return
        if sample.answer is None or id(sample) in self._doubted:
            return
        if as_one_line(sample.question) != as_one_line(tree.question):
            return
        has_same_history = bool(run.history) and run.history == tree.history
        if has_same_history or not Calls(run).models:
            self._doubt(run, sample, _ASKED_AGAIN)

    def _doubt(self, run: Tree, sample: Sample, words: str) -> None:
        """Make the sample of a run anew, with one more doubt in words."""
        doubtful_run = replace(run, doubts=(*run.doubts, words))
        for sample_with_doubt in self._samples_of(doubtful_run):
            self._doubted[id(sample)] = sample, sample_with_doubt


def _questions_to(tree: Tree, calls: Calls) -> set[str]:
    """What a run was asked, each text in one line.

    These are its question, and the last message of the user to each of its models.
    Empty where its models only wrote further questions.
    """
    if any(calls.replies[call].questions for call in calls.models):
        return set()
    lines = {as_one_line(tree.question)}
    for call in calls.models:
        messages = [message for message in call.prompt if message.role == "user"]
        if messages:
            lines.add(as_one_line(messages[-1].text))
    return lines


def _is_worked_on(sample: Sample, messages: Sequence[Text], *, is_last: bool) -> bool:
    """Whether messages of a prompt hold an answer, and not as an earlier turn of a talk.

    A short one counts where its question stands there, too, or where it is the last one
    and stands by itself.

    Args:
        sample: The sample that was answered.
        messages: The messages.
        is_last: Whether it is the last sample of the task or thread.
    """
    answer = sample.answer or ""
    question = sample.question or ""
    ways = {quotation(answer, {question}, message) for message in messages}
    stands_there = bool(ways - {"nowhere"})
    if "said" in ways or not stands_there:
        return False
    if len(answer) >= DISTINCTIVE_LENGTH:
        return True
    if any(quotation(question, (), message) != "nowhere" for message in messages):
        return True
    if not is_last or len(answer.split()) <= 1:
        return False
    return any(stands_apart(answer.strip(), message.raw) for message in messages)
