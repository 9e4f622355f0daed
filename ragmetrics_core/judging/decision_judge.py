"""A judge that answers typed questions with probabilities, and writes nothing.

Questions say themselves how they are asked in that form (``Question.decided``). Those
about equal states share a request; no text is shown to a question that does not name
it.
"""

from __future__ import annotations

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
    Typed,
    Usage,
)
from ragmetrics_core.data.typed import problem_of_typed
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
from ragmetrics_core.models.fitting import gather_all
from ragmetrics_core.models.session import Decision, Session
from ragmetrics_core.models.threads import compute_beside_loop


@dataclass(eq=False, repr=False)
class DecisionJudge(ModelJudge):
    """A judge that asks a decision model typed questions.

    It answers the questions of the four metrics, except which facts a text states: give
    facts (``facts=``), or take a cascade whose strong judge writes.

    Args:
        model: The decision model.
        attempts: Most calls for one request that fails for a passing reason.
        timeout: Seconds for one call, beside the model's own timeout; None for no
            limit, as always for a model on this machine.
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
        if self.model.on_this_machine:
            self.timeout = None
        super().__post_init__()

    @property
    def details(self) -> dict[str, str]:
        """The version of the wordings, and the model's settings that change answers."""
        return {"typed": WORDING, **self.model.details}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
            SettingError: In a run in batches, which take no typed questions.
        """
        (answer,) = await self.answer_all([question])
        return answer

    async def answer_all(self, questions: Sequence[Question[Any]]) -> list[Answer[Any]]:
        """Answer several questions; those about equal texts share a request.

        A text that is too long for the model is divided, and its parts are asked about,
        where the question says how.

        Raises:
            JudgeUnavailable: If the model cannot be prepared; nothing was sent.
            SettingError: In a run in batches, which take no typed questions.
        """
        if self._run_session is None:
            return await self._for_one_call().answer_all(questions)
        forms = [await _render(question) for question in questions]
        decisions = await self._ask_typed_questions(self._run_session, forms)
        answers = _answers_with_usage(forms, decisions)
        return await gather_all(
            self._ask_in_windows(question, answer)
            for question, answer in zip(questions, answers, strict=True)
        )

    async def _ask_in_windows(
        self, question: Question[Any], answer: Answer[Any]
    ) -> Answer[Any]:
        """Return the answer; for a text that was too long, one about its parts."""
        partial_questions = windows.halve_questions(question, answer)
        if not partial_questions:
            return answer
        partial_answers = await self.answer_all(partial_questions)
        return windows.join_verdicts(question, answer, partial_answers)

    async def _ask_typed_questions(
        self, session: Session, forms: Sequence[TypedForm]
    ) -> _DecisionByTypedQuestion:
        """Ask the typed questions of several questions, all at once.

        The state of a typed question is the texts that it is about, as JSON. Typed
        questions with one state share requests; each request holds as many as the model
        takes (``most_questions``). Equal ones are asked once.

        Args:
            session: The session of the run.
            forms: How each question is asked.

        Returns:
            What came of each typed question, by its state and its text.
        """
        # by the state the typed questions about it, by their JSON
        typed_by_state: dict[str, dict[str, Typed]] = {}
        for form in forms:
            typed_by_state.setdefault(form.state, {}).update(form.typed_by_text)
        requests: list[_TypedRequest] = []
        for state, typed_by_text in typed_by_state.items():
            texts = list(typed_by_text)
            for start in range(0, len(texts), self.model.most_questions):
                end = start + self.model.most_questions
                requests.append(_TypedRequest(state, texts[start:end]))
        decisions_of_requests = await gather_all(
            session.decide(
                request.state,
                request.questions,
                partial(_read_typed_form, typed_by_state[request.state], self.name),
            )
            for request in requests
        )
        decision_by_state_and_text: dict[tuple[str, str], Decision[Chances]] = {}
        for request, decision_by_text in zip(
            requests, decisions_of_requests, strict=True
        ):
            for typed_text, decision in decision_by_text.items():
                decision_by_state_and_text[request.state, typed_text] = decision
        return decision_by_state_and_text


class _TypedRequest(NamedTuple):
    """The typed questions of one request, and the state that they are about: JSON."""

    state: str
    questions: list[str]


# What came of a typed question, by the state that it is about and the question: JSON.
_DecisionByTypedQuestion = Mapping[tuple[str, str], Decision[Chances]]


@dataclass(frozen=True, slots=True, repr=False)
class TypedForm:
    """A question as it is asked by typed questions.

    Args:
        question: The question.
        state: What is asked about, as JSON.
        typed_by_text: The typed questions, by their JSON. Equal ones are one.
        typed_texts: The JSON of each, in the order in which the answers are read.
        reply: What is known without asking: the reply that the texts settle, or why the
            question cannot be asked. None where it has to be asked.
    """

    question: Question[Any]
    state: str = ""
    typed_by_text: Mapping[str, Typed] = field(default_factory=dict)
    typed_texts: tuple[str, ...] = ()
    reply: Asked[Any] | NotAnswered | None = None


async def _render(question: Question[Any]) -> TypedForm:
    """The typed form of a question; an empty one where it has none."""
    return await compute_beside_loop(
        partial(typed_form, question), size=question.n_characters
    )


def typed_form(question: Question[Any]) -> TypedForm:
    """Return the typed questions that stand for a question, or its reply.

    A typed question is one that is answered with probabilities. The question's form,
    its ``decided``, says which typed questions stand for it. In three cases the result
    holds the reply instead, and no model is called: the question's texts alone settle
    it; it has no form; or its form is at fault. In the last two the reply is an error
    that says why.
    """
    form = question.decided
    if form is None:
        return TypedForm(question, reply=NotAnswered(_not_supported(question)))
    try:
        if form.settled is not None:
            reply = form.settled(question)
            if reply is not None:
                return TypedForm(
                    question, reply=_check_result_of_form(question, reply, "settled")
                )
        state = form.state(question)
        typed_questions = list(form.asks(question))
    except JudgeError as error:
        return TypedForm(question, reply=NotAnswered(error.with_traceback(None)))
    except Exception as error:  # noqa: BLE001  # the form may be a user's own
        return TypedForm(question, reply=NotAnswered(_failed_form(question, error)))
    problem = _problem_of_form(state, typed_questions)
    if problem:
        return TypedForm(question, reply=NotAnswered(_wrong_form(question, problem)))
    # each typed question as JSON; equal ones are asked once, but read at each place
    texts = tuple(question_text(typed_question) for typed_question in typed_questions)
    typed_by_text = dict(zip(texts, typed_questions, strict=True))
    return TypedForm(question, json_text(dict(state)), typed_by_text, texts)


def _problem_of_form(state: object, typed_questions: Sequence[object]) -> str:
    """What is wrong with what a form shows and asks; "" for nothing."""
    if not isinstance(state, Mapping):
        return f"has a state that is a {type(state).__name__}, not texts by name"
    try:
        json_text(dict(state))
    except (TypeError, ValueError, RecursionError):
        return "has a state that is no data of JSON, e.g. a set or NaN"
    if not typed_questions:
        return "asks nothing: asks must return a Typed at least"
    for typed_question in typed_questions:
        problem = problem_of_typed(typed_question)
        if problem:
            return problem
    return ""


def _read_typed_form(
    typed_by_text: Mapping[str, Typed], model: str, typed_text: str, choice: Choice
) -> Chances:
    """The probabilities in a model's answer to a typed question, checked."""
    return chances_of(typed_by_text[typed_text], choice, model)


