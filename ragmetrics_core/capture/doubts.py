"""What may be uncertain about a captured sample, and what ends it: ``capture.doubts``.

| code | what is not certain | what ends it |
|---|---|---|
| `question_guessed` | the question | `question_from=`, `question=` |
| `history_unread` | what was said before | messages with roles, `conversation=` |
| `which_turn` | which runs belong to it | `capture(question=…)`, `conversation=` |
| `answer_guessed` | which text is the answer | `answer_from=` |
| `further_call` | which calls wrote the answer | `contexts_from=` |
| `in_part` | whether a text was shown whole | `contexts_from=` |
| `short_text` | whether a text was shown | `contexts_from=` |
| `by_data_flow` | what reached the model | `contexts_from=` |
| `undivided` | what of a tool's text is a passage | `context_tools=`, `contexts_from=` |
| `no_search` | *incomplete*: what was found | `contexts_from=`, `conversation=` |
| `not_recorded` | *incomplete*: what was shown | its sentence, `contexts_from=` |
| `no_answer` | *incomplete*: the answer | a stream read to its end, `answer_from=` |
"""

from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data import Grade

SettledBy = Literal["question", "answer", "contexts", "nothing"]

CAPTURE_EARLIER = (
    "capture the earlier turns, too, under one conversation= of each user, or write"
    " examples into the system message, without naming speakers"
)
_BY_NAME = ", such as a key, the name of a call, or a function that returns {}"
_CONTEXTS = "; name the contexts by contexts_from=" + _BY_NAME.format("them")
# One code for each thing that a person can do about it: the best grade that it leaves,
# the field that settles it where the user names it, and the sentence.
_TABLE: dict[str, tuple[Grade, SettledBy, str]] = {
    # the question and the history
    "question_guessed": (
        "inferred",
        "question",
        "the user's own words were not found as an input; name their place by"
        " question_from=, or say them by question=",
    ),
    "history_unread": (
        "inferred",
        "nothing",
        "what was said before the question is not certain: {}",
    ),
    "which_turn": (
        "inferred",
        "nothing",
        "which runs belong to this question is not certain: {}",
    ),
    # the answer
    "answer_guessed": (
        "inferred",
        "answer",
        "which text is the answer is not certain ({}); name its place by answer_from="
        + _BY_NAME.format("it"),
    ),
    # the contexts
    "further_call": (
        "inferred",
        "contexts",
        "which calls of models the answer was written from is not certain: {}"
        + _CONTEXTS,
    ),
    "in_part": (
        "inferred",
        "contexts",
        "a retrieved text stands in the prompt in parts, shares some words with it, or"
        " is a part of another one there; name the contexts, as the prompt shows them, by"
        " contexts_from=" + _BY_NAME.format("them"),
    ),
    "short_text": (
        "inferred",
        "contexts",
        "the words of a retrieved text may stand in the prompt for another reason: it is"
        " short, like another one, or said in the question, the history or the"
        " instructions" + _CONTEXTS,
    ),
    "by_data_flow": (
        "inferred",
        "contexts",
        "which texts the model was shown is not certain: {}" + _CONTEXTS,
    ),
    "undivided": ("inferred", "contexts", "{}"),
    # what is missing
    "no_search": (
        "incomplete",
        "nothing",
        "no search was seen that found anything: {}",
    ),
    "not_recorded": (
        "incomplete",
        "contexts",
        "texts that the model may have been shown were not recorded: {}; else name the"
        " contexts by contexts_from=",
    ),
    "no_answer": ("incomplete", "nothing", "no whole answer was found: {}"),
}


@dataclass(frozen=True)
class Doubt:
    """Something that is uncertain.

    Attributes:
        code: Its code in the table.
        detail: What the sentence says of this run, such as the name of a tool.
        has_unread_texts: Whether the run had texts that the sample lacks.
    """

    code: str
    detail: str = ""
    has_unread_texts: bool = False

    @property
    def grade(self) -> Grade:
        """The best grade that it leaves."""
        return _TABLE[self.code][0]

    @property
    def settled_by(self) -> SettledBy:
        """The field that ends it, where the user names it."""
        return _TABLE[self.code][1]

    @property
    def sentence(self) -> str:
        """What it says, and what to do."""
        return _TABLE[self.code][2].format(self.detail)


SEVERAL_RESULTS = Doubt(
    "which_turn",
    "a place that the settings name leads to several results of calls, and one of them"
    " counts; begin it with the name of the call that counts, or name a function",
)
