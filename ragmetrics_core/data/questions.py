"""The open seam between metrics and judges: what is asked, in which form it is answered, and what came of it.

A judge answers any question from its fields alone; one of your own is a subclass of ``Question`` that adds nothing
but its name.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from statistics import fmean
from typing import Annotated, Any, Generic, Literal, TypeVar, cast, get_args
from unicodedata import normalize

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationInfo, WithJsonSchema

from ragmetrics_core.data.errors import JudgeError, SettingError
from ragmetrics_core.data.frozen import Silent, redacted
from ragmetrics_core.data.sample import Sample, Turn
from ragmetrics_core.data.usage import Usage

R = TypeVar("R", bound=BaseModel)
Label = int | str
Texts = str | tuple[str, ...] | None

PLACEHOLDER = re.compile(
    r"^[ \t]*\{(?P<alone>[^\W\d]\w*)\}[ \t]*(?P<end>\n|\Z)|\{(?P<inside>[^\W\d]\w*)\}", re.MULTILINE
)
"""A name in braces, alone on its line or not; other braces, as in JSON, are literal."""

Mode = Literal["logprobs", "polls", "conditional", "sequential", "verdict", "lexical"]
"""How a probability was obtained: from log-probabilities of the label token, as the share over polls, after a
reasoning (conditional on it), after other cells of the same reply (sequential), not at all (the bare verdict),
or from word overlap."""


def _one_of(known: Mapping[str, object], needed: str) -> BeforeValidator:
    """Reads a label, however a model writes it: as a number, a text, in wide digits, with decimals."""

    def read(value: object) -> object:
        text = normalize("NFKC", str(value)).strip().lower().removesuffix(".0")
        if text not in known:
            raise ValueError(f"it must be {needed}")
        return known[text]

    return BeforeValidator(read)


_BITS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
Bit = Annotated[bool, _one_of(_BITS, "0 or 1"), WithJsonSchema({"type": "integer", "enum": [0, 1]})]
"""A field of a reply that is 0 or 1, however a model writes it: ``"1"``, ``1.0``, ``true``, ``"yes"``."""

Grade = Annotated[Literal[0, 1, 2, 3], _one_of({str(grade): grade for grade in range(4)}, "0, 1, 2 or 3")]
"""A field of a reply that is 0, 1, 2 or 3."""

Comment = Annotated[str, BeforeValidator(lambda value: value.strip() if isinstance(value, str) else "")]
"""A field of a reply with the judge's own words; whatever is no text counts as none."""


