"""Judges that count what another judge would send, instead of calling.

A dry run carries out the metrics' own plans with them. There is one for each kind of
judge: of chat models, of typed questions, a cascade, a judge of a user's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    Failed,
    NotAnswered,
    Question,
    R,
    Sample,
    Usage,
    Weight,
    verdicts_of,
)
from ragmetrics_core.data.asking import check_batch, check_template
from ragmetrics_core.data.crashes import reason_of_crash
from ragmetrics_core.data.errors import (
    JudgeError,
    MetricCrashed,
    QuestionNotSupported,
)
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.own_judge import counts_by_itself
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.decision_judge import DecisionJudge, convert_question
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan
from ragmetrics_core.models.chat import Capabilities, ChatModel
from ragmetrics_core.models.decision_forms import (
    characters_of_question,
    characters_of_state,
)
from ragmetrics_core.models.decision_model import DecisionModel

# Characters of the tags around a text.
_TAGS = 45
# Characters in a token, for the lower and for the upper bound of the number of tokens.
_LONG_TOKEN = 4
_SHORT_TOKEN = 3
# Tokens that an endpoint adds to a prompt: roles, and what separates messages.
_TOKENS_AROUND_PROMPT = 8
# Tokens of a reply, if the question gives no example of one: lower and upper bound.
_SHORT_REPLY = 20
_LONG_REPLY = 200


def make_counting_judges(judge: Judge) -> tuple[CountingJudge, CountingJudge]:
    """Return two judges that count what a judge would send, without calling it.

    The first computes the lower bound, the second the upper bound.
    """
    for model in judge.models:
        run(model.prepare())
    return _counting_judge(judge, high=False), _counting_judge(judge, high=True)


def _counting_judge(judge: Judge, *, high: bool) -> CountingJudge:
    """Make a judge that counts what another judge would send, and sends nothing.

    Args:
        judge: The judge of the run.
        high: Whether the upper bound is counted, instead of the lower.
    """
    if isinstance(judge, CascadeJudge):
        return _counting_cascade(judge, high=high)
    if isinstance(judge, DecisionJudge):
        return CountingDecisions(judge.model, high=high)
    if sends_unknown_requests(judge):
        return CountingQuestions()
    return CountingJudge(judge.models, high=high)


def _counting_cascade(cascade: CascadeJudge, *, high: bool) -> CountingJudge:
    """Make a judge that counts what the two judges of a cascade would send.

    The strong judge is asked where the cheap one is unsure: in the lower bound nowhere,
    in the upper bound everywhere. A cheap judge that is free is really asked instead.
    """
    if cascade.cheap.free:
        return CountingCascade(cascade, _counting_judge(cascade.strong, high=high))
    cheap = _counting_judge(cascade.cheap, high=high)
    if not high:
        return cheap
    return CountingBoth(cheap, _counting_judge(cascade.strong, high=high))


def sends_unknown_requests(judge: Judge) -> bool:
    """Whether nobody knows what a judge of a user's own sends, or if it costs anything.

    Such a judge names no models, is not called free, and is not handed the limits of a
    run.
    """
    return not judge.models and not counts_by_itself(judge)


@dataclass(frozen=True, slots=True)
class _CountedModel:
    """What is counted of a model: what it can do, and its prices per token."""

    capabilities: Capabilities
    prices: tuple[float, float] | None


class CountingJudge(Judge):
    """Counts the calls and tokens that a judge of chat models would take.

    It stands in for the judge in a dry run, where nothing is called: it answers a
    question with the example reply that the question names, so that a metric goes on as
    it would in a run.

    The real number of calls and tokens depends on the replies. So one object computes a
    lower bound of what is usual, another one an upper bound.

    Args:
        models: The models that the judge asks, each of them every question.
        high: Whether the upper bound is counted, instead of the lower.

    Attributes:
        total: What was counted so far.
    """

    name = "dry run"

    def __init__(self, models: Sequence[ChatModel], *, high: bool) -> None:
        self._total = Usage()
        self._models = [
            _CountedModel(model.capabilities(), model.prices()) for model in models
        ]
        self._is_upper_bound = high
        self._digests_counted: set[int] = set()  # of questions

    @property
    def total(self) -> Usage:
        """What was counted so far."""
        return self._total

    def carry_out(
        self, metric: Metric, sample: Sample
    ) -> JudgeError | MetricCrashed | None:
        """Run a metric on a sample with example replies, and count what it asks.

        Returns:
            Why the metric fails in any case: the judge does not support one of its
            questions, or it crashes (``MetricCrashed``). None if nothing of that kind
            is seen.
        """
        replies: list[Asked[Any] | NotAnswered] = []
        try:
            result = self._answer_questions(metric.plan(sample), replies)
        except JudgeError:  # the metric raised the error of a question
            return _refusal_among(replies)
        except Exception as error:  # noqa: BLE001  # a run goes on as well after a metric's error
            # The metric may have crashed because a question names no example. In a run
            # the question gets a reply, so that nothing is known of a crash there.
            if _lacks_reply(replies):
                return _refusal_among(replies)
            return MetricCrashed(reason_of_crash(error))
        return _refusal_among(replies) if isinstance(result, Failed) else None

    def _answer_questions(
        self,
        plan: Plan,
        replies: list[Asked[Any] | NotAnswered],
    ) -> Outcome:
        """Answer what a metric asks with example replies, and return its result.

        There is no event loop as in a run, which would take twice the time.

        Args:
            plan: What ``Metric.plan`` returns: yields questions, and is sent replies.
            replies: Gets each reply.
        """
        try:
            questions = next(plan)
            while True:
                batch = check_batch(questions)
                new_replies = tuple(self.count(question).reply for question in batch)
                replies += new_replies
                questions = plan.send(new_replies)
        except StopIteration as end:
            result: Outcome = end.value
            return result

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question; see ``count``."""
        return self.count(question)

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it with the example reply that it names.

        A question that was asked before is not counted again, since a run keeps
        replies. A question without an example is counted, and answered with an error.
        Where the question wants probabilities, each verdict of the example gets the
        probability 1. Example: two metrics ask the same question: it is counted once,
        and both get its example reply.
        """
        replies = self._example_replies(question)
        self._add_usage_of_new(question, replies)
        return _example_answer(question, replies, Weight(1.0))

    def _add_usage_of_new(self, question: Question[R], replies: tuple[R, ...]) -> None:
        """Estimate the calls and tokens of a new question, and add them to the total.

        A question that equals an earlier one adds nothing: a run answers it from its
        stored replies. To poll is to ask a question several times, for independent
        replies. Example: polls 0 to 2 and later 3 to 4 count as two new questions.

        Args:
            question: The question.
            replies: Its example replies, whose length is counted.
        """
        if not self._models:  # such a judge sends nothing
            return
        parts = tuple(question.parts.values())
        # In a later round ``first_poll`` is the number of the replies before it.
        n_polls_before = question.first_poll or 0
        digest = hash((type(question), n_polls_before, question.instructions, *parts))
        if digest in self._digests_counted:
            return
        self._digests_counted.add(digest)
        for model in self._models:
            self._total += self._estimated_usage(question, replies, model)

    def _example_replies(self, question: Question[R]) -> tuple[R, ...]:
        """Return example replies to a question, one for each time that it is polled.

        A question has two examples: the cheaper reply leads to the fewest further
        questions, the dearer reply to the most. The lower bound takes the cheaper for
        each poll, and the upper bound the dearer. Returns () if the question has no
        examples. Example: the lower bound of 3 polls: no, no, no; the upper: yes, yes,
        yes, or in rounds yes, no, yes.
        """
        examples = question.examples()
        if examples is None:
            return ()
        cheaper_reply, dearer_reply = examples
        if not self._is_upper_bound:
            return (cheaper_reply,) * question.polls
        if question.first_poll is None:  # all polls are asked at once, not in rounds
            return (dearer_reply,) * question.polls
        # Rounds end as soon as enough replies agree. Replies that alternate never do.
        # The index goes on over the rounds: 0, 1, 2 in the first, 3 and 4 in the second.
        # So the dearer reply, at 0, 2 and 4, has the majority.
        last_poll = question.first_poll + question.polls
        return tuple(
            dearer_reply if poll_index % 2 == 0 else cheaper_reply
            for poll_index in range(question.first_poll, last_poll)
        )

    def _estimated_usage(
        self, question: Question[R], replies: tuple[R, ...], model: _CountedModel
    ) -> Usage:
        """Estimate what one model would take for a question: calls, tokens, price.

        Tokens are estimated from characters: 3 in a token for the upper bound, 4 for
        the lower. Example: a prompt of 1,200 characters has 300 tokens as the lower
        bound, 400 as the upper, and a few around it.

        Args:
            question: The question.
            replies: Its example replies, one for each poll; empty if it names none. The
                length of the first is taken for all.
            model: What the model can do, and its prices.
        """
        n_replies, n_calls = self._replies_and_calls(question, model.capabilities)
        characters_per_token = _SHORT_TOKEN if self._is_upper_bound else _LONG_TOKEN
        if replies:
            n_characters = len(replies[0].model_dump_json(exclude_defaults=True))
            tokens_of_reply = n_characters // characters_per_token
        else:
            tokens_of_reply = _LONG_REPLY if self._is_upper_bound else _SHORT_REPLY
        tokens_of_prompt = _characters(question) // characters_per_token
        tokens_received = n_replies * tokens_of_reply
        tokens_sent = n_calls * (tokens_of_prompt + _TOKENS_AROUND_PROMPT)
        cost = None
        if model.prices is not None:
            price_sent, price_received = model.prices
            cost = tokens_sent * price_sent + tokens_received * price_received
        return Usage(
            calls=n_calls,
            prompt_tokens=tokens_sent,
            completion_tokens=tokens_received,
            cost=cost,
        )

    def _replies_and_calls(
        self, question: Question[R], capabilities: Capabilities
    ) -> tuple[int, int]:
        """Return how many replies a question takes, and in how many calls."""
        n_replies = self._n_replies(question, capabilities)
        if n_replies == 1:
            return 1, 1
        gives_several = self._supposed(capabilities.n)
        if not gives_several or capabilities.temperature is False:
            return n_replies, n_replies
        if question.wanted_probability is not None and capabilities.logprobs is None:
            # The run asks for log-probabilities first. That call brings one reply; the
            # others share a second call.
            return n_replies, 2
        return n_replies, 1

    def _n_replies(self, question: Question[R], capabilities: Capabilities) -> int:
        """Return how many replies a question takes of a model.

        One reply with log-probabilities gives the probabilities that a question wants.
        A model without them is polled several times instead.
        """
        if question.wanted_probability is None:
            return question.polls
        if self._supposed(capabilities.logprobs):
            return 1
        return max(1, question.wanted_probability.fallback_polls)

    def _supposed(self, capability: bool | None) -> bool:
        """Whether the estimate supposes that a model can do something.

        Args:
            capability: Whether it can; None if nobody knows.
        """
        if capability is None:
            return not self._is_upper_bound
        return capability


class _NoExample(QuestionNotSupported):
    """Why a dry run alone cannot answer: a run asks the question all the same."""


def _example_answer(
    question: Question[R], replies: tuple[R, ...], probability: Weight
) -> Answer[R]:
    """Answer a question with its example replies; with an error if it names none.

    Args:
        question: The question.
        replies: Its example replies.
        probability: What each verdict gets, if the question wants probabilities.
    """
    if not replies:
        name_of_class = type(question).__name__
        message = f"questions of type {name_of_class} name no example reply"
        return Answer(NotAnswered(_NoExample(message)))
    weights: tuple[Weight, ...] = ()
    if question.wanted_probability is not None:
        weights = (probability,) * len(verdicts_of(replies[0]))
    return Answer(Asked(replies, weights=weights))


def _lacks_reply(replies: Iterable[object]) -> bool:
    """Whether a question got no reply, be it in the dry run alone."""
    return any(isinstance(reply, NotAnswered) for reply in replies)


def _refusal_among(replies: Iterable[object]) -> JudgeError | None:
    """Return the first error that a run would get as well; None if there is none.

    That a question names no example is an error of the dry run alone.
    """
    for reply in replies:
        if isinstance(reply, NotAnswered) and not isinstance(reply.error, _NoExample):
            return reply.error
    return None


class CountingCascade(CountingJudge):
    """Counts a cascade whose cheap judge is free.

    The cheap judge is really asked, as in a run. The questions that it passes on to the
    strong judge are counted.

    Args:
        cascade: The cascade.
        strong: Counts what the strong judge would send and receive.
    """

    def __init__(self, cascade: CascadeJudge, strong: CountingJudge) -> None:
        super().__init__((), high=False)
        self._cascade = cascade.with_parts(
            lambda judge: strong if judge is cascade.strong else judge
        )
        self._strong = strong
        # Only two counts of it are used: the questions that the cheap judge decided
        # (spared), and the questions that it passed on.
        self._cheap_usage = Usage()

    @property
    def total(self) -> Usage:
        """What was counted so far, and how many questions the cheap judge decided."""
        return self._strong.total + self._cheap_usage

    def count(self, question: Question[R]) -> Answer[R]:
        """Ask the cheap judge, and count the question where it is unsure."""
        return run(self.answer(question))

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Ask the cheap judge, and count the question where it is unsure."""
        answer = await self._cascade.answer(question)
        self._cheap_usage += Usage(
            spared=answer.usage.spared, passed=answer.usage.passed
        )
        return answer


