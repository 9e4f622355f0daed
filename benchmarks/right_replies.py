"""Right replies to what five libraries ask about the planted rows of the tests.

Each question is known by a word of its form, and what is true by the texts of the row
in the prompt: nothing is guessed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "tests" / "reporting" / "golden"
TOPICS: list[dict[str, str]] = tomllib.loads(
    (GOLDEN / "planted_topics.toml").read_text(encoding="utf-8")
)["topic"]

PASSAGES = {topic[name] for topic in TOPICS for name in ("gold", "near")}
ANSWERS = {
    topic[name]
    for topic in TOPICS
    for name in ("right", "wrong_number", "made_up", "from_near")
}


def is_supported(text: str) -> bool:
    """Whether a prompt shows a right answer beside the passage that it rests on."""
    return any(topic["right"] in text and topic["gold"] in text for topic in TOPICS)


def is_relevant(text: str) -> bool:
    """Whether a prompt shows a question beside the passage that answers it."""
    return any(topic["question"] in text and topic["gold"] in text for topic in TOPICS)


def is_covered(text: str) -> bool:
    """Whether a prompt shows an expected answer beside the passage that holds it."""
    return any(
        topic["gold"] in text
        # the passage may begin with the expected answer
        and topic["reference"] in text.replace(topic["gold"], "")
        for topic in TOPICS
    )


def shown(texts: set[str], text: str) -> list[str]:
    """Those texts that a prompt shows, in its order."""
    return sorted((each for each in texts if each in text), key=text.index)


def _chunks_of_deepeval(text: str) -> dict[str, Any]:
    passages = shown(PASSAGES, text)
    answer = "".join(shown(ANSWERS, text))
    verdicts = [_yes(is_supported(f"{answer}\n{passage}")) for passage in passages]
    return {"verdicts": verdicts}


def _yes(verdict: bool) -> dict[str, str]:
    return {"verdict": "yes" if verdict else "no", "reason": "By the rows."}


def _bit(name: str, verdict: Callable[[str], bool]) -> Callable[[str], dict[str, Any]]:
    return lambda text: {"reason": "By the rows.", name: int(verdict(text))}


def _label(
    yes: str, no: str, verdict: Callable[[str], bool]
) -> Callable[[str], dict[str, Any]]:
    return lambda text: {
        "explanation": "By the rows.",
        "label": yes if verdict(text) else no,
    }


def _adherent(text: str) -> dict[str, Any]:
    verdict = is_supported(text)
    listed = [] if verdict else shown(ANSWERS, text)
    return {
        "reason": "By the rows.",
        "supported": int(verdict),
        "claims": 1,
        "unsupported": listed,
    }


REPLIES: dict[str, Callable[[str], dict[str, Any]]] = {
    # ragas
    "NLIStatementOutput": lambda text: {
        "statements": [
            {"statement": each, **_bit("verdict", is_supported)(text)}
            for each in shown(ANSWERS, text)
        ]
    },
    "StatementGeneratorOutput": lambda text: {"statements": shown(ANSWERS, text)},
    "ContextPrecisionOutput": _bit("verdict", is_supported),
    "ContextRecallOutput": lambda text: {
        "classifications": [
            {"statement": "It.", **_bit("attributed", is_covered)(text)}
        ]
    },
    # Phoenix
    '"unfaithful"': _label("faithful", "unfaithful", is_supported),
    '"irrelevant"': _label("relevant", "irrelevant", is_relevant),
    # Opik
    "HallucinationResponseFormat": lambda text: {
        "score": 1.0 - is_supported(text),
        "reason": ["By the rows."],
    },
    # DeepEval
    'the "truths" key': lambda text: {"truths": shown(PASSAGES, text)},
    'the "claims" key': lambda text: {"claims": shown(ANSWERS, text)},
    "EACH claim contradicts": lambda text: {"verdicts": [_yes(is_supported(text))]},
    "each node in the retrieval context": _chunks_of_deepeval,
    "EACH sentence in the given expected output": lambda text: {
        "verdicts": [_yes(is_covered(text))]
    },
    # ours
    '"unsupported"': _adherent,
    '"supported"': _adherent,
    '"useful"': _bit("useful", is_supported),
    '"covered"': _bit("covered", is_covered),
    '"declined"': _bit("declined", lambda _: False),
    '"missing"': lambda text: {
        "sufficient": int(is_relevant(text)),
        "missing": []
        if is_relevant(text)
        else shown({topic["question"] for topic in TOPICS}, text),
    },
    '"grade"': lambda _: {"reason": "By the rows.", "grade": 3},
}
"""By a word of the question: the right reply."""


def right_reply(body: dict[str, Any]) -> str:
    """The right reply to the body of a chat request, with the fields of its schema."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    form = body.get("response_format") or {}
    asked = f"{text}\n{json.dumps(form)}"
    for word, reply in REPLIES.items():
        if word in asked:
            fields = reply(text)
            schema = form.get("json_schema", {}).get("schema", {})
            names = schema.get("properties", fields)
            return json.dumps(
                {name: fields.get(name, "By the rows.") for name in names}
            )
    return "no question that is known"
