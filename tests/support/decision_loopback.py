"""A server of typed questions on this machine, for tests without a network."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from ragmetrics_core.testing.loopback import Body, Fault, LoopbackServer

Chance = float | Sequence[float] | None
Answering = Callable[[Any, Body], Chance]


def by_digest(state: Any, question: Body) -> Chance:
    """Probabilities that depend on the state and the question alone.

    Texts of equal meaning in another order give others.
    """
    text = json.dumps([state, question["instructions"]], sort_keys=True)
    digest = sha256(text.encode()).digest()
    n_options = _n_options(question)
    if n_options == 0:
        return digest[0] / 255
    weights = [1 + byte for byte in digest[:n_options]]
    total = sum(weights)
    return [weight / total for weight in weights]


class DecisionServer(LoopbackServer):
    """OpenAI's ``/v1/decisions`` and System One's ``/v1/systemone`` on 127.0.0.1.

    Args:
        answer: From the state and a question, as it was sent, to the probability that
            it is true, or to one for each option; None refuses to answer, which System
            One says by leaving the answer out.
        extra: Further fields of every reply's body, e.g. ``{"truncated": True}``.
        faults: For the number of a request, from 0, what goes wrong with it; None for
            nothing.
        latency: Seconds before each reply.

    Examples:
        >>> with DecisionServer() as server:
        ...     server.base_url.endswith("/v1")
        True
    """

    def __init__(
        self,
        answer: Answering = by_digest,
        *,
        extra: Body | None = None,
        faults: Callable[[int], Fault | None] | None = None,
        latency: float = 0.0,
    ) -> None:
        super().__init__(faults=faults, latency=latency)
        self.answer = answer
        self.extra = extra or {}

    def rejection(self, body: Body) -> str:
        """Nothing is rejected for its parameters."""
        del body  # it has none
        return ""

    def completion(self, body: Body) -> Body:
        """Return the body of the reply, in the form of the request."""
        answers: Any
        if "input" in body:
            answers = self._openai_answers(body)
        else:
            answers = self._systemone_answers(body)
        n_tokens = tokens_of(body)
        usage = {"input_tokens": n_tokens, "output_tokens": 0, "total_tokens": n_tokens}
        return {
            "model": body["model"],
            "answers": answers,
            "usage": usage,
            **self.extra,
        }

    def _openai_answers(self, body: Body) -> list[Body]:
        state = json.loads(body["input"])
        answers = []
        for question in body["questions"]:
            chance = self.answer(state, question)
            answers.append(_openai_answer(question, chance))
        return answers

    def _systemone_answers(self, body: Body) -> dict[str, Body]:
        answers = {}
        for name, question in body["questions"].items():
            chance = self.answer(body["state"], question)
            answer = _systemone_answer(question, chance)
            if answer is not None:
                answers[name] = answer
        return answers


def tokens_of(body: Body) -> int:
    """Tokens of a request: four characters each."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return len(text) // 4


def _n_options(question: Body) -> int:
    options = (
        question.get("choices") or question.get("levels") or question.get("criteria")
    )
    return len(options or ())


def _openai_answer(question: Body, chance: Chance) -> Body:
    """Make the server's answer to one question, in the form of OpenAI.

    A predicate is answered with one probability, such as .9, a choice or a score with a
    probability for each option, such as (.7, .3).

    Args:
        question: The question as it was sent.
        chance: The probability or probabilities; None for a refusal.
    """
    kind = question["type"]
    name = question.get("name")
    if chance is None:
        return {"type": "refusal", "name": name}
    if kind == "predicate":
        return {"type": kind, "name": name, "probability": chance}
    chances = _check_chances(chance)
    answer: Body = {"type": kind, "name": name, "confidence": max(chances)}
    if kind == "choice":
        values = [option["value"] for option in question["choices"]]
        index_of_likeliest = chances.index(max(chances))
        answer["choice"] = values[index_of_likeliest]
        answer["probabilities"] = [
            {"value": value, "probability": probability}
            for value, probability in zip(values, chances, strict=True)
        ]
        return answer
    # a score: its options are levels, such as 0 "poor", 1 "fair", 2 "good"
    answer["score"] = _expected_level(chances)
    answer["probabilities"] = [
        {"value": index, "label": level["label"], "probability": chances[index]}
        for index, level in enumerate(question["levels"])
    ]
    return answer


def _check_chances(chance: float | Sequence[float]) -> list[float]:
    """Return the probabilities of all options; ``TypeError`` for a single one."""
    if isinstance(chance, (int, float)):
        raise TypeError("a choice and a score have one probability for each option")
    return list(chance)


def _systemone_answer(question: Body, chance: Chance) -> Body | None:
    """Make the server's answer to one question, in the form of System One.

    A statement ("noul") is answered with one probability, such as .9. A choice or a
    score is answered with a probability for each option, such as (.7, .3). Returns None
    for a refusal: the service leaves such an answer out.

    Args:
        question: The question as it was sent.
        chance: The probability or probabilities; None for a refusal.
    """
    kind = question["type"]
    if chance is None:
        return None
    if kind == "noul":
        return {"type": kind, "noul": chance}
    chances = _check_chances(chance)
    answer: Body = {"type": kind, "confidence": max(chances)}
    criteria = list(question["criteria"])
    if kind == "choice":
        index_of_likeliest = chances.index(max(chances))
        answer["choice"] = criteria[index_of_likeliest]
        answer["probabilities"] = dict(zip(criteria, chances, strict=True))
        return answer
    # a score: its options are the levels "0", "1" and so on
    levels = [str(index) for index in range(len(criteria))]
    answer["score"] = _expected_level(chances)
    answer["legend"] = dict(zip(levels, criteria, strict=True))
    answer["probabilities"] = dict(zip(levels, chances, strict=True))
    return answer


def _expected_level(chances: Sequence[float]) -> float:
    """The mean level: 1.5 of the chances 0, .5 and .5 of the levels 0, 1 and 2."""
    return sum(level * chance for level, chance in enumerate(chances))
