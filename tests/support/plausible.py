"""Plausible replies to every question of ours, decided by a digest of the prompt.

For the loopback server of tests.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

_FACT = re.compile(r"^(F\d+): ", re.MULTILINE)
_LINE = re.compile(r"^(S\d+): ", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def plausible_reply(body: dict[str, Any]) -> str:
    """Answer the body of a chat request in the form that its JSON schema or, without one, its prompt names.

    Equal texts get equal replies, JSON objects as texts, in whatever words they are
    asked about.
    """
    messages = body.get("messages", ())
    schema = (body.get("response_format") or {}).get("json_schema")
    asked = json.dumps(schema) if schema else _text_of(messages)
    shown = [message for message in messages if message.get("role") != "system"]
    for name, reply in _REPLIES.items():
        if f'"{name}"' in asked:
            return json.dumps(reply(_text_of(shown)))
    return json.dumps({"text": "no question of ragmetrics"})


def _text_of(messages: Iterable[dict[str, Any]]) -> str:
    return "\n".join(str(message.get("content")) for message in messages)


def _draw(prompt: str, label: str = "") -> float:
    """A number in [0, 1) that depends on nothing but the prompt and the label."""
    return (
        int.from_bytes(
            hashlib.sha256(f"{label}|{prompt}".encode(errors="replace")).digest()[:4],
            "big",
        )
        / 2**32
    )


def _bit(prompt: str, label: str = "") -> int:
    return int(_draw(prompt, label) < 0.6)


def fenced(prompt: str, label: str) -> list[tuple[str, str]]:
    """The texts in tags that are called so, each with its id."""
    name = label.lower().replace(" ", "-")
    tags = re.finditer(
        rf'^<({name}-[0-9a-f]{{8}})(?: id="(\w+)")?>\n(.*?)\n</\1>$',
        prompt,
        re.MULTILINE | re.DOTALL,
    )
    return [(tag[2] or "", tag[3]) for tag in tags]


def _judged(
    field: str, draw: Callable[[str, str], int], group: str = "chunks", **more: str
) -> Callable[[str], object]:
    """A verdict, or one on each of several chunks or facts."""

    def reply(prompt: str) -> object:
        chunks = [letters for letters, _ in fenced(prompt, "Passage") if letters]
        labels = chunks if group == "chunks" else _FACT.findall(prompt)
        listed = [{"label": it, field: draw(prompt, it), **more} for it in labels]
        return {group: listed} if listed else {field: draw(prompt, ""), **more}

    return reply


def _facts(prompt: str) -> object:
    """The sentences of the reference."""
    references = fenced(prompt, "Reference answer")
    return {
        "reason": "By sentence.",
        "facts": _SENTENCE.split(references[0][1].strip()) if references else [],
    }


def _adherent(prompt: str) -> object:
    supported = _bit(prompt)
    answers = [text for _, text in fenced(prompt, "Answer")] or ["A claim by digest."]
    return {
        "reason": "By digest.",
        "supported": supported,
        "claims": 1,
        "unsupported": [] if supported else answers,
    }


def _sufficient(prompt: str) -> object:
    sufficient = _bit(prompt)
    asked = [text for _, text in fenced(prompt, "Question")] or ["The year by digest."]
    return {"sufficient": sufficient, "missing": [] if sufficient else asked}


def _sentences(prompt: str) -> object:
    """A question in the words of the first chunk, and the first sentence of each chunk."""
    chunks = [(label, text) for label, text in fenced(prompt, "Chunk") if label]
    first = [
        (label, " ".join(_SENTENCE.split(text.strip())[0].split()[:40]))
        for label, text in chunks
    ]
    words = " ".join(first[0][1].split()[:12]) if first else ""
    sentences = [
        {"text": text.rstrip(".!?") + ".", "chunk": label} for label, text in first
    ]
    return {"question": f"What is known of this: {words}?", "sentences": sentences}


def _claims(prompt: str) -> object:
    """A verdict on each sentence."""
    labels = _LINE.findall(prompt)
    verdicts = [{"label": label, "claims": _bit(prompt, label)} for label in labels]
    return {"sentences": verdicts}


_REPLIES: dict[str, Callable[[str], object]] = {
    "unsupported": _adherent,
    "missing": _sufficient,
    "supported": lambda prompt: {"supported": _bit(prompt), "reason": "By digest."},
    "grade": _judged(
        "grade",
        lambda prompt, label: int(_draw(prompt, label) * 4),
        reason="By digest.",
    ),
    "met": lambda prompt: {"reason": "By digest.", "met": _bit(prompt)},
    "useful": _judged("useful", _bit, reason="By digest."),
    "covered": _judged("covered", _bit, "facts"),
    "declined": lambda prompt: {"declined": 0},
    "needs": lambda prompt: {
        "reason": "By digest.",
        "claims": [
            {"claim": answer, "needs": "evidence" if _bit(prompt) else "none"}
            for _, answer in fenced(prompt, "Answer")
        ],
    },
    "claims": _claims,
    "score": lambda prompt: {"reason": "By digest.", "score": round(_draw(prompt), 2)},
    "facts": _facts,
    "sentences": _sentences,
}
