"""A judge that answers typed questions with probabilities, and writes nothing.

Questions say themselves how they are asked so (``Question.typed_form``). Those
about equal states share a request; no text is shown to a question that does not name
it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ragmetrics_core.data import (
    WORDING,
    Answer,
    Asked,
    Chances,
    JudgeError,
    JudgeUnavailable,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    SettingError,
    TypedQuestion,
    Usage,
)
from ragmetrics_core.data.typed import TypedForm, problem_of_typed
from ragmetrics_core.judging import windows
from ragmetrics_core.judging.judge import (
    problem_of_missing_weights,
    problem_of_reply,
)
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.decision_forms import (
    chances_of,
    json_text,
    question_text,
)
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.session import Session
from ragmetrics_core.models.threads import compute_beside_loop
from ragmetrics_core.models.typed_asking import Decision, decide


@dataclass(eq=False, repr=False)
class DecisionJudge(ModelJudge):
    """A judge that asks a decision model typed questions.

    It answers the questions of the four metrics, except which facts a text states: give
    facts (``facts=``), or take a cascade whose strong judge writes.

    Args:
        model: The decision model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.
        replicate: Number of an independent repetition: stored answers of one are not
            used for another.

    Raises:
        SettingError: If the model is none of typed questions, or a number is out of
            range.

    Examples:
        >>> from ragmetrics_core.models.decision_model import OpenAIDecisionModel
        >>> DecisionJudge(OpenAIDecisionModel("gpt-6-luna", api_key="secret")).name
        'decisions/gpt-6-luna'
    """

    asks_together = True

    model: DecisionModel

    def __post_init__(self) -> None:
        if not isinstance(self.model, DecisionModel):
            raise SettingError(
                f"DecisionJudge asks models of typed questions, and got a"
                f" {type(self.model).__name__}; give a DecisionModel, or take LLMJudge"
            )
        super().__post_init__()

    @property
    def details(self) -> dict[str, str]:
        """The version of the wordings."""
        return {"typed": WORDING}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
        """
        (answer,) = await self.answer_all([question])
        return answer

    async def answer_all(self, questions: Sequence[Question[Any]]) -> list[Answer[Any]]:
        """Answer several questions; those about equal texts share a request.

        A text that is too long for the model is divided, and its parts are asked about,
        where the question says how.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
        """
        if self._run_session is None:
            return await self._for_one_call().answer_all(questions)
        converted_questions = [await _render(question) for question in questions]
        decisions = await self._ask_typed_questions(
            self._run_session, converted_questions
        )
        answers = _answers_with_usage(converted_questions, decisions)
        return await gather_all(
            self._ask_in_windows(question, answer)
            for question, answer in zip(questions, answers, strict=True)
        )

    async def _ask_in_windows(
        self, question: Question[Any], answer: Answer[Any]
    ) -> Answer[Any]:
        """Return the answer; if a text was too long, ask about its windows instead."""
        partial_questions = windows.halve_questions(question, answer)
        if not partial_questions:
            return answer
        partial_answers = await self.answer_all(partial_questions)
        return windows.join_verdicts(question, answer, partial_answers)

    async def _ask_typed_questions(
        self, session: Session, converted_questions: Sequence[ConvertedQuestion]
    ) -> _DecisionByTypedQuestion:
        """Send typed questions to the model, and return its answer to each.

        Example: a metric asks which of two facts a context covers. That was converted
        into two typed questions, "it covers fact 1" and "it covers fact 2". The model
        answers each with a probability. Typed questions about the same texts (their
        *state*) share a request: seven of them, for a model that takes 3 at a time, are
        3 requests.

        Args:
            session: Sends a request, and reads the answers in its reply.
            converted_questions: The metrics' questions, converted.

        Returns:
            The model's answer to each typed question. The key is the pair of two JSON
            texts: the state, and the typed question.
        """
        typed_by_json: dict[str, TypedQuestion] = {}
        for converted in converted_questions:
            typed_by_json.update(converted.typed_by_json)
        requests = _make_requests(converted_questions, self.model.most_questions)
        # reads the model's answer to one typed question, and checks its probabilities
        read_answer = partial(_read_decision, typed_by_json, self.name)
        answers_of_requests = await gather_all(
            decide(session, request.state, request.typed_jsons, read_answer)
            for request in requests
        )
        answer_by_state_and_json: dict[tuple[str, str], Decision[Chances]] = {}
        for request, answer_by_json in zip(requests, answers_of_requests, strict=True):
            for typed_json, answer in answer_by_json.items():
                answer_by_state_and_json[request.state, typed_json] = answer
        return answer_by_state_and_json


class _TypedRequest(NamedTuple):
    """One request: texts (the state) and typed questions about them, all as JSON."""

    state: str
    typed_jsons: list[str]


