"""The forms in which services take typed questions, and how their answers are read.

OpenAI's ``POST /v1/decisions`` takes a list of questions and gives a list of answers.
System One's ``POST /v1/systemone``, which other services share, takes and gives maps by
name. One reader reads the answers of both.

In our own form, a request is JSON: a *state*, which is the texts to judge, and
questions about it. The answer to a question is a JSON list of probabilities: one for a
predicate, which is true or false; one for each option of any other question.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragmetrics_core.data import Chances, ContentRefused, TypedQuestion
from ragmetrics_core.data.errors import ContextWindowExceeded, UnusableReply
from ragmetrics_core.data.scalars import is_number
from ragmetrics_core.models.chat import Choice

Body = dict[str, Any]

_ROUNDED_TO = 0.01
"""Services round probabilities to two places.

So the sum of several probabilities may differ from 1 by half of this for each of them.
"""
_LEAST_SLACK = 1e-6
# Characters that are kept of an answer that cannot be used.
_LONGEST_RAW = 2_000
# The field that holds the number of a predicate, by the type of the answer: in OpenAI's
# form, and in System One's.
_NUMBER_OF_PREDICATE = {"predicate": "probability", "noul": "noul"}
# Part of the names of fields that say that a part of the request was not read, e.g.
# ``truncated_questions``, ``state_truncated`` or ``state_tokens_dropped``.
_TRUNCATED = re.compile("truncated|tokens_dropped", re.IGNORECASE)


def json_text(value: object) -> str:
    """Return data as JSON; equal data give equal texts.

    Raises:
        TypeError: If the data cannot be written as JSON.
        ValueError: If a number is NaN or infinite, or the data contain themselves.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def question_text(typed: TypedQuestion) -> str:
    """Return a typed question as JSON."""
    options = [[option.label, option.meaning] for option in typed.options]
    return json_text([typed.kind, typed.wording, options])


def request_text(state: str, questions: Sequence[str]) -> str:
    """Return the request, as JSON, for the answers to questions about a state."""
    return f'{{"state":{state},"questions":[{",".join(questions)}]}}'


# How requests are sent


def openai_fields(request: str) -> Body:
    """Write the state and the questions of our request in OpenAI's form."""
    request_data = json.loads(request)
    questions: list[Body] = []
    for index, (kind, wording, options) in enumerate(request_data["questions"]):
        question: Body = {"type": kind, "name": _name(index), "instructions": wording}
        if kind == "choice":
            question["choices"] = [
                {"value": label, "description": meaning} for label, meaning in options
            ]
        elif kind == "score":
            question["levels"] = [
                {"label": label, "description": meaning} for label, meaning in options
            ]
        questions.append(question)
    return {"input": json_text(request_data["state"]), "questions": questions}


def systemone_fields(request: str) -> Body:
    """Write the state and the questions of our request in System One's form."""
    request_data = json.loads(request)
    questions: Body = {}
    for index, (kind, wording, options) in enumerate(request_data["questions"]):
        question: Body = {"type": kind, "instructions": wording}
        if kind == "predicate":
            question["type"] = "noul"
        elif kind == "choice":
            question["criteria"] = dict(options)
        else:
            question["criteria"] = [f"{label}: {meaning}" for label, meaning in options]
        questions[_name(index)] = question
    return {"state": request_data["state"], "questions": questions}


def _name(index: int) -> str:
    """Return the name of a question in a request, by its index from 0, e.g. q1."""
    return f"q{index + 1}"


# How replies are read


def object_of_single_names(pairs: Sequence[tuple[str, Any]]) -> Body:
    """Make an object of JSON; a name that stands twice gets no value.

    Nobody can tell which of the two values is meant.
    """
    by_name: Body = {}
    for name, value in pairs:
        by_name[name] = None if name in by_name else value
    return by_name


def choices_of(request: str, body: Any) -> tuple[Choice, ...]:
    """Return one choice for each question: its probabilities, or why there are none.

    Example: two questions, the second refused: ``Choice("[0.9]")`` and
    ``Choice("refused", finish="refused")``. The first value is the text, ``finish`` why
    it ended: "stop" if nothing else is said, "length" if something was cut off.

    Args:
        request: The request, as JSON.
        body: The body of the reply, as parsed from JSON. It may say that the request
            was truncated.

    Raises:
        UnusableReply: If it holds no answers, or two answers of one name.
    """
    answer_by_name = _answers_by_name(body)
    is_truncated = _is_truncated(body)
    choices: list[Choice] = []
    for index, (kind, _wording, options) in enumerate(json.loads(request)["questions"]):
        answer = answer_by_name.get(_name(index))  # questions are named by their index
        if is_truncated or _is_truncated(answer):
            choices.append(Choice("the request was truncated", finish="length"))
        elif isinstance(answer, dict) and answer.get("type") == "refusal":
            choices.append(Choice("refused", finish="refused"))
        else:
            labels = [label for label, _ in options]
            try:
                choices.append(Choice(json.dumps(_numbers(answer, kind, labels))))
            except (TypeError, KeyError, ValueError):
                choices.append(Choice(repr(answer)[:_LONGEST_RAW], "other"))
    return tuple(choices)