class CountingDecisions(CountingJudge):
    """Counts what a judge of typed questions would send.

    A typed question is answered with probabilities instead of a text. Several of them
    may share a request, which holds the texts that they are about once; these texts are
    the *state*.

    At the lower bound, all questions about equal texts share requests. At the upper
    bound, only the typed questions of one metric's question do: questions that are
    asked later share nothing, and some services count the texts for each question.

    Args:
        model: The model.
        high: Whether the upper bound is counted, instead of the lower.
    """

    def __init__(self, model: DecisionModel, *, high: bool) -> None:
        super().__init__((), high=high)
        self._model = model
        self._characters_per_token = _SHORT_TOKEN if high else _LONG_TOKEN
        # {digest of what the questions share: digests of the typed questions}
        self._questions_that_share_requests: dict[int, set[int]] = {}

    def count(self, question: Question[R]) -> Answer[R]:
        """Count what a question would be sent as, and return its example reply.

        Nothing is sent: this is the dry run. A typed question asks for probabilities,
        such as "the context covers this fact". A metric's question becomes one or more
        typed questions. A question whose reply is known without asking counts nothing.
        Example: two questions about one answer: one request as the lower bound, two as
        the upper.
        """
        converted = convert_question(question)
        if converted.reply is not None:
            return Answer(converted.reply)
        texts = converted.state  # what the typed questions are about
        typed_questions = tuple(converted.typed_by_json)  # each of them once
        # Which typed questions may share requests?
        if self._is_upper_bound:  # only those of this one question
            sharing_questions = hash((texts, typed_questions))
        else:  # all that are about the same texts
            sharing_questions = hash(texts)
        for typed_question in typed_questions:
            self._add(sharing_questions, texts, typed_question)
        # A typed question is asked once, however often a chat model would be polled.
        replies = self._example_replies(question)[:1]
        return _example_answer(question, replies, Weight(1.0, mode="decision"))

    def _add(self, sharing_questions: int, state: str, typed_question: str) -> None:
        """Count a typed question, unless an equal one was counted before.

        Such a question is answered with probabilities, e.g. "the context covers fact
        2": true .9. Several share a request, as many as the model takes. Example: if it
        takes 10, the 1st and the 11th of them each begin a request.

        Args:
            sharing_questions: Digest of the questions that may share requests with it.
            state: The texts that the question is about, as JSON. A request holds them
                once, however many questions it has.
            typed_question: The question, as JSON.
        """
        counted = self._questions_that_share_requests.setdefault(
            sharing_questions, set()
        )
        if hash(typed_question) in counted:
            return
        # True for the first of the questions, and whenever all requests are full.
        begins_request = len(counted) % self._model.most_questions == 0
        counted.add(hash(typed_question))
        n_tokens = self._tokens_of_question(typed_question)
        if begins_request:
            n_tokens += self._tokens_of_state(state)
        cost = None
        prices = self._model.prices()
        if prices is not None:
            price_sent, _ = prices  # the reply is no text, and costs nothing
            cost = n_tokens * price_sent
        self._total += Usage(
            calls=1 if begins_request else 0, prompt_tokens=n_tokens, cost=cost
        )

    def _tokens_of_question(self, typed_question: str) -> int:
        """Estimate the tokens of a typed question in a request."""
        n_characters = characters_of_question(typed_question, most=self._is_upper_bound)
        return n_characters // self._characters_per_token

    def _tokens_of_state(self, state: str) -> int:
        """Estimate the tokens of the texts that a request holds once."""
        n_characters = characters_of_state(state, most=self._is_upper_bound)
        return n_characters // self._characters_per_token