# The model's answer to each typed question. The key is the pair of two JSON texts: the
# texts that the typed question is about (its state), and the typed question.
_DecisionByTypedQuestion = Mapping[tuple[str, str], Decision[Chances]]


def _make_requests(
    converted_questions: Sequence[ConvertedQuestion], most_questions: int
) -> list[_TypedRequest]:
    """Gather the typed questions about equal texts into requests.

    Seven typed questions about one context, with ``most_questions=3``, are requests of
    3, 3 and 1. Questions about another context get requests of their own. An equal
    typed question is sent once.
    """
    # by the texts that they are about (their state), written as JSON
    typed_jsons_by_state: defaultdict[str, list[str]] = defaultdict(list)
    for converted in converted_questions:
        typed_jsons_by_state[converted.state] += converted.typed_by_json
    requests: list[_TypedRequest] = []
    for state, typed_jsons in typed_jsons_by_state.items():
        distinct_jsons = list(dict.fromkeys(typed_jsons))
        for start in range(0, len(distinct_jsons), most_questions):
            end = start + most_questions
            requests.append(_TypedRequest(state, distinct_jsons[start:end]))
    return requests


@dataclass(frozen=True, slots=True, repr=False)
class ConvertedQuestion:
    """A metric's question, converted into typed questions.

    A typed question asks a model for the probability of each option.

    Args:
        question: The metric's question.
        state: The texts that the typed questions are about, as JSON.
        typed_by_json: The typed questions by their JSON; equal typed questions are one.
        typed_jsons: The JSON of each typed question, in the order in which the answers
            are read; equal typed questions are repeated.
        reply: The reply that is known without asking: the texts settle the question, or
            it cannot be asked. None if the model has to be asked.
    """

    question: Question[Any]
    state: str = ""
    typed_by_json: Mapping[str, TypedQuestion] = field(default_factory=dict)
    typed_jsons: tuple[str, ...] = ()
    reply: Asked[Any] | NotAnswered | None = None


async def _render(question: Question[Any]) -> ConvertedQuestion:
    """Convert a question into typed questions, beside the event loop if it is long."""
    return await compute_beside_loop(
        partial(convert_question, question), size=question.n_characters
    )


def convert_question(question: Question[Any]) -> ConvertedQuestion:
    """Convert a question into typed questions, to be answered with probabilities.

    The result holds a reply instead if no model has to be asked: because the texts
    settle the question, or because it cannot be asked (the reply is an error).
    """
    if question.typed_form is None:
        return ConvertedQuestion(question, reply=NotAnswered(_not_supported(question)))
    try:
        return _convert(question, question.typed_form)
    except JudgeError as error:
        reply = NotAnswered(error.with_traceback(None))
    except Exception as error:  # noqa: BLE001  # a user's form may raise anything: this question alone fails
        reply = NotAnswered(_wrong_form(question, f"raised {type(error).__name__}"))
    return ConvertedQuestion(question, reply=reply)


def _convert(question: Question[Any], typed_form: TypedForm[Any]) -> ConvertedQuestion:
    """Convert a question into typed questions, or settle it without asking.

    Example: "which of these two facts does the context cover?" becomes two typed
    questions: "the context covers fact 1" and "the context covers fact 2", true or
    false. Their state is the texts that they are about: the context and the facts.

    Args:
        question: A metric's question.
        typed_form: Functions that convert such a question; they may raise anything.
    """
    if typed_form.known_reply is not None:
        # e.g. an empty context, which holds no fact whatever the fact is
        reply = typed_form.known_reply(question)
        if reply is not None:
            checked_reply = _check_result_of_form(question, reply, "known_reply")
            return ConvertedQuestion(question, reply=checked_reply)
    state = typed_form.state(question)
    typed_questions = list(typed_form.typed_questions(question))
    problem = _problem_of_questions(typed_questions)
    if problem:
        error = _wrong_form(question, problem)
        return ConvertedQuestion(question, reply=NotAnswered(error))
    typed_jsons = tuple(map(question_text, typed_questions))
    # equal typed questions stand twice in ``typed_jsons`` and once here: asked once
    typed_by_json = dict(zip(typed_jsons, typed_questions, strict=True))
    return ConvertedQuestion(
        question, json_text(dict(state)), typed_by_json, typed_jsons
    )


def _problem_of_questions(typed_questions: Sequence[object]) -> str:
    """Say what is wrong with the typed questions of a form; "" for nothing."""
    if not typed_questions:
        return "asks nothing: typed_questions must return a TypedQuestion at least"
    for typed_question in typed_questions:
        problem = problem_of_typed(typed_question)
        if problem:
            return problem
    return ""


def _read_decision(
    typed_by_json: Mapping[str, TypedQuestion],
    model: str,
    typed_json: str,
    choice: Choice,
) -> Chances:
    """Read and check the probabilities in a model's answer to a typed question."""
    return chances_of(typed_by_json[typed_json], choice, model)


