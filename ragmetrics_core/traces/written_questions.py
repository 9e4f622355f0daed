"""Questions in LlamaIndex's traces that a model wrote, and no user.

LlamaIndex's evaluators and generators of test data ask an engine by the same method as
a user, and so does an application that asks what a model chose for a tool.
"""

from collections.abc import Iterable

from ragmetrics_core.capture.structures import as_one_line
from ragmetrics_core.data import Sample
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.traces.span_calls import Call

# texts remembered: an application may be traced for ever
_MOST_TEXTS = 100_000
_MARK_OF_LINE = lazy_pattern(r"[\s*•-]*(?:\d+[.):])?\s*")  # "1. ", "- "
_PROMPT_OF_GENERATOR = "You are a Teacher/Professor. Your task is to setup"
_MAY_BE_WRITTEN = "a model may have written the question, in an earlier trace"


class WrittenQuestions:
    """Tells which questions a model wrote in an earlier trace."""

    def __init__(self) -> None:
        # hashes in the order in which they came; the values say nothing
        self._answers: dict[int, None] = {}
        self._lines: dict[int, None] = {}
        self._was_tool_called = False  # by a model in a trace without a sample

    def is_of_evaluator(self, sample: Sample) -> bool:
        """Tell whether a question is an earlier answer, or asks for test data."""
        question = as_one_line(sample.question)
        is_of_generator = question.startswith(_PROMPT_OF_GENERATOR)
        is_about_answer = hash(_judged_answer(question)) in self._answers
        if sample.answer:
            _remember(sample.answer, self._answers)
            for line in sample.answer.splitlines():
                _remember(_MARK_OF_LINE.sub("", line, count=1), self._lines)
        return is_of_generator or is_about_answer

    def with_doubt(self, sample: Sample) -> Sample:
        """The sample, in doubt where a model may have written its question."""
        is_line = hash(as_one_line(sample.question)) in self._lines
        notes = sample.capture
        if notes is None or not (is_line or self._was_tool_called):
            return sample
        changes = {
            "grade": "incomplete" if notes.grade == "incomplete" else "inferred",
            "doubts": {**notes.doubts, "question_guessed": _MAY_BE_WRITTEN},
            "warnings": (*notes.warnings, _MAY_BE_WRITTEN),
        }
        return sample.model_copy(update={"capture": notes.model_copy(update=changes)})

    def note_tools(self, calls: Iterable[Call], *, has_samples: bool) -> None:
        """Note whether a trace that gave no sample called a tool, for the next one."""
        self._was_tool_called = False
        for outermost in calls if not has_samples else ():
            for call in outermost.walk():
                replies = call.reading.replies if call.reading is not None else ()
                if any(reply.tool_calls for reply in replies):
                    self._was_tool_called = True


def _remember(text: str, hashes: dict[int, None]) -> None:
    """Remember a text by its hash, which takes little memory; forget the oldest ones."""
    hashes[hash(as_one_line(text))] = None
    if len(hashes) > _MOST_TEXTS:
        del hashes[next(iter(hashes))]


def _judged_answer(question: str) -> str:
    """The answer that an evaluator sends as its question.

    Some evaluators write "Question: … Response: ANSWER", others the answer alone.
    """
    if not question.startswith("Question: "):
        return question
    _, _, answer = question.partition(" Response: ")
    return answer