def _answers_with_usage(
    forms: Sequence[TypedForm], decisions: _DecisionByTypedQuestion
) -> list[Answer[Any]]:
    """Make the answers to questions of what came of their typed questions.

    A typed question is one that is answered with probabilities. Several questions may
    share a typed question. Its cost is in the usage of the first of them alone, so that
    nothing is counted twice.

    Args:
        forms: How each question was asked.
        decisions: What came of each typed question, by its state and its text.
    """
    paid: set[tuple[str, str]] = set()
    answers: list[Answer[Any]] = []
    for form in forms:
        usage = Usage()
        for typed_text in form.typed_by_text:
            state_and_text = (form.state, typed_text)
            if state_and_text not in paid:
                usage += decisions[state_and_text].usage
            paid.add(state_and_text)
        answers.append(Answer(_make_reply(form, decisions), usage))
    return answers


def _make_reply(
    form: TypedForm, decisions: _DecisionByTypedQuestion
) -> Asked[Any] | NotAnswered:
    """Make the reply to a question of the answers to its typed questions.

    If one of these is missing, there is no reply, but the error of the first one
    missing. An error that says that the model will answer nothing comes before all
    others.

    Args:
        form: The question, and how it was asked.
        decisions: What came of each typed question, by its state and its text.
    """
    question = form.question
    if form.reply is not None:
        return form.reply
    if question.decided is None:
        return NotAnswered(_not_supported(question))
    # of each typed question, in the order in which the form reads them
    chances: list[Chances] = []
    errors: list[JudgeError] = []
    for typed_text in form.typed_texts:
        outcome = decisions[form.state, typed_text].outcome
        if isinstance(outcome, JudgeError):
            errors.append(outcome.with_traceback(None))
        else:
            chances.append(outcome)
    for error in errors:
        if isinstance(error, JudgeUnavailable):
            return NotAnswered(error)
    if errors:
        return NotAnswered(errors[0])
    try:
        returned = question.decided.reads(question, chances)
    except Exception as error:  # noqa: BLE001  # the form may be a user's own
        return NotAnswered(_failed_form(question, error))
    reply = _check_result_of_form(question, returned, "reads")
    if isinstance(reply, Asked) and question.weigh is not None and not reply.weights:
        # the question wants probabilities, and the form's ``reads`` gave none
        problem = problem_of_missing_weights(reply, question)
        return NotAnswered(_wrong_form(question, f"has a reads: {problem}"))
    return reply


def _check_result_of_form(
    question: Question[Any], reply: Asked[Any] | NotAnswered, function: str
) -> Asked[Any] | NotAnswered:
    """What a function of the form returned, or why that is no reply."""
    problem = problem_of_reply(reply, question)
    if not problem:
        return reply
    return NotAnswered(
        _wrong_form(question, f"has a {function} that returns no reply ({problem})")
    )


def _failed_form(question: Question[Any], error: Exception) -> JudgeError:
    """The error of a form whose own code failed."""
    return _wrong_form(question, f"raised {type(error).__name__}")


def _wrong_form(question: Question[Any], problem: str) -> JudgeError:
    """The error of a form that its author must correct; no service is at fault."""
    kind = type(question).__name__
    return JudgeError(
        f"the typed form of questions of type {kind} {problem}; correct its"
        " Decided(state, asks, reads)"
    )


def _not_supported(question: Question[Any]) -> QuestionNotSupported:
    """Why a question cannot be asked, and what to do."""
    kind = type(question).__name__
    return QuestionNotSupported(
        f"questions of type {kind} have no form as typed questions: give them"
        " decided=Decided(state, asks, reads) of ragmetrics_core.data.typed, leave out"
        " a metric's own template, or ask a language model"
    )
