"""Rows to look at, and the groups of rows as the first screen shows them."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from ragmetrics_core.data import Sample, SampleResult, Scored, replace_surrogates
from ragmetrics_core.page.row_groups import LOSSES, MENDINGS, Mending
from ragmetrics_core.page.stage_losses import STAGE_TITLES

_N_EXAMPLES = 3
_LONGEST_QUESTION = 160
_SCORE_UNIT = 10_000  # the page holds scores with four decimals


@dataclass(frozen=True, slots=True)
class Example:
    """A row to look at, with its lowest score; None and "" where none is scored."""

    score: float | None
    index: int
    metric: str
    question: str
    rank: tuple[float, ...]  # the lowest first: as the page sorts its table
    group: str  # in words
    is_of_stage: bool = False  # its group names the stage that went wrong

    @property
    def row(self) -> int:
        """The number of the row as people count, from 1."""
        return self.index + 1


@dataclass(frozen=True, slots=True)
class Group:
    """One of the groups, with how many rows stand in it and its worst rows."""

    code: str
    title: str
    count: int
    examples: tuple[Example, ...]
    n_good_answers: int  # rows whose answer has no known fault

    @property
    def n_bad_answers(self) -> int:
        """Rows without a good answer."""
        return self.count - self.n_good_answers

    @property
    def weight(self) -> tuple[int, int]:
        """How much there is to mend: rows without a good answer, then rows."""
        return self.n_bad_answers, self.count

    @property
    def mending(self) -> Mending | None:
        """What to mend, and how; None where the group names nothing."""
        return MENDINGS.get(self.code)


class GroupTally:
    """Groups that grow row by row; of each the worst rows are kept."""

    def __init__(self) -> None:
        self._counts = Counter[str]()  # of rows, by the code of their group
        self._n_good_answers = Counter[str]()  # rows with a good answer, by group
        # rows with a score apart from those without
        self._examples = defaultdict[tuple[str, bool], list[Example]](list)

    def add(self, code: str, example: Example | None, *, is_answer_good: bool) -> None:
        """Count a row in a group, and keep it as an example if it is among the worst.

        Args:
            code: The group.
            example: The row as an example; None if it is no sample.
            is_answer_good: Whether the row has a good answer.
        """
        self._counts[code] += 1
        self._n_good_answers[code] += is_answer_good
        if example is not None:
            group_and_scored = (code, example.score is not None)
            examples = [*self._examples[group_and_scored], example]
            worst = worst_examples(examples, unscored_first=True)
            self._examples[group_and_scored] = worst

    def group(self, code: str, title: str) -> Group:
        """One group as it stands now; its count may be 0."""
        examples = [*self._examples[code, False], *self._examples[code, True]]
        # a row lost without a score is worse than others
        is_loss = code in LOSSES or code in STAGE_TITLES
        return Group(
            code=code,
            title=title,
            count=self._counts[code],
            examples=tuple(worst_examples(examples, unscored_first=is_loss)),
            n_good_answers=self._n_good_answers[code],
        )

    def worst(self, unscored: Container[str]) -> list[Example]:
        """Choose the worst rows of all groups.

        Args:
            unscored: The groups whose rows without a score count as bad; those of other
                groups are left out.
        """
        candidates: list[Example] = []
        for (code, is_scored), examples in self._examples.items():
            if is_scored or code in unscored:
                candidates += examples
        return worst_examples(candidates, unscored_first=True)


def example_of(row: SampleResult, group: str, *, is_of_stage: bool) -> Example | None:
    """Make what the first screen shows of a row as an example of its group.

    It shows the question, and the lowest of the row's scores with the metric's name.
    Example: a row with the question "Who?", and the scores .9 of one metric and .3 of
    another: "Who?", .3 and the other's name.

    Args:
        row: The row.
        group: The group's title.
        is_of_stage: Whether the group names a stage of the pipeline.

    Returns:
        The example; None for a row that is no sample.
    """
    if row.sample is None:
        return None
    scores = [
        (result.value, name)
        for name, result in row.results.items()
        if isinstance(result, Scored)
    ]
    score, metric = min(scores, default=(None, ""))
    return Example(
        score=score,
        index=row.index,
        metric=metric,
        question=short_question(row.sample),
        rank=_rank([value for value, _ in scores]),  # the worst example comes first
        group=group,
        is_of_stage=is_of_stage,
    )


def _rank(scores: Sequence[float]) -> tuple[float, ...]:
    """Make the key to sort scored rows: the lowest score, then the mean.

    The page sorts by the same rule. So both round scores before they compare them.
    """
    if not scores:
        return ()
    units = [round(score * _SCORE_UNIT) for score in scores]
    return (min(units), sum(units) / len(units))


def worst_examples(
    examples: Iterable[Example], *, unscored_first: bool
) -> list[Example]:
    """Choose the three worst examples; of equal ones the earlier rows.

    Args:
        examples: The examples.
        unscored_first: Whether rows without a score come first, or last.
    """

    def place(example: Example) -> tuple[bool, tuple[float, ...], int]:
        """Where an example stands among the others, the worst first."""
        is_scored = example.score is not None
        return is_scored is unscored_first, example.rank, example.index

    return nsmallest(_N_EXAMPLES, examples, key=place)


def largest_first(groups: Iterable[Group]) -> list[Group]:
    """Of equal counts the earlier stage first: later ones inherit what it lost."""
    return sorted(groups, key=lambda group: group.weight, reverse=True)


def short_question(sample: Sample) -> str:
    """The question on one line, cut if it is long; else the answer, or ""."""
    return shorten(sample.question or sample.answer or "", _LONGEST_QUESTION)


def shorten(text: str, longest: int) -> str:
    """The text on one line, cut if it is longer than so many characters."""
    words = " ".join(str(replace_surrogates(text))[: 10 * longest].split())
    return words if len(words) <= longest else words[:longest] + "…"
