"""The judge of a dry run: counts what another judge would send, and sends nothing.

It answers each question with the example reply that the question names. So a dry run is
a run like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    R,
    Usage,
    Weight,
    verdicts_of,
)
from ragmetrics_core.data.asking import check_template
from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.own_judge import counts_by_itself
from ragmetrics_core.judging.decision_judge import ConvertedQuestion, convert_question
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import Capabilities
from ragmetrics_core.models.decision_forms import request_text
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.features import no_logprobs
from ragmetrics_core.models.openai_form import priced

# Characters of the tags around a text.
_TAGS = 45
# Characters in a token, for the lower and for the upper bound of the number of tokens.
_LONG_TOKEN = 4
_SHORT_TOKEN = 3
# Tokens that an endpoint adds to a prompt: roles, and what separates messages.
_TOKENS_AROUND_PROMPT = 8
# Typed questions are sent in a form of up to twice their length and these characters:
# names, braces, the model.
_FORM_OF_TYPED = 100
# Tokens of a reply, if the question gives no example of one: lower and upper bound.
_SHORT_REPLY = 20
_LONG_REPLY = 200


class NoExample(QuestionNotSupported):
    """Why a dry run alone cannot answer: a run asks the question all the same."""


class Counted:
    """What the judges of a dry run have counted.

    Args:
        high: Whether the upper bound of what is usual is counted, instead of the lower.
    """

    def __init__(self, *, high: bool) -> None:
        self.high = high
        self.usage = Usage()

    def judge(self, judge: Judge) -> Judge:
        """Return a judge that counts here what another judge would send."""
        for model in judge.models:
            run(model.prepare())
        return CountingJudge(judge, self)


class CountingJudge(Judge):
    """Counts the calls and tokens that a judge would take, and replies by example.

    A question that was asked before is not counted again, since a run keeps replies.

    Args:
        judge: The judge that a run would ask.
        counted: Where it is counted.
    """

    free = True  # what it counts is no spending of the dry run

    def __init__(self, judge: Judge, counted: Counted) -> None:
        self.name = judge.name
        self._judge = judge
        self._counted = counted
        self._digests_counted: set[int] = set()

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it with the example reply that it names.

        A question without an example is counted, and answered with an error.
        """
        check_template(question.instructions, tuple(question.parts))
        answer = self._answer(question)
        self._counted.usage += answer.usage
        return answer

    def _answer(self, question: Question[R]) -> Answer[R]:
        """Return the example reply, with the usage that a run would have."""
        replies = self._example_replies(question)
        models = self._judge.models
        usage = Usage()
        if models and isinstance(models[0], DecisionModel):
            converted = convert_question(question)
            if not isinstance(converted, ConvertedQuestion):  # known without asking
                return Answer(converted)
            usage = self._usage_of_typed(models[0], converted)
            replies = replies[:1]  # one answer, however often a chat model is polled
        elif self._needs_other_tokens(question):
            return Answer(NotAnswered(no_logprobs(self.name)))
        elif models:
            usage = self._usage_of_prompts(question, replies)
        elif not counts_by_itself(self._judge):
            # Nobody knows what a judge of a user's own sends, and nothing is stored.
            usage = Usage(calls=1, cost=None)
        if replies:
            return Answer(self._asked(question, replies), usage)
        kind = type(question).__name__
        no_example = NoExample(f"questions of type {kind} name no example reply")
        return Answer(NotAnswered(no_example), usage)

    def _usage_of_typed(
        self, model: DecisionModel, converted: ConvertedQuestion
    ) -> Usage:
        """What the requests for a question's typed questions take."""
        new_questions = [
            question
            for question in converted.typed_by_json
            if self._is_new(converted.state, question)
        ]
        usage = Usage()
        most = model.most_questions
        for start in range(0, len(new_questions), most):
            text = request_text(converted.state, new_questions[start : start + most])
            n_characters = len(text)
            if self._counted.high:
                n_characters = 2 * len(text) + _FORM_OF_TYPED
            n_tokens = self._tokens(n_characters)
            usage += priced(Usage(calls=1, prompt_tokens=n_tokens), model.prices())
        return usage

    def _is_new(self, *parts: object) -> bool:
        """Whether something is counted for the first time."""
        digest = hash(parts)
        is_new = digest not in self._digests_counted
        self._digests_counted.add(digest)
        return is_new

    def _needs_other_tokens(self, question: Question[R]) -> bool:
        """Whether the models would refuse a question that needs log-probabilities.

        Where that is not known, the lower bound supposes it: the metric then asks in a
        way that takes fewer calls.
        """
        wanted = question.wanted_probability
        if wanted is None or not wanted.needs_tokens or not self._judge.models:
            return False
        stated = [model.capabilities().logprobs for model in self._judge.models]
        return not any(self._counted.high if one is None else one for one in stated)

    def _example_replies(self, question: Question[R]) -> tuple[R, ...]:
        """Return example replies to a question, one for each time that it is polled.

        The lower bound takes the reply that leads to the fewest further questions, the
        upper bound the one that leads to the most. () if the question has no example.
        """
        examples = question.examples()
        if examples is None:
            return ()
        cheaper_reply, dearer_reply = examples
        if not self._counted.high:
            return (cheaper_reply,) * question.polls
        if question.first_poll is None:  # all polls are asked at once, not in rounds
            return (dearer_reply,) * question.polls
        # Rounds end as soon as enough replies agree. Replies that alternate never do.
        last_poll = question.first_poll + question.polls
        return tuple(
            dearer_reply if poll_index % 2 == 0 else cheaper_reply
            for poll_index in range(question.first_poll, last_poll)
        )

    def _asked(self, question: Question[R], replies: tuple[R, ...]) -> Asked[R]:
        """Return example replies, sure of their verdicts where that is wanted."""
        weights: tuple[Weight, ...] = ()
        if question.wanted_probability is not None:
            weights = (Weight(1.0),) * len(verdicts_of(replies[0]))
        return Asked(replies, weights=weights)

    def _usage_of_prompts(self, question: Question[R], replies: tuple[R, ...]) -> Usage:
        """What the calls of chat models take: each model is asked every question.

        Example: polls 0 to 2 and later 3 to 4 count as two new questions.
        """
        n_polls_before = question.first_poll or 0
        parts = tuple(question.parts.values())
        usage = Usage()
        if not self._is_new(
            type(question), n_polls_before, question.instructions, *parts
        ):
            return usage
        tokens_of_reply = _LONG_REPLY if self._counted.high else _SHORT_REPLY
        if replies:
            text = replies[0].model_dump_json(exclude_defaults=True)
            tokens_of_reply = self._tokens(len(text))
        tokens_of_prompt = self._tokens(_characters(question)) + _TOKENS_AROUND_PROMPT
        for model in self._judge.models:
            n_replies, n_calls = self._replies_and_calls(question, model.capabilities())
            usage_of_model = Usage(
                calls=n_calls,
                prompt_tokens=n_calls * tokens_of_prompt,
                completion_tokens=n_replies * tokens_of_reply,
            )
            usage += priced(usage_of_model, model.prices())
        return usage

    def _replies_and_calls(
        self, question: Question[R], capabilities: Capabilities
    ) -> tuple[int, int]:
        """Return how many replies a question takes, and in how many calls.

        One reply with log-probabilities gives the probabilities that a question wants.
        A model without them is polled several times instead.
        """
        n_replies = question.polls
        tries_logprobs = False
        wanted = question.wanted_probability
        if wanted is not None:
            # one that needs tokens would else have been refused
            if self._supposed(capabilities.logprobs) or wanted.needs_tokens:
                return 1, 1
            n_replies = max(1, wanted.fallback_polls)
            # The run asks for log-probabilities first. That call brings one reply.
            tries_logprobs = capabilities.logprobs is None
        if n_replies == 1:
            return 1, 1
        if not self._supposed(capabilities.n) or capabilities.temperature is False:
            return n_replies, n_replies
        return n_replies, 2 if tries_logprobs else 1

    def _supposed(self, capability: bool | None) -> bool:
        """Whether a bound supposes that a model can do something; None if unknown."""
        return not self._counted.high if capability is None else capability

    def _tokens(self, n_characters: int) -> int:
        return n_characters // (_SHORT_TOKEN if self._counted.high else _LONG_TOKEN)


def count_work(judge: Judge, work: Callable[[Judge], object]) -> tuple[Usage, Usage]:
    """Do some work with judges that count, and return the lower and the upper bound."""
    bounds = (Counted(high=False), Counted(high=True))
    for counted in bounds:
        work(counted.judge(judge))
    low, high = bounds
    return low.usage, high.usage


def _characters(question: Question[Any]) -> int:
    """Estimate how many characters the prompt of a question has.

    They are counted from its parts. Rendering thousands of prompts would take seconds.
    Example: a template of 300 characters without examples, and two texts of 100, each
    with 45 for the tags around it: 590.
    """
    instructions = question.instructions
    shown_parts = [
        part
        for name, part in question.parts.items()
        if f"{{{name}}}" in instructions.template
    ]
    n_characters = len(instructions.template) + len(instructions.examples)
    for part in shown_parts:
        n_characters += sum(len(text) + _TAGS for text in part.texts)
        n_characters += sum(len(turn.content) + _TAGS for turn in part.history)
    return n_characters
