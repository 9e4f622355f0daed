"""What came of a question: replies, probabilities, failures, and the cost.

The module also has the fields of the replies' models. The probabilities are those of
labels.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import inf
from operator import add, attrgetter
from string import ascii_letters
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NoReturn,
    TypeGuard,
    TypeVar,
    get_args,
)
from unicodedata import normalize

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data.errors import JudgeError, SettingError
from ragmetrics_core.data.frozen import PrivateRepr, SilentData
from ragmetrics_core.data.scalars import plain_data

R = TypeVar("R", bound=BaseModel)

Mode = Literal[
    "logprobs",
    "polls",
    "conditional",
    "sequential",
    "verdict",
    "lexical",
    "encoder",
    "decision",
]
"""How a probability was obtained.

- ``logprobs``: from log-probabilities of the label token;
- ``polls``: as the share over polls;
- ``conditional``: after a reasoning, in results of earlier versions;
- ``sequential``: after other cells of the same reply;
- ``verdict``: not at all, there is the bare verdict;
- ``lexical``: from word overlap;
- ``encoder``: from an encoder's labels;
- ``decision``: as the answer to a typed question.
"""


# What may stand around a label: spaces, quotes, brackets, emphasis, a full stop.
_AROUND_LABELS = " \t\r\n\"'`*_.,:;!()[]{}<>"


def plain_label(value: object) -> str:
    """Return a label as text, in lower case and plain digits, without signs around."""
    text = normalize("NFKC", str(value)).casefold().strip(_AROUND_LABELS)
    return text.removesuffix(".0")


def _reader_of_labels(values: Mapping[str, object], needed: str) -> BeforeValidator:
    """Return a validator that reads a label, however a model writes it.

    A label may be a number or a text, in any case, in wide digits or with decimals, and
    with punctuation around it.

    Args:
        values: The value of each label as it is written, in lower case.
        needed: What is needed, for the message about anything else.
    """

    def read_value(value: object) -> object:
        text = plain_label(value)
        if text not in values:
            raise ValueError(f"it must be {needed}")
        return values[text]

    return BeforeValidator(read_value)


_BITS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
Bit = Annotated[
    bool,
    _reader_of_labels(_BITS, "0 or 1"),
    WithJsonSchema({"type": "integer", "enum": [0, 1]}),
]
"""A field of a reply that is 0 or 1, however a model writes it.

Examples are ``"1"``, ``1.0``, ``true`` and ``"yes"``.
"""


Overall = Annotated[
    bool | None,
    BeforeValidator(
        lambda value: None if value is None else _BITS.get(plain_label(value), value)
    ),
    WithJsonSchema({"type": "integer", "enum": [0, 1]}),
]
"""A verdict, 0 or 1, beside the list of what speaks against it.

It is a no if either says so: asked again, a model that lists something beside a yes says
no, and one that says no without a list says so again. None where a judge gives the list
alone, which then decides by being empty.
"""


@lru_cache(maxsize=64)
def overall_fields(form: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields of a reply that are ``Overall``."""
    fields_of_form = form.model_fields.items()
    overall = bool | None
    return tuple(name for name, info in fields_of_form if info.annotation == overall)


Points = Annotated[
    Literal[0, 1, 2, 3],
    _reader_of_labels({str(grade): grade for grade in range(4)}, "0, 1, 2 or 3"),
]
"""A field of a reply that is 0, 1, 2 or 3."""


def _read_number(value: object) -> object:
    """Return a number, also one that is written as text: .95 for "0.95"."""
    value = plain_data(value)
    if isinstance(value, bool):
        raise ValueError("it must be a number between 0 and 1")  # noqa: TRY004  # pydantic takes no other
    if not isinstance(value, str):
        return value
    text = normalize("NFKC", value).strip(" \t\n\"'`*,;").rstrip(".")
    return text.replace(",", ".")  # a decimal comma


UnitNumber = Annotated[
    float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_read_number)
]
"""A field of a reply that is a number from 0 to 1, also one in quotes."""


