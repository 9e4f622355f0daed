"""A server of typed questions on this machine, for tests without a network."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from ragmetrics_core.testing.loopback import Body, LoopbackServer

Chance = float | Sequence[float] | None
Answering = Callable[[Any, Body], Chance]


def by_digest(state: Any, question: Body) -> Chance:
    """Probabilities that depend on the state and the question alone.

    Texts of equal meaning in another order give others.
    """
    text = json.dumps([state, question["instructions"]], sort_keys=True)
    drawn = sha256(text.encode()).digest()
    n_options = _n_options(question)
    if n_options == 0:
        return drawn[0] / 255
    weights = [1 + byte for byte in drawn[:n_options]]
    return [weight / sum(weights) for weight in weights]


class DecisionServer(LoopbackServer):
    """OpenAI's ``/v1/decisions`` and System One's ``/v1/systemone`` on 127.0.0.1.

    Args:
        answer: From the state and a question, as it was sent, to the probability that
            it is true, or to one for each option; None refuses to answer, which System
            One says by leaving the answer out.
        extra: Further fields of every reply's body, e.g. ``{"truncated": True}``.
        settings: Those of ``LoopbackServer``: faults and latency.

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
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
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
            state = json.loads(body["input"])
            answers = [
                _openai_answer(question, self.answer(state, question))
                for question in body["questions"]
            ]
        else:
            answered = {
                name: _systemone_answer(question, self.answer(body["state"], question))
                for name, question in body["questions"].items()
            }
            answers = {name: answer for name, answer in answered.items() if answer}
        n_tokens = tokens_of(body)
        usage = {
            "input_tokens": n_tokens,
            "output_tokens": 0,
            "total_tokens": n_tokens,
        }
        return {
            "model": body["model"],
            "answers": answers,
            "usage": usage,
            **self.extra,
        }


def tokens_of(body: Body) -> int:
    """Tokens of a request: four characters each."""
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) // 4


def _n_options(question: Body) -> int:
    options = (
        question.get("choices") or question.get("levels") or question.get("criteria")
    )
    return len(options or ())


def _openai_answer(question: Body, chance: Chance) -> Body:
    name = question.get("name")
    if chance is None:
        return {"type": "refusal", "name": name}
    answer: Body = {"type": question["type"], "name": name}
    if question["type"] == "predicate":
        return {**answer, "probability": chance}
    if isinstance(chance, (int, float)):
        raise TypeError("a choice and a score have one probability for each option")
    if question["type"] == "choice":
        values = [option["value"] for option in question["choices"]]
        listed = [
            {"value": value, "probability": probability}
            for value, probability in zip(values, chance, strict=True)
        ]
        chosen = values[list(chance).index(max(chance))]
        return {
            **answer,
            "choice": chosen,
            "probabilities": listed,
            "confidence": max(chance),
        }
    labels = [level["label"] for level in question["levels"]]
    listed = [
        {"value": place, "label": label, "probability": probability}
        for place, (label, probability) in enumerate(zip(labels, chance, strict=True))
    ]
    return {
        **answer,
        "score": _expected(chance),
        "probabilities": listed,
        "confidence": max(chance),
    }


def _systemone_answer(question: Body, chance: Chance) -> Body | None:
    if chance is None:
        return None
    if question["type"] == "noul":
        return {"type": "noul", "noul": chance}
    if isinstance(chance, (int, float)):
        raise TypeError("a choice and a score have one probability for each option")
    answer: Body = {"type": question["type"], "confidence": max(chance)}
    if question["type"] == "choice":
        labels = list(question["criteria"])
        by_label = dict(zip(labels, chance, strict=True))
        chosen = max(by_label, key=by_label.__getitem__)
        return {**answer, "choice": chosen, "probabilities": by_label}
    places = [str(place) for place in range(len(question["criteria"]))]
    return {
        **answer,
        "score": _expected(chance),
        "legend": dict(zip(places, question["criteria"], strict=True)),
        "probabilities": dict(zip(places, chance, strict=True)),
    }


def _expected(chances: Sequence[float]) -> float:
    return sum(place * chance for place, chance in enumerate(chances))