def _answers_with_usage(
    converted_questions: Sequence[ConvertedQuestion],
    decisions: _DecisionByTypedQuestion,
) -> list[Answer[Any]]:
    """Join the model's answers to typed questions into answers to metrics' questions.

    A metric's question is split into typed questions; each asks for probabilities,
    such as "the context covers fact 2". Each typed question is charged once. If two
    metrics' questions share a typed question that cost $0.01, then the first answer
    costs $0.01 and the second nothing.

    Args:
        converted_questions: Each metric's question, converted into typed questions
            about its state (the texts that they are about).
        decisions: The model's answer to each typed question, and what it cost.
    """
    counted_keys: set[tuple[str, str]] = set()
    answers: list[Answer[Any]] = []
    for converted in converted_questions:
        usage = Usage()
        for typed_json in converted.typed_by_json:
            key = (
                converted.state,
                typed_json,
            )  # equal texts and equal question: asked once
            if key not in counted_keys:
                usage += decisions[key].usage
            counted_keys.add(key)
        answers.append(Answer(_make_reply(converted, decisions), usage))
    return answers


def _make_reply(
    converted: ConvertedQuestion, decisions: _DecisionByTypedQuestion
) -> Asked[Any] | NotAnswered:
    """Combine the answers to a question's typed questions into one reply.

    A question on three facts was asked as three typed questions: their probabilities
    .9, .8 and .1 make one reply. If one of them failed, its error is returned.

    Args:
        converted: The question with its typed questions.
        decisions: The model's answer to each typed question, or its error.
    """
    if converted.reply is not None:  # known without asking: a blank context has no fact
        return converted.reply
    chances: list[Chances] = []
    errors: list[JudgeError] = []
    for typed_json in converted.typed_jsons:
        outcome = decisions[converted.state, typed_json].outcome
        if isinstance(outcome, JudgeError):
            errors.append(outcome.with_traceback(None))
        else:
            chances.append(outcome)
    if errors:
        return NotAnswered(_error_to_report(errors))
    return _reply_of_chances(converted.question, chances)


def _error_to_report(errors: Sequence[JudgeError]) -> JudgeError:
    """Return the first error that says the model answers nothing, else the first."""
    for error in errors:
        if isinstance(error, JudgeUnavailable):
            return error
    return errors[0]


def _reply_of_chances(
    question: Question[Any], chances: Sequence[Chances]
) -> Asked[Any] | NotAnswered:
    """Build the reply to a metric's question from probabilities.

    The question was converted into typed questions, and a model gave each of them its
    probabilities: ``[(.9,), (.1,)]`` for two facts becomes "first covered, second not".
    Returns an error if ``read_reply`` raises or returns nonsense, and for a question
    that cannot be converted (it has no ``typed_form``).

    Args:
        question: A metric's question. Of its ``typed_form`` the function
            ``typed_questions`` made the questions; ``read_reply`` builds the reply.
        chances: The probabilities of each typed question, in order.
    """
    if question.typed_form is None:
        return NotAnswered(_not_supported(question))
    try:
        returned = question.typed_form.read_reply(question, chances)
    except Exception as error:  # noqa: BLE001  # a user's form may raise anything: this question alone fails
        return NotAnswered(_wrong_form(question, f"raised {type(error).__name__}"))
    reply = _check_result_of_form(question, returned, "read_reply")
    if not isinstance(reply, Asked) or question.wanted_probability is None:
        return reply
    if not reply.weights:
        problem = problem_of_missing_weights(reply, question)
        return NotAnswered(_wrong_form(question, f"has a read_reply: {problem}"))
    return reply


def _check_result_of_form(
    question: Question[Any], reply: Asked[Any] | NotAnswered, function: str
) -> Asked[Any] | NotAnswered:
    """Return what a typed form's function returned; the error if it is no reply."""
    problem = problem_of_reply(reply, question)
    if not problem:
        return reply
    return NotAnswered(
        _wrong_form(question, f"has a {function} that returns no reply ({problem})")
    )


def _wrong_form(question: Question[Any], problem: str) -> JudgeError:
    """Return the error of a form that its author must correct.

    No service is at fault.
    """
    kind = type(question).__name__
    return JudgeError(
        f"the typed form of questions of type {kind} {problem}; correct its"
        " TypedForm(state, typed_questions, read_reply)"
    )


def _not_supported(question: Question[Any]) -> QuestionNotSupported:
    """Return why a question cannot be asked, and what to do."""
    kind = type(question).__name__
    return QuestionNotSupported(
        f"questions of type {kind} have no form as typed questions: give them"
        " typed_form=TypedForm(state, typed_questions, read_reply) of"
        " ragmetrics_core.data.typed, leave out"
        " a metric's own template, or ask a language model"
    )
