"""The LLM judge: asks a chat model, reads its replies, and says what it cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ragmetrics_core.data.errors import JudgeError, JudgeUnavailable, LimitReached, QuestionNotSupported
from ragmetrics_core.data.questions import (
    Adherent,
    Answer,
    ExtractFacts,
    FactInContext,
    NotAnswered,
    Question,
    R,
    RateRecall,
    Sufficient,
    Useful,
)
from ragmetrics_core.data.writing import WriteQuestion
from ragmetrics_core.endpoints.adapting import Adapting, Learned, gathered
from ragmetrics_core.endpoints.chat import ChatModel, ChatRequest
from ragmetrics_core.endpoints.limited import Gate, Limited
from ragmetrics_core.endpoints.limits import Allowance
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore
from ragmetrics_core.endpoints.stored import Stored
from ragmetrics_core.endpoints.wrappers import Retrying
from ragmetrics_core.judging import asking, formats, windows
from ragmetrics_core.judging.asking import Asking
from ragmetrics_core.judging.conversation import Conversation
from ragmetrics_core.judging.formats import Format
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.rendering import render


class _Kind(NamedTuple):
    """How a type of question is asked: the form of its replies, and the procedure."""

    form: Callable[[Any], Format[Any]]
    ask: Callable[[Asking[Any], Any], Awaitable[Any]]


_KINDS: dict[type[Question[Any]], _Kind] = {
    Useful: _Kind(formats.useful, asking.useful),
    Adherent: _Kind(lambda _: formats.adherent(), asking.adherent),
    RateRecall: _Kind(formats.rate_recall, asking.once),
    ExtractFacts: _Kind(formats.extract_facts, asking.once),
    FactInContext: _Kind(formats.fact_in_context, asking.facts),
    Sufficient: _Kind(lambda _: formats.sufficient(), asking.once),
    WriteQuestion: _Kind(formats.write_question, asking.once),
}


class LLMJudge(Judge):
    """A judge that asks a chat model.

    Args:
        model: The chat model.
        max_tokens: Limit of a reply's length, in tokens; a reply that it cuts off is asked again with four times
            as much.
        top_logprobs: Alternatives per token, where log-probabilities are asked for.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no limit.
        replicate: Number of an independent repetition, e.g. of a noise study: stored replies of one are not used
            for another.

    Example:
        >>> from ragmetrics_core import LiteLLMModel
        >>> LLMJudge(LiteLLMModel("openai/gpt-4o-mini")).name
        'openai/gpt-4o-mini'
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        max_tokens: int = 1024,
        top_logprobs: int = 5,
        attempts: int = 8,
        timeout: float | None = 300.0,
        replicate: int = 0,
    ) -> None:
        self.name = model.name
        self.model = model
        self.max_tokens = max_tokens
        self.top_logprobs = top_logprobs
        self.replicate = replicate
        self._attempts = attempts
        self._timeout = timeout
        self._learned = Learned()
        self._gate = Gate()

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question on its own; a run of many questions shares a ``session``."""
        return await self.session(concurrency=32, store=None).answer(question)

    def session(self, *, concurrency: int, store: ReplyStore | None, allowance: Allowance | None = None) -> Judge:
        """Return a judge for one run; what is learned about the endpoint stays with this object."""
        kept = MemoryStore() if store is None else store
        allowance = allowance or Allowance()
        limited = Limited(self.model, concurrency, self._timeout, kept.settled, allowance, self._gate)
        adapting = Adapting(Retrying(limited, self._attempts, allowance.sleep), self._learned)
        return _Session(self, Stored(adapting, kept))


class _Session(Judge):
    """An LLM judge during one run.

    Args:
        judge: The judge with its settings.
        model: Its model with the wrappers of this run.
    """

    def __init__(self, judge: LLMJudge, model: Stored) -> None:
        self.name = judge.name
        self._judge = judge
        self._model = model

    @property
    def details(self) -> dict[str, str]:
        """Those of the judge."""
        return self._judge.details

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question; about a text that is too long for the model, window by window where that can be.

        Raises:
            JudgeUnavailable: If no question will be answered.
            SettingError: If the template uses a placeholder that such a question does not fill.
        """
        answer = await self._answer_whole(question)
        if parts := windows.parts(question, answer):
            return windows.joined(question, answer, await gathered(map(self.answer, parts)))
        return answer

    async def _answer_whole(self, question: Question[R]) -> Answer[R]:
        kind = next((_KINDS[base] for base in type(question).__mro__ if base in _KINDS), None)
        if kind is None:
            return Answer(NotAnswered(QuestionNotSupported(_unsupported(question))))
        await self._model.prepare()
        form = kind.form(question)
        conversation = Conversation(self._model, form)
        request = ChatRequest(
            messages=render(question),
            schema=form.schema,
            temperature=0.0,
            max_tokens=self._judge.max_tokens,
            replicate=self._judge.replicate,
        )
        weighable = self._model.capabilities().logprobs is not False
        asked = Asking(conversation, request, self._judge.top_logprobs if weighable else 0)
        try:
            reply = await kind.ask(asked, question)
        except JudgeError as error:
            if isinstance(error, JudgeUnavailable) and not isinstance(error, LimitReached):
                raise
            reply = NotAnswered(error)
        return Answer(reply, conversation.usage)


def _unsupported(question: Question[Any]) -> str:
    return (
        f"an LLM judge does not know questions of type {question.kind!r}; it knows "
        f"{', '.join(repr(known.kind) for known in _KINDS)}; use a judge of your own for this metric"
    )