class CountingQuestions(CountingJudge):
    """Counts the questions to a judge of a user's own, whose price nobody knows."""

    def __init__(self) -> None:
        super().__init__((), high=False)

    def _add_usage_of_new(self, question: Question[R], replies: tuple[R, ...]) -> None:
        """Count a question as one call, also if it was asked before.

        No replies are stored for such a judge.
        """
        del question, replies  # nobody knows what such a judge sends
        self._total += Usage(calls=1, cost=None)


class CountingBoth(CountingJudge):
    """Counts the upper bound of a cascade: both judges are asked every question."""

    def __init__(self, cheap: CountingJudge, strong: CountingJudge) -> None:
        super().__init__((), high=True)
        self._cheap = cheap
        self._strong = strong

    @property
    def total(self) -> Usage:
        """What was counted so far of both."""
        return self._cheap.total + self._strong.total

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question for both judges, and answer as the strong one does."""
        self._cheap.count(question)
        return self._strong.count(question)


def _characters(question: Question[Any]) -> int:
    """Estimate how many characters the prompt of a question has.

    They are counted from its parts. Rendering thousands of prompts would take seconds.
    Example: a template of 300 characters without examples, and two texts of 100, each
    with 45 for the tags around it: 590.
    """
    instructions = question.instructions
    check_template(instructions, tuple(question.parts))
    # the parts whose names stand in braces in the template
    shown_parts = [
        part
        for name, part in question.parts.items()
        if f"{{{name}}}" in instructions.template
    ]
    # ``examples`` is one text that the user wrote out; ``quoted`` are labelled rows,
    # each a text with what people said of it
    n_characters = len(instructions.template) + len(instructions.examples)
    for example in instructions.quoted:
        n_characters += len(example.text) + len(example.judgement)
    for part in shown_parts:
        n_characters += sum(len(text) + _TAGS for text in part.texts)
        n_characters += sum(len(turn.content) + _TAGS for turn in part.history)
    return n_characters
