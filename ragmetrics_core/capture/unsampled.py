"""Questions of runs that gave no sample: each is counted, unless a sample asks or answers the same."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Sample

_MOST_KEPT = 1000
_SHORTEST = 8  # words of fewer letters stand in a prompt by chance


@dataclass(frozen=True)
class _UnsampledQuestion:
    """What a run without a sample was asked.

    Attributes:
        words: The question, in one line.
        is_prompt: Whether these are the words to a model that was called by itself.
        counts_anyway: Whether it is counted even if a sample asks the same.
    """

    words: str
    is_prompt: bool
    counts_anyway: bool


class Unsampled:
    """Questions without a sample, until it is known what else was asked.

    A router, a title or a check is asked what a sample asks or answers, and needs none
    of its own.

    Args:
        problems: Where they are counted.
        hint: What to do about one; empty where none is counted.
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
        words = _words_to(tree)
        if not words:
            return
        is_prompt = tree.question is None
        self._questions.append(_UnsampledQuestion(words, is_prompt, counts_anyway))
        if len(self._questions) > _MOST_KEPT:
            self._count_the_first()

    def strike(self, trees: Iterable[Tree]) -> None:
        """Strike the questions of runs that belong to a sample after all."""
        for tree in trees:
            words = _words_to(tree)
            for question in self._questions:
                if question.words == words:
                    self._questions.remove(question)
                    break

    def keep_words_of(self, samples: Iterable[Sample]) -> None:
        """Keep what samples ask and answer for a while."""
        for sample in samples:
            for text in (sample.question, sample.standalone_question, sample.answer):
                self._lines_of_samples[as_one_line(text)] = None
        while len(self._lines_of_samples) > _MOST_KEPT:
            self._lines_of_samples.popitem(last=False)

    def count(self, *, runs_without_any: bool) -> None:
        """Note a problem for each question that no sample asks or answers.

        The questions are forgotten then.

        Args:
            runs_without_any: Whether there were runs and none gave a sample. Then the
                hint is given once even if no question was noted.
        """
        while self._questions:
            self._count_the_first()
        if self._hint and runs_without_any and not self._problems:
            self._problems.note(self._hint)

    def _count_the_first(self) -> None:
        """Forget the first question that was noted.

        It is counted as a problem, unless a sample asks or answers it.
        """
        question = self._questions.popleft()
        if not self._hint:
            return
        if question.counts_anyway or not self._is_of_a_sample(question):
            self._problems.note(self._hint)

    def _is_of_a_sample(self, question: _UnsampledQuestion) -> bool:
        """Whether a sample asks or answers what a run was asked.

        If that is a whole prompt, it is enough that words of a sample stand in it.
        """
        if not question.is_prompt:
            return question.words in self._lines_of_samples
        long_lines = [line for line in self._lines_of_samples if len(line) >= _SHORTEST]
        return any(line in question.words for line in long_lines)


def _words_to(tree: Tree) -> str:
    """What a run was asked, in one line; empty if that is unknown.

    It is the question. Of a model that was called by itself it is the user's last
    message.
    """
    if tree.question is not None or tree.root.kind != "model":
        return as_one_line(tree.question)
    messages = [message for message in tree.root.prompt if message.role == "user"]
    if not messages:
        return ""
    return as_one_line(messages[-1].text)