def _read_texts(value: object) -> object:
    """Return the texts of a list that hold a word, each once.

    Case and spacing do not tell texts apart. A text in place of the list is refused: it
    may hold several. So is a list that holds "None" or null.
    """
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(text, str) and plain_label(text) != "none" for text in value
    ):
        raise ValueError("it must be a list of texts, [] if there is none")
    text_by_wording: dict[str, str] = {}
    for text in value:
        if has_word(text):
            wording = " ".join(text.split()).casefold()
            text_by_wording.setdefault(wording, text.strip())
    return tuple(text_by_wording.values())


def states_something(text: str) -> bool:
    """Tell whether a text may stand in such a list: not "?!" and not "None"."""
    return has_word(text) and plain_label(text) != "none"


def has_word(value: object) -> bool:
    """Tell whether a value is a text that holds a letter or a number."""
    return isinstance(value, str) and any(map(str.isalnum, value))


Texts = Annotated[tuple[str, ...], BeforeValidator(_read_texts)]
"""A field of a reply that is a list of texts."""

_WORD = re.compile(r"[^\W_]+")
_WITHOUT_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def takes_words(text: str, source: str) -> bool:
    """Tell whether a text stands in another one, or shares a content word with it.

    "N/A", "keine" and "All claims are supported." take none from an answer, and are no
    claims of it. Of a text without content words, any word counts.
    """
    words, words_of_source = _words(text), _words(source)
    is_quoted = (
        bool(words) and f" {' '.join(words)} " in f" {' '.join(words_of_source)} "
    )
    telling_words = content_words(text) or set(words)
    return is_quoted or not telling_words.isdisjoint(
        content_words(source) or words_of_source
    )


def content_words(text: str) -> set[str]:
    """Return words of four letters or more, names and numbers, in lower case.

    Of scripts without spaces, pairs of signs.
    """
    words: set[str] = set()
    for word in _WORD.findall(normalize("NFKC", text)):
        if _WITHOUT_SPACES.search(word):
            words.update(word[start : start + 2] for start in range(len(word) - 1))
        elif len(word) > 3 or not word.isalpha() or word[0].isupper():
            words.add(word.casefold())
    return words


def _words(text: str) -> list[str]:
    return _WORD.findall(normalize("NFKC", text).casefold())


SAID_TWICE = "consistency"
"""The fallback of a reply that is odd, and counts as its verdict was said again."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Marks a list of texts that decides by being empty, such as of what is missing.

    Args:
        part: The part of the question whose sentences may stand in it; None for words
            of the judge's own.
    """

    part: str | None = None


@dataclass(frozen=True, slots=True)
class WordsOf:
    """Marks a list of texts in words of a part of the question.

    A model is asked again if none of them is; without ``each``, also if one is not.

    Args:
        parts: The part, and others whose words count as well.
        each: Each text counts by itself: the others are left out, which may leave the
            list empty. Else all count, if they are said again.
    """

    parts: tuple[str, ...]
    each: bool = True


@dataclass(frozen=True, slots=True)
class Bands:
    """Marks a number that lies in one of several bands.

    Args:
        bands: The name, lowest and highest number of each, from the lowest up.
    """

    bands: tuple[tuple[str, float, float], ...]


Comment = Annotated[
    str, BeforeValidator(lambda value: value.strip() if isinstance(value, str) else "")
]
"""A field of a reply with the judge's own words; whatever is no text counts as none."""


class Labelled(SilentData, extra="ignore"):
    """Base of an item in a reply about several texts.

    The label of its text comes first. It may be a number.
    """

    label: Annotated[str, BeforeValidator(lambda label: str(label).strip())]


Item = TypeVar("Item", bound=Labelled)