class _Private:
    """Keeps texts out of reprs."""

    def __repr__(self) -> str:
        shown = (f"{f.name}={redacted(f.name, getattr(self, f.name))!r}" for f in fields(self))  # type: ignore[arg-type]  # every subclass is a dataclass
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Part(_Private):
    """A text to show, or a group of texts.

    Args:
        label: What it is, in our words, e.g. ``"Answer"``.
        text: The text, or several; None and () show nothing.
        marks: How several are told apart: fenced one by one with ``numbers`` or neutral ``letters``, or as ``lines``
            of one fence, so that none can pose as another.
        rewrite: The application's own rewrite of the text, shown in the same fence.
        history: Earlier turns, shown in the same fence.
    """

    label: str
    text: Texts
    marks: Literal["numbers", "letters", "lines"] = "numbers"
    rewrite: str | None = None
    history: tuple[Turn, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, in order."""
        return self.text if isinstance(self.text, tuple) else () if self.text is None else (self.text,)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a group: 1, 2 …; A, B … Z, AA …; or the label's own letter with a number."""
        numbers = range(1, len(self.texts) + 1)
        if self.marks == "letters":
            return tuple(map(_letters, numbers))
        return tuple(f"{self.label[0] if self.marks == 'lines' else ''}{number}" for number in numbers)


def _letters(number: int) -> str:
    more, last = divmod(number - 1, 26)
    return (_letters(more) if more else "") + chr(ord("A") + last)


@dataclass(frozen=True, slots=True, repr=False)
class Instructions(_Private):
    """What the judge is told.

    Args:
        template: Fixed text with ``{names}`` of parts, each on a line of its own; ``{examples}`` and ``{language}``
            may stand anywhere. What is above a line ``---`` is the system message.
        examples: Few-shot examples, already written out; "" for none.
        language: Language of explanations, e.g. ``"German"``; None leaves it to the model.
        optional: Names of parts that the template need not show.
    """

    template: str
    examples: str = ""
    language: str | None = None
    optional: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def check_template(instructions: Instructions, parts: tuple[str, ...]) -> None:
    """Refuse a template that a judge would be shown otherwise than it is meant, before a call is paid for.

    ``SettingError`` if it names something else than these parts, one of them within a line, or one of them never.
    """
    found = [match.groupdict() for match in PLACEHOLDER.finditer(instructions.template)]
    alone, inside = ({one[kind] for one in found if one[kind]} for kind in ("alone", "inside"))
    problems = {
        "has {}, of which this question has no part; for braces that are meant write { name }": (alone | inside)
        - {*parts, "examples", "language"},
        "has {} within a line, where it cannot be fenced; give it a line of its own": inside.intersection(parts),
        "never shows {}; give it a line, or name it in optional=": {*parts} - alone - inside - {*instructions.optional},
    }
    for problem, names in problems.items():
        if names:
            shown, has = (", ".join(f"{{{name}}}" for name in sorted(given)) for given in (names, parts))
            raise SettingError(f"the template {problem.replace('{}', shown)}. The question's parts: {has}")


@dataclass(frozen=True, slots=True)
class Weigh:
    """Asks for the probability of a label instead of the bare verdict.

    Args:
        field: Field of the reply, or of each item of its list, that holds the label.
        positive: The label whose probability is wanted.
        labels: All labels; none begins with another, so that the first token tells them apart.
        cell_key: Field that names an item, where the reply is a list of items.
        fallback_polls: How many polls stand in where a judge has no usable log-probabilities.

    Raises:
        SettingError: If the labels cannot be told apart, or ``positive`` is none of them.
    """

    field: str
    positive: Label = 1
    labels: tuple[Label, ...] = (0, 1)
    cell_key: str | None = None
    fallback_polls: int = 3

    def __post_init__(self) -> None:
        names = [str(label).casefold() for label in self.labels]
        mixed = any(i != j and one.startswith(two) for i, one in enumerate(names) for j, two in enumerate(names))
        if mixed or self.positive not in self.labels or len(names) < 2:
            raise SettingError(
                f"Weigh({self.field!r}) needs two or more labels of which none begins with another, positive among "
                f"them; got {self.labels!r} and {self.positive!r}"
            )


@dataclass(frozen=True, slots=True)
class Split:
    """Lets a text that is too long for a judge be judged in overlapping windows.

    Args:
        part: Name of the part that may be cut; of several texts, which are first divided into shorter groups.
        field: Of each verdict the window counts where this field of the reply (or its weight) is highest.
    """

    part: str
    field: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Question(_Private, Generic[R]):
    """A question to a judge, answered with replies of the type ``Reply``.

    Args:
        parts: The texts to show, by the name of their placeholder.
        instructions: What the judge is told; judges that do not read prompts ignore it.
        Reply: Form of the reply, a pydantic model: its validators read the reply, with the question as validation
            context. Its JSON schema is sent, unless the template names every field of it in quotes.
        polls: How many independent replies.
        first_poll: Index of the first of them where they are asked for in rounds, so that later rounds get fresh ones.
        temperature: Sampling temperature.
        weigh: Which label's probability is wanted; None for bare verdicts.
        split: What may be cut into windows; None if the texts are needed as a whole.
        example: Reply for dry runs; a pair for the least and the most that is usual, or a function of the question.
    """

    parts: Mapping[str, Part]
    instructions: Instructions
    Reply: type[R]
    polls: int = 1
    first_poll: int | None = None
    temperature: float = 0.0
    weigh: Weigh | None = None
    split: Split | None = None
    example: R | tuple[R, R] | Callable[[Any], tuple[R, R]] | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Any:
        """The text of a part, or its texts if it is a group."""
        return self.parts[name].text

    def read(self, value: object) -> R:
        """Read a reply; ``ValidationError`` if it has not the form that was asked for."""
        return self.Reply.model_validate(value, context=self)

    def examples(self) -> tuple[R, R] | None:
        """The least and the most that is usual as a reply; None if the question names none."""
        given = self.example(self) if callable(self.example) else self.example
        return given if isinstance(given, tuple) or given is None else (given, given)


def about(sample: Sample) -> dict[str, Part]:
    """The part ``question`` of a sample, with the application's rewrite and the earlier turns."""
    return {"question": Part("Question", sample.question, "numbers", sample.standalone_question, sample.history)}


@dataclass(frozen=True, slots=True)
class Weight:
    """The probability of the positive label.

    Args:
        p: In [0, 1].
        mode: How it was obtained.
        mass: Probability that all labels together cover, for log-probabilities.
    """

    p: float
    mode: Mode = "logprobs"
    mass: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Asked(_Private, Generic[R]):
    """What came of a question.

    Args:
        replies: The replies that could be read, in the order of the polls; at least one. A deterministic judge gives
            one, however many were asked for.
        failures: Why others are missing.
        weights: One per verdict of a reply, in their order, where they are wanted and known.
        windows: In how many windows each verdict of a reply was judged; () if all were judged as a whole.
        together: True if one request gave several replies, so that stopping early would save nothing.
    """

    replies: tuple[R, ...]
    failures: tuple[JudgeError, ...] = ()
    weights: tuple[Weight, ...] = ()
    windows: tuple[int, ...] = ()
    together: bool = False

    @property
    def reply(self) -> R:
        """The first reply."""
        return self.replies[0]


@dataclass(frozen=True, slots=True, repr=False)
class NotAnswered(_Private):
    """A question that the judge did not answer, and why."""

    error: JudgeError


@dataclass(frozen=True, slots=True, repr=False)
class Answer(_Private, Generic[R]):
    """What a judge returns: what came of a question, and what it cost."""

    reply: Asked[R] | NotAnswered
    usage: Usage = field(default_factory=Usage)


Batch = tuple[Question[Any], ...]
Replies = tuple[Any, ...]


def ask(questions: Sequence[Question[R]]) -> Generator[Batch, Replies, tuple[Asked[R] | NotAnswered, ...]]:
    """Ask a batch of questions from within a metric's plan; they may be answered in any order, at the same time.

    Returns ``Asked`` or ``NotAnswered`` for each question, in order; use it with ``yield from``.
    """
    replies = (yield tuple(questions)) if questions else ()
    return cast("tuple[Asked[R] | NotAnswered, ...]", replies)


def cells(reply: BaseModel) -> tuple[BaseModel, ...]:
    """The verdicts of a reply: the items of its list of objects, if it has one, else the reply itself."""
    name = list_field(type(reply))
    return (reply,) if name is None else tuple(getattr(reply, name))


@lru_cache(maxsize=64)
def list_field(model: type[BaseModel]) -> str | None:
    """Name of the field of a reply that is a list of objects; None if it has none."""
    kinds = {name: next(iter(get_args(info.annotation)), None) for name, info in model.model_fields.items()}
    return next((name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def shares(replies: Sequence[BaseModel], weigh: Weigh, mode: Mode | None = None) -> tuple[Weight, ...]:
    """The share of replies with the positive label, per verdict; of a single reply the bare verdict."""
    mode = mode or ("verdict" if len(replies) == 1 else "polls")
    verdicts = zip(*map(cells, replies), strict=True)
    return tuple(Weight(fmean(getattr(one, weigh.field) == weigh.positive for one in own), mode) for own in verdicts)


class Labelled(Silent, extra="ignore"):
    """Base of an item in a reply about several texts: the label of its text comes first."""

    label: Comment


Item = TypeVar("Item", bound=Labelled)


def _in_order(items: tuple[Item, ...], info: ValidationInfo) -> tuple[Item, ...]:
    if not isinstance(info.context, Question):  # read back from a file
        return items
    expected = info.context.parts[info.field_name or ""].labels
    given = [item.label for item in items]
    if sorted(given) != sorted(expected):
        raise ValueError(f"it must have each of these labels exactly once: {', '.join(expected)}")
    return tuple(items[given.index(label)] for label in expected)


EachOnce = Annotated[tuple[Item, ...], AfterValidator(_in_order)]
"""A field of a reply with the name of a part: an item for each of the part's labels, read into their order."""
