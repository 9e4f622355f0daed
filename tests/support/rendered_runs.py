"""Generated runs whose prompts show documents in many renderings, and what their samples must say.

A framework's test plays a run: it searches, and asks a model with the run's messages.
"""

import html
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the old lighthouse of Velm lit for the first time?"
ANSWER = "Nobody but the keeper of the harbour can tell."
_EARLIER = (
    ("user", "Who is the keeper of the harbour this year?"),
    ("assistant", "That is Anna Brandt, as far as the town knows."),
)


def _as_table(texts: list[str]) -> str:
    rows = [f"| {place} | {text} |" for place, text in enumerate(texts)]
    return "\n".join(["| n | text |", "|---|---|", *rows])


RENDERINGS: dict[str, Callable[[list[str]], str]] = {
    "plain": "\n\n".join,
    "bullets": lambda texts: "\n".join(f"- {text}" for text in texts),
    "indented": lambda texts: "\n".join("    " + text for text in texts),
    "numbered": lambda texts: "\n".join(
        f"[{place}] {text}" for place, text in enumerate(texts, start=1)
    ),
    "JSON": lambda texts: json.dumps([{"content": text} for text in texts]),
    "repr": lambda texts: repr([{"content": text} for text in texts]),
    "table": _as_table,
    "XML": lambda texts: "\n".join(f"<doc>{html.escape(one)}</doc>" for one in texts),
}


@dataclass(frozen=True)
class Run:
    """A generated run.

    Attributes:
        texts: What the search finds.
        shown: What the prompt shows of it, in this order.
        history: Earlier messages, by role.
        prompt: The last message of the user.
    """

    texts: list[str]
    shown: list[str]
    history: tuple[tuple[str, str], ...]
    prompt: str

    @property
    def messages(self) -> list[tuple[str, str]]:
        """All messages to the model, by role."""
        return [*self.history, ("user", self.prompt)]


def generated(seed: int, rendering: str) -> Run:
    """One to six documents, some of them shown, in any order, all once or all twice."""
    rng = random.Random(seed)
    texts = [_sentence(rng) for _ in range(rng.randint(1, 6))]
    shown = rng.sample(texts, rng.randint(1, len(texts)))
    rendered = RENDERINGS[rendering](shown * rng.randint(1, 2))
    prompt = f"Use only this:\n{rendered}\n\nQuestion: {QUESTION}"
    history = _EARLIER if rng.random() < 0.5 else ()
    return Run(texts, shown, history, prompt)


def _sentence(rng: random.Random) -> str:
    words = [
        "".join(rng.choices("etaoinshrdlu", k=rng.randint(3, 9)))
        for _ in range(rng.randint(6, 12))
    ]
    words[rng.randrange(len(words))] = rng.choice(
        ("é", '"so"', "<b>", "&", "it's", "1874", "C:\\new", "a|b")
    )
    return " ".join(words).capitalize() + "."


def check(sample: Sample, run: Run) -> None:
    """The sample is what the generator knows; only a history may be hedged instead."""
    assert sample.capture is not None
    assert sample.ledger is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    contexts = [context.text for context in sample.known_contexts]
    assert contexts == run.shown
    assert [context.text for context in sample.retrieved] == run.texts
    items = {item.text for call in sample.ledger.calls for item in call.items}
    assert set(contexts) <= items
    told = tuple((turn.role, turn.content) for turn in sample.history)
    if told == run.history:
        # what a prompt shows before the question may be examples
        assert set(sample.capture.doubts) <= ({"history_unread"} if told else set())
    else:
        assert not told
        assert list(sample.capture.doubts) == ["history_unread"]