def _sort_by_labels(
    in_given_order: tuple[Item, ...], info: ValidationInfo
) -> tuple[Item, ...]:
    """Sort the items of a reply into the order of the labels that the judge was shown.

    Example: the judge was shown the facts F1, F2 and F3, and the reply has its verdicts
    on F2, F1 and F3: they are sorted into F1, F2, F3. The validation's ``context`` is
    the question. Its part with the labels has the name of the field, such as "facts".
    A label's number alone stands for it: 1 for F1.

    Raises ``ValueError`` if a label is missing, unknown, or there twice.
    """
    if info.context is None:  # a reply read without its question
        return in_given_order
    expected_labels = info.context.parts[info.field_name or ""].labels
    label_by_number = {
        label.lstrip(ascii_letters) or label: label for label in expected_labels
    }
    label_by_plain_label = {plain_label(label): label for label in expected_labels}
    item_by_label: dict[str, Item] = {}
    for item in in_given_order:
        plain = plain_label(item.label)
        label = label_by_plain_label.get(plain) or label_by_number.get(plain, plain)
        is_as_shown = item.label == label
        labelled = item if is_as_shown else item.model_copy(update={"label": label})
        if label in item_by_label and item_by_label[label] != labelled:
            raise ValueError(f"it has two verdicts on {label!r} that differ")
        item_by_label[label] = labelled
    if sorted(item_by_label) != sorted(expected_labels):
        raise ValueError(
            "it must have each of these labels exactly once:"
            f" {', '.join(expected_labels)}"
        )
    return tuple(item_by_label[label] for label in expected_labels)


EachOnce = Annotated[tuple[Item, ...], AfterValidator(_sort_by_labels)]
"""A field of a reply with the name of a part: one item for each of the part's labels.

The items are read into the order of the labels.
"""


def verdicts_of(reply: BaseModel) -> tuple[BaseModel, ...]:
    """Return the verdicts of a reply.

    They are the items of its list of objects, if it has one, else the reply itself.
    """
    name = list_field(type(reply))
    return (reply,) if name is None else tuple(getattr(reply, name))


@lru_cache(maxsize=64)
def list_field(model: type[BaseModel]) -> str | None:
    """Name of the field of a reply that is a list of objects; None if it has none.

    Fields that no judge writes, as they are not in its JSON schema, do not count.
    """
    for name, info in model.model_fields.items():
        is_hidden = any(
            isinstance(marker, SkipJsonSchema)  # type: ignore[misc]  # generic to mypy only
            for marker in info.metadata
        )
        if not is_hidden and _form_of_items(info) is not None:
            return name
    return None


def form_of_verdict(model: type[BaseModel]) -> type[BaseModel]:
    """Return the class of a reply's verdicts: its list's items, else the reply."""
    name = list_field(model)
    items = None if name is None else _form_of_items(model.model_fields[name])
    return model if items is None else items


def _form_of_items(field: FieldInfo) -> type[BaseModel] | None:
    """Return the form of the objects in a field that is a list.

    Returns None for any other field.
    """
    type_arguments = get_args(field.annotation)  # of tuple[Item, ...]: Item, ...
    element_type = type_arguments[0] if type_arguments else None
    if isinstance(element_type, type) and issubclass(element_type, BaseModel):
        return element_type
    return None


@dataclass(frozen=True, slots=True)
class Usage:
    """What answering cost.

    Args:
        calls: Requests that reached the model, repairs and retries included.
        stored: Replies taken from the store instead of a call.
        repairs: Calls that asked again because a reply was unusable.
        faults: Calls repeated after transient faults, whether or not the last one
            succeeded.
        prompt_tokens: Tokens sent, as the endpoint counts them.
        completion_tokens: Tokens received.
        cost: US dollars; None where the price is unknown.
        fallbacks: What the endpoint or model could not do and was replaced, e.g. ``n``,
            ``logprobs``, ``consistency`` by a verdict that was said twice.
        models: Names of the models as the endpoint returned them.
    """

    calls: int = 0
    stored: int = 0
    repairs: int = 0
    faults: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    fallbacks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def __add__(self, other: "Usage") -> "Usage":
        """Sum of both; an unknown cost stays unknown."""
        counts = map(add, _counts_of(self), _counts_of(other))
        cost = None
        if self.cost is not None and other.cost is not None:
            cost = self.cost + other.cost
        fallbacks = tuple(sorted({*self.fallbacks, *other.fallbacks}))
        models = tuple(sorted({*self.models, *other.models}))
        sums: list[Any] = [*counts, cost, fallbacks, models]  # in the order of fields
        return Usage(*sums)

    @property
    def stored_in_words(self) -> str:
        """How many replies were stored ones, e.g. "stored replies: all 12"; "" if none."""
        if not self.stored:
            return ""
        return f"stored replies: {'' if self.calls else 'all '}{self.stored:,}"

    @property
    def is_a_count(self) -> bool:
        """Whether all its numbers are finite and at least 0."""
        numbers = (*_counts_of(self), self.cost or 0.0)
        return all(
            isinstance(number, (int, float)) and 0 <= number < inf for number in numbers
        )


