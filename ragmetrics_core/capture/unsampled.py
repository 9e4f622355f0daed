"""Questions of runs that gave no sample: each is counted, unless a sample asks or answers the same."""

from collections import OrderedDict, deque
from collections.abc import Iterable

from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import one_line
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Sample

_MOST_KEPT = 1000


class Unsampled:
    """Questions without a sample, until it is known what else was asked.

    A router, a title or a check is asked what a sample asks or answers, and needs none
    of its own.

    Args:
        problems: Where they are counted.
        hint: What to do about one; empty where none is counted.
    """

    def __init__(self, problems: Problems, hint: str) -> None:
        self._problems, self._hint = problems, hint
        # in one line; None of those that count whatever else was asked
        self._questions: deque[str | None] = deque()
        # what samples ask and answer, each in one line
        self._words: OrderedDict[str, None] = OrderedDict()

    def add(self, tree: Tree, *, counts_anyway: bool) -> None:
        """A run gave no sample; ``counts_anyway``: it is no router or title, because it called a tool."""
        if tree.question is None:
            return
        self._questions.append(None if counts_anyway else one_line(tree.question))
        if len(self._questions) > _MOST_KEPT:
            self._count_the_first()

    def belong_to_a_sample(self, trees: Iterable[Tree]) -> None:
        """Runs belong to a sample after all."""
        for tree in trees:
            question = one_line(tree.question)
            if question in self._questions:
                self._questions.remove(question)

    def keep_words_of(self, samples: Iterable[Sample]) -> None:
        """Keep what samples ask and answer for a while."""
        for sample in samples:
            for text in (sample.question, sample.standalone_question, sample.answer):
                self._words[one_line(text)] = None
        while len(self._words) > _MOST_KEPT:
            self._words.popitem(last=False)

    def count(self, *, runs_without_any: bool) -> None:
        """Say what to do, once for each question; where no run gave a sample, once for all."""
        while self._questions:
            self._count_the_first()
        if self._hint and runs_without_any and not self._problems:
            self._problems.note(self._hint)

    def _count_the_first(self) -> None:
        question = self._questions.popleft()
        if self._hint and (question is None or question not in self._words):
            self._problems.note(self._hint)