def _answers_by_name(body: Any) -> Mapping[str, Any]:
    """Return the answers of a reply, by the names of their questions.

    Answers come by name, or in a list: ``{"name": "q1", "probability": .9}`` then
    belongs to the question "q1", and an answer without a name to the question at the
    same place.

    Raises:
        UnusableReply: If there are none, or two of one name: nobody can tell which is
            meant.
    """
    answers = body.get("answers") if isinstance(body, dict) else None
    if isinstance(answers, dict):
        return answers
    if not isinstance(answers, list):
        raise UnusableReply("a body without answers")
    answer_by_name: dict[str, Any] = {}
    for index, answer in enumerate(answers):
        if not isinstance(answer, dict):
            continue
        name = answer.get("name", _name(index))
        if not isinstance(name, str) or name in answer_by_name:
            raise UnusableReply("two answers of one name")
        answer_by_name[name] = answer
    return answer_by_name


def _numbers(answer: object, kind: str, labels: Sequence[str]) -> list[Any]:
    """Return the probabilities in an answer, in the order of the options.

    Examples: ``{"type": "predicate", "probability": .9}`` and ``{"type": "noul",
    "noul": .9}`` give ``[.9]``.

    Args:
        answer: The answer.
        kind: "predicate", which has one number and no options; "choice", whose options
            are named by their labels; or "score", whose levels are counted from 0.
        labels: The labels of the options.

    Raises:
        KeyError, TypeError, ValueError: If the answer has another form, is one to
            another question, or does not list each option once.
    """
    if not isinstance(answer, dict):
        raise TypeError
    if kind == "predicate":
        return [answer[_NUMBER_OF_PREDICATE[answer["type"]]]]
    values = (
        labels if kind == "choice" else [str(level) for level in range(len(labels))]
    )
    listed = answer["probabilities"]
    if answer["type"] != kind or len(listed) != len(values):
        raise ValueError
    if isinstance(listed, list):  # such as [{"value": 0, "probability": .2}, …]
        listed = {str(entry["value"]): entry["probability"] for entry in listed}
    return [listed[value] for value in values]


def _is_truncated(answer: Any) -> bool:
    """Whether a reply, or an answer in it, says that the texts were not read whole.

    Services say it in the reply or the answer itself, in its usage or its metadata.
    Example: ``{"state_truncated": true}``.
    """
    if not isinstance(answer, Mapping):
        return False
    for part in (answer, answer.get("usage"), answer.get("metadata")):
        for name, value in part.items() if isinstance(part, Mapping) else ():
            if value and _TRUNCATED.search(str(name)):
                return True
    return False


def chances_of(typed: TypedQuestion, choice: Choice, model: str) -> Chances:
    """Check the probabilities that an answer holds, and return them.

    Example: for a predicate "[0.9]" gives (.9,); for a choice of two options "[0.3,
    0.7]" gives (.3, .7), and "[0.3, 0.3]" raises.

    Args:
        typed: The question.
        choice: The answer. Its text is a JSON list. For a predicate, the list holds the
            probability that it is true. For any other question it holds one number for
            each option, in their order.
        model: The name of the model that answered, for messages.

    Raises:
        ContentRefused: If the model declined to answer this question.
        ContextWindowExceeded: If the service read only a part of the texts.
        UnusableReply: If the answer is missing or of another type, a number is no
            probability, or the options' do not sum to one.
    """
    if choice.finish == "refused":
        raise ContentRefused("the model declined to answer a typed question")
    if choice.finish == "length":
        raise ContextWindowExceeded(
            "the model reads only a part of the texts: use shorter contexts"
        )
    n_wanted = len(typed.options) or 1  # a predicate has one number, and no options
    try:
        numbers = json.loads(choice.text) if choice.finish == "stop" else []
    except ValueError:
        numbers = []
    if not isinstance(numbers, list) or len(numbers) != n_wanted:
        number_or_numbers = "number" if n_wanted == 1 else "numbers"
        raise UnusableReply(
            f"the answer of {model} to a {typed.kind} is missing or has another form;"
            f" it is a JSON list of {n_wanted} {number_or_numbers} from 0 to 1",
            raw=choice.text,
        )
    if not all(is_number(number) and 0 <= number <= 1 for number in numbers):
        raise UnusableReply(
            f"the answer of {model} to a {typed.kind} holds a number that is no"
            " probability",
            raw=choice.text,
        )
    # Services round each probability, so that their sum may differ from one.
    most_deviation = _LEAST_SLACK + _ROUNDED_TO / 2 * n_wanted
    if typed.options and abs(sum(numbers) - 1) > most_deviation:
        raise UnusableReply(
            f"the probabilities of a {typed.kind} by {model} sum to"
            f" {sum(numbers):.3f}, not to 1",
            raw=choice.text,
        )
    return tuple(float(number) for number in numbers)