_counts_of = attrgetter(*[each.name for each in fields(Usage) if each.type is int])


@dataclass(frozen=True, slots=True)
class Weight:
    """The probability of the positive label.

    Args:
        p: In [0, 1].
        mode: How it was obtained.
        mass: Probability that all labels together cover, for log-probabilities.

    Raises:
        JudgeError: If the mode is none of those, or a number is no probability.
    """

    p: float
    mode: Mode = "logprobs"
    mass: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that a judge of somebody's own may make.

        That is an unknown mode, or a number that is no probability.
        """
        if self.mode not in get_args(Mode):
            modes = ", ".join(get_args(Mode))
            raise JudgeError(
                f"the judge gave a probability of the mode {self.mode!r}; a Weight's"
                f" mode is one of {modes}"
            )
        mass = 0.0 if self.mass is None else self.mass
        for name, number in {"p": self.p, "mass": mass}.items():
            if not 0 <= number <= 1:
                raise JudgeError(
                    f"the judge gave a probability of {name}={number!r}; a Weight's"
                    f" {name} lies in [0, 1]"
                )


class _NoWeights(tuple[Weight, ...]):
    """No weights, which say why where one is read, as in ``asked.weights[0]``."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """A slice is empty.

        Raises:
            SettingError: If a single weight is read.
        """
        if isinstance(index, slice):
            return ()
        raise SettingError(
            "there are no weights: the question has no wanted_probability=, or its judge"
            " gave none; count asked.replies"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Asked(PrivateRepr, Generic[R]):
    """What came of a question.

    Args:
        replies: The replies that could be read, in the order of the polls; at least
            one. A deterministic judge gives one, however many were asked for.
        failures: Why others are missing.
        weights: One per verdict of a reply, in their order, where they are wanted and
            known.
        windows: In how many windows each verdict of a reply was judged; () if all were
            judged as a whole.
        together: True if one request gave several replies, so that stopping early would
            save nothing.
    """

    replies: tuple[R, ...]
    failures: tuple[JudgeError, ...] = ()
    weights: tuple[Weight, ...] = ()
    windows: tuple[int, ...] = ()
    together: bool = False

    def __post_init__(self) -> None:
        """Have missing weights say so where one is read."""
        if not self.weights:
            object.__setattr__(self, "weights", _NoWeights())

    @property
    def reply(self) -> R:
        """The first reply."""
        return self.replies[0]

    @property
    def asked(self) -> int:
        """How many polls were asked."""
        return len(self.replies) + len(self.failures)


@dataclass(frozen=True, slots=True, repr=False)
class NotAnswered(PrivateRepr):
    """A question that the judge did not answer, and why.

    Code that reads a reply without looking whether there is one raises the error, so
    that its metric fails for the judge's reason.
    """

    error: JudgeError

    @property
    def reply(self) -> NoReturn:
        """There is none: raises the error; so do ``replies`` and ``weights``."""
        raise self.error.with_traceback(None)

    replies = weights = reply


def failed_with(
    reply: Asked[Any] | NotAnswered, error_class: type[JudgeError]
) -> TypeGuard[NotAnswered]:
    """Tell whether a question was not answered because of an error of this class."""
    return isinstance(reply, NotAnswered) and isinstance(reply.error, error_class)


@dataclass(frozen=True, slots=True, repr=False)
class Answer(PrivateRepr, Generic[R]):
    """What a judge returns: what came of a question, and what it cost."""

    reply: Asked[R] | NotAnswered
    usage: Usage = field(default_factory=Usage)
