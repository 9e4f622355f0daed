"""Counts the questions of runs that gave no sample, so that the user learns of them.

A router, a title or a check is asked what a sample asks or answers: it needs no sample
of its own, and is not counted. So a question is counted only once it is known which
samples there are.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Sample

_MOST_KEPT = 1000
_SHORTEST = 8  # a text of fewer letters stands in a prompt by chance


@dataclass(frozen=True)
class _UnsampledQuestion:
    """The question of a run without a sample.

    Attributes:
        line: The question, in one line.
        is_prompt: Whether it is the whole prompt of a model that was called by itself.
        counts_anyway: Whether it is counted even if a sample asks the same.
    """

    line: str
    is_prompt: bool
    counts_anyway: bool


class Unsampled:
    """Questions without a sample, until it is known which samples there are.

    Args:
        problems: Where they are counted.
        hint: What the user should do, in words: the problem that is counted for each
            question. Empty to count nothing.
    """

    def __init__(self, problems: Problems, hint: str) -> None:
        self._problems = problems
        self._hint = hint
        self._questions: deque[_UnsampledQuestion] = deque()  # the first noted first
        # what samples ask and answer, each in one line
        self._lines_of_samples: OrderedDict[str, None] = OrderedDict()

    def add(self, tree: Tree, *, counts_anyway: bool) -> None:
        """Note the question of a run that gave no sample.

        Args:
            tree: The run.
            counts_anyway: Whether it is counted even if a sample asks the same. A run
                that called a tool is no router or title.
        """
        line = _question_line(tree)
        if not line:
            return
        is_prompt = tree.question is None
        self._questions.append(_UnsampledQuestion(line, is_prompt, counts_anyway))
        if len(self._questions) > _MOST_KEPT:
            self._count_the_first()

    def remove_questions_of(self, trees: Iterable[Tree]) -> None:
        """Remove the questions of runs that belong to a sample after all."""
        for tree in trees:
            line = _question_line(tree)
            for question in self._questions:
                if question.line == line:
                    self._questions.remove(question)
                    break

    def keep_words_of(self, samples: Iterable[Sample]) -> None:
        """Keep the questions and answers of samples for a while."""
        for sample in samples:
            for text in (sample.question, sample.standalone_question, sample.answer):
                self._lines_of_samples[as_one_line(text)] = None
        while len(self._lines_of_samples) > _MOST_KEPT:
            self._lines_of_samples.popitem(last=False)

    def note_problems(self, *, is_without_samples: bool) -> None:
        """Note a problem for each question that no sample asks or answers.

        The questions are forgotten.

        Args:
            is_without_samples: Whether there were runs and none gave a sample. Then the
                hint is noted once even if no question was.
        """
        while self._questions:
            self._count_the_first()
        if self._hint and is_without_samples and not self._problems:
            self._problems.note(self._hint)

    def _count_the_first(self) -> None:
        """Remove the question that was noted first.

        It is counted as a problem, unless a sample asks or answers it.
        """
        question = self._questions.popleft()
        if not self._hint:
            return
        if question.counts_anyway or not self._is_of_a_sample(question):
            self._problems.note(self._hint)

    def _is_of_a_sample(self, question: _UnsampledQuestion) -> bool:
        """Return whether a sample asks or answers what a run was asked.

        For a whole prompt it is enough that a sample's question or answer stands in it.
        """
        if not question.is_prompt:
            return question.line in self._lines_of_samples
        long_lines = [line for line in self._lines_of_samples if len(line) >= _SHORTEST]
        return any(line in question.line for line in long_lines)


def _question_line(tree: Tree) -> str:
    """Return what a run was asked, in one line; empty if that is unknown.

    It is the question. Of a model that was called by itself it is the user's last
    message.
    """
    if tree.question is not None or tree.root.kind != "model":
        return as_one_line(tree.question)
    messages = [message for message in tree.root.prompt if message.role == "user"]
    if not messages:
        return ""
    return as_one_line(messages[-1].text)
