"""Questions in LlamaIndex's traces that no user asked.

LlamaIndex's evaluators and generators of test data ask by the same methods as users.
"""

from collections.abc import Iterator, Sequence

from ragmetrics_core.capture import ToolCall, as_one_line
from ragmetrics_core.capture.plain_values import texts_in
from ragmetrics_core.data import Sample
from ragmetrics_core.traces.span_calls import Call

_BEGINNING_OF_GENERATORS_PROMPT = "You are a Teacher/Professor. Your task is to setup"
# answers remembered: an application may be traced for ever
_MAX_ANSWERS = 100_000
_NODES_WERE_GIVEN = (
    "nodes were given to a synthesizer and not retrieved: the question may be that of"
    " building an index"
)
_MODEL_MAY_ASK = (
    "a model called a tool before, in another trace: it may have written the question"
)


class EvaluatorQuestions:
    """Tells what evaluators, generators of test data and builders of indices ask.

    Their traces look like those of users' questions.
    """

    def __init__(self) -> None:
        # hashes in the order in which they came; the values say nothing
        self._answers: dict[int, None] = {}
        # of nodes that a generator of test data was given
        self._test_node_ids: set[str | None] = set()
        # what a model chose last for tools; "" for what was not recorded
        self._tool_arguments: set[str] = set()

    def is_not_from_user(self, sample: Sample) -> bool:
        """Tell whether a generator of test data or an evaluator asked a sample's question.

        The nodes (documents) that a generator was given are remembered, and the answers
        of other samples.
        """
        question = as_one_line(sample.question)
        node_ids = {context.id for context in sample.retrieved or ()}
        retrieves_for_tests = bool(node_ids) and node_ids <= self._test_node_ids
        is_of_generator = question.startswith(_BEGINNING_OF_GENERATORS_PROMPT)
        if is_of_generator or retrieves_for_tests:
            self._test_node_ids |= node_ids
            return True
        # an evaluator asks about an answer that the application gave before
        asks_about_answer = self._is_earlier_answer(_judged_answer(question))
        self._remember_answer(as_one_line(sample.answer))
        return asks_about_answer

    def _is_earlier_answer(self, text: str) -> bool:
        """Whether a text is the answer of an earlier sample; False for an empty text."""
        return bool(text) and hash(text) in self._answers

    def _remember_answer(self, text: str) -> None:
        """Remember an answer by its hash, which keeps no text, and little memory."""
        self._answers[hash(text)] = None
        if len(self._answers) > _MAX_ANSWERS:
            oldest = next(iter(self._answers))
            del self._answers[oldest]

    def doubt(self, sample: Sample) -> str | None:
        """Say why the question of a sample may be none of a user's.

        None if nothing speaks for that.
        """
        question = as_one_line(sample.question)
        model_may_ask = not self._tool_arguments.isdisjoint(("", question))
        self._tool_arguments.clear()
        if sample.retrieved is None and sample.contexts:
            return _NODES_WERE_GIVEN
        return _MODEL_MAY_ASK if model_may_ask else None

    def remember_tool_arguments(self, calls: Sequence[Call]) -> None:
        """Remember what a model chose last for tools."""
        arguments: set[str] = set()
        for tool_call in _tool_calls(calls):
            texts = [as_one_line(text) for text in texts_in(tool_call.arguments)]
            arguments.update(texts or [""])
        if arguments:
            self._tool_arguments = arguments


def _judged_answer(question: str) -> str:
    """The answer that an evaluator sends as its question; "" if it sends none.

    Some evaluators write "Question: … Response: ANSWER", others the answer alone.
    """
    if not question.startswith("Question: "):
        return question
    _, _, answer = question.partition(" Response: ")
    return answer


def _tool_calls(calls: Sequence[Call]) -> Iterator[ToolCall]:
    """Yield the tools that models called."""
    for call in calls:
        replies = call.reading.replies if call.reading is not None else ()
        for reply in replies:
            yield from reply.tool_calls
