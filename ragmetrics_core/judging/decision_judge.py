"""A judge that answers typed questions with probabilities, and writes nothing.

Questions say themselves how they are asked so (``Question.typed_form``): as one or
several typed questions about the same texts, in one request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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


@dataclass(eq=False, repr=False)
class DecisionJudge(ModelJudge):
    """A judge that asks a decision model typed questions.

    It answers the questions of the four metrics, except which facts a text states: give
    facts (``facts=``).

    Args:
        model: The decision model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit.

    Raises:
        SettingError: If the model is none of typed questions, or a number is out of
            range.

    Examples:
        >>> from ragmetrics_core.models.decision_model import OpenAIDecisionModel
        >>> DecisionJudge(OpenAIDecisionModel("gpt-6-luna", api_key="secret")).name
        'decisions/gpt-6-luna'
    """

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

    async def _answer_whole(self, session: Session, question: Question[R]) -> Answer[R]:
        """Ask the typed questions of a metric's question, and join their answers.

        Example: a metric asks which of two facts a context covers. That is converted
        into two typed questions, "it covers fact 1" and "it covers fact 2". The model
        answers each with a probability. Seven typed questions, for a model that takes 3
        at a time, are 3 requests.
        """
        converted = await compute_beside_loop(
            partial(convert_question, question), size=question.n_characters
        )
        if not isinstance(converted, ConvertedQuestion):  # known without asking
            return Answer(converted)
        # reads the model's answer to one typed question, and checks its probabilities
        read_answer = partial(_read_decision, converted.typed_by_json, self.name)
        typed_jsons = list(converted.typed_by_json)
        most = self.model.most_questions
        decided = await gather_all(
            session.ask_typed(
                converted.state, typed_jsons[start : start + most], read_answer
            )
            for start in range(0, len(typed_jsons), most)
        )
        chances_by_json: dict[str, Chances | JudgeError] = {}
        usage = Usage()
        for chances_of_request, usage_of_request in decided:
            chances_by_json |= chances_of_request
            usage += usage_of_request
        return Answer(_make_reply(converted, chances_by_json), usage)


@dataclass(frozen=True, slots=True, repr=False)
class ConvertedQuestion:
    """A metric's question, converted into typed questions.

    A typed question asks a model for the probability of each option.

    Args:
        question: The metric's question.
        form: Its form as typed questions.
        state: The texts that the typed questions are about, as JSON.
        typed_by_json: The typed questions by their JSON; equal typed questions are one.
        typed_jsons: The JSON of each typed question, in the order in which the answers
            are read; equal typed questions are repeated.
    """

    question: Question[Any]
    form: TypedForm[Any]
    state: str
    typed_by_json: Mapping[str, TypedQuestion]
    typed_jsons: tuple[str, ...]


_Reply = Asked[Any] | NotAnswered


def convert_question(question: Question[Any]) -> ConvertedQuestion | _Reply:
    """Convert a question into typed questions, to be answered with probabilities.

    The result is a reply instead if no model has to be asked: because the texts settle
    the question, or because it cannot be asked (the reply is an error).
    """
    if question.typed_form is None:
        return NotAnswered(_not_supported(question))
    try:
        return _convert(question, question.typed_form)
    except JudgeError as error:
        return NotAnswered(error.with_traceback(None))
    except Exception as error:  # noqa: BLE001  # a user's form may raise anything: this question alone fails
        return NotAnswered(_wrong_form(question, f"raised {type(error).__name__}"))


def _convert(
    question: Question[Any], typed_form: TypedForm[Any]
) -> ConvertedQuestion | _Reply:
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
            return _check_result_of_form(question, reply, "known_reply")
    state = typed_form.state(question)
    typed_questions = list(typed_form.typed_questions(question))
    problem = _problem_of_questions(typed_questions)
    if problem:
        return NotAnswered(_wrong_form(question, problem))
    typed_jsons = tuple(map(question_text, typed_questions))
    # equal typed questions stand twice in ``typed_jsons`` and once here: asked once
    typed_by_json = dict(zip(typed_jsons, typed_questions, strict=True))
    return ConvertedQuestion(
        question, typed_form, json_text(dict(state)), typed_by_json, typed_jsons
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


def _make_reply(
    converted: ConvertedQuestion, chances_by_json: Mapping[str, Chances | JudgeError]
) -> _Reply:
    """Combine the answers to a question's typed questions into one reply.

    A question on three facts was asked as three typed questions: their probabilities
    .9, .8 and .1 make one reply. If one of them failed, its error is returned.

    Args:
        converted: The question with its typed questions.
        chances_by_json: The model's answer to each typed question, or its error.
    """
    chances: list[Chances] = []
    errors: list[JudgeError] = []
    for typed_json in converted.typed_jsons:
        outcome = chances_by_json[typed_json]
        if isinstance(outcome, JudgeError):
            errors.append(outcome.with_traceback(None))
        else:
            chances.append(outcome)
    if errors:
        return NotAnswered(_error_to_report(errors))
    return _reply_of_chances(converted.question, converted.form, chances)


def _error_to_report(errors: Sequence[JudgeError]) -> JudgeError:
    """Return the first error that says the model answers nothing, else the first."""
    for error in errors:
        if isinstance(error, JudgeUnavailable):
            return error
    return errors[0]


def _reply_of_chances(
    question: Question[Any], form: TypedForm[Any], chances: Sequence[Chances]
) -> _Reply:
    """Build the reply to a metric's question from probabilities.

    The question was converted into typed questions, and a model gave each of them its
    probabilities: ``[(.9,), (.1,)]`` for two facts becomes "first covered, second not".
    Returns an error if ``read_reply`` raises or returns nonsense.

    Args:
        question: A metric's question.
        form: Its ``read_reply`` builds the reply.
        chances: The probabilities of each typed question, in order.
    """
    try:
        returned = form.read_reply(question, chances)
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
    question: Question[Any], reply: _Reply, function: str
) -> _Reply:
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
