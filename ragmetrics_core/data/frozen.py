"""The base of all data models.

Its models are immutable, strict about unknown fields, and silent about texts.
"""

from dataclasses import fields
from functools import partial
from math import isfinite
from numbers import Real
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.name_matching import did_you_mean
from ragmetrics_core.data.scalars import is_blank

# Texts that are symbols of ours, or names that people give; other texts are shown by
# their size.
_SYMBOLS = frozenset(
    {"band", "formula", "id", "kind", "language", "mode", "model", "name"}
)


class _Size(str):
    """The size of something private, which a repr shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def redact(name: str | None, value: object) -> object:
    """Return what a repr may show of a field.

    Symbols and numbers are shown as they are. Of everything else the size is shown.
    """
    if isinstance(value, str):
        return value if name in _SYMBOLS else _Size(f"<{len(value)} characters>")
    if isinstance(value, (tuple, list, dict)):
        are_numbers = all(isinstance(element, (int, float)) for element in value)
        return value if are_numbers else _Size(f"<{len(value)} items>")
    return value


class Frozen(BaseModel):
    """Immutable data; unknown fields are errors.

    Fields with texts of samples or replies are ``repr=False``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __str__(self) -> str:
        return repr(self)


class Settings(Frozen):
    """Settings that people give.

    A wrong setting raises a ``SettingError``, or the kind of it that a check raised.
    """

    # The settings of a class are its fields, which type checkers list for each class.
    def __init__(self, /, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            # of several wrong settings the first is told
            problem = error.errors(include_url=False)[0]
        else:
            return
        # The path to the setting; "" for a check of all settings together.
        name = ".".join(str(key) for key in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        value = problem["input"]
        if problem["type"] == "extra_forbidden":
            known_names = type(self).model_fields
            hint = did_you_mean(name, known_names)
            message = f"no such setting{hint}; there are: {', '.join(known_names)}"
        elif isinstance(value, (int, float)):
            message += f", got {_number_in_words(value)}"
        if name:
            message = f"{name}: {message}"
        raised_by_check = problem.get("ctx", {}).get("error")
        kind = SettingError
        if isinstance(raised_by_check, SettingError):
            kind = type(raised_by_check)
        raise kind(f"{type(self).__name__}: {message}")


def _is_finite(number: float) -> bool:
    """Tell whether a number is finite: not NaN, infinite or too large for a float."""
    try:
        return isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


def _number_in_words(number: float) -> str:
    """Return a number as an error says it."""
    if isinstance(number, int) and not _is_finite(number):
        # Python writes out no number of thousands of digits, and nobody could read it
        return "a number that is too large"
    return repr(number)


def check_number(
    where: str,
    value: object,
    *,
    least: float,
    whole: bool = True,
    excludes_least: bool = False,
) -> None:
    """Refuse, by ``SettingError``, a setting that is no finite number, or too small.

    Example: ``check_number("Run(concurrency=)", 0, least=1)`` says "Run(concurrency=)
    must be a whole number of at least 1, got 0".

    Args:
        where: The setting's name, for the message.
        value: What was given.
        least: The lowest number allowed.
        whole: Whether only whole numbers are allowed.
        excludes_least: Whether ``least`` itself is not allowed.
    """
    is_number = isinstance(value, int if whole else (int, float))
    is_truth_value = isinstance(value, bool)  # which Python counts as an int
    if is_number and not is_truth_value and _is_finite(cast("float", value)):
        number = cast("float", value)
        if number > least or (number == least and not excludes_least):
            return
    kind = "a whole number" if whole else "a finite number"
    bound = f"above {least:g}" if excludes_least else f"of at least {least:g}"
    if isinstance(value, (int, float)):
        value_in_words = _number_in_words(value)
    else:  # a text may be private: an error never says it
        value_in_words = f"a {type(value).__name__}"
    raise SettingError(f"{where} must be {kind} {bound}, got {value_in_words}")


check_seconds = partial(check_number, least=0, whole=False, excludes_least=True)
"""Refuses, by ``SettingError``, a time that is no finite number above 0."""


def check_share(where: str, value: object) -> None:
    """Refuse, by ``SettingError``, a setting that is no number from 0 to 1."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= cast("float", value) <= 1:
        raise SettingError(
            f"{where} is a number from 0 to 1, as 0.8 for 80 %; got {value!r:.40}"
        )


class SilentData(Frozen):
    """Immutable data whose repr shows no texts.

    Of texts and collections the repr shows the size, unless the field allows only words
    of ours. So no field needs a mark of its own.
    """

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show sizes of texts and collections, not what they say."""
        fields = type(self).model_fields
        return [
            (name, value)
            if name in fields and _is_closed(fields[name].annotation)
            else (name, redact(name, value))
            for name, value in super().__repr_args__()
        ]


def _is_closed(annotation: object) -> bool:
    """Whether a field can hold only a few words of ours, such as "binary", or None."""
    kinds = get_args(annotation)
    if get_origin(annotation) is Literal:
        return True
    return bool(kinds) and all(kind is type(None) or _is_closed(kind) for kind in kinds)


class PrivateRepr:
    """Keeps texts out of the repr of a dataclass, which shows their sizes."""

    def __repr__(self) -> str:
        settings = (
            f"{f.name}={redact(f.name, getattr(self, f.name))!r}"
            for f in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        )
        return f"{type(self).__name__}({', '.join(settings)})"


def replace_surrogates(value: object) -> object:
    """Join surrogate pairs and replace lone surrogates.

    No encoding of the wire can carry a lone surrogate.
    """
    if not isinstance(value, str) or value.isascii():
        return value
    replaced = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # most texts have none: the same object is given back, so that none is held twice
    return value if replaced == value else replaced


def sendable_text(text: str) -> str:
    """Replace what no endpoint accepts: NUL and lone surrogates."""
    return str(replace_surrogates(text)).replace("\0", "\N{REPLACEMENT CHARACTER}")


def none_if_blank(value: object) -> object:
    """None and blank are the same: a text that shows nothing becomes None."""
    cleaned = replace_surrogates(value)
    return None if isinstance(cleaned, str) and is_blank(cleaned) else cleaned


def _refuse_stand_in(value: object) -> object:
    """Refuse a text or truth value, which pydantic would take for a number."""
    if isinstance(value, (bool, str, bytes)):
        raise ValueError("a number is needed")  # noqa: TRY004  # pydantic takes no other
    return value


Share = Annotated[
    float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_refuse_stand_in)
]
"""A number from 0 to 1; a text or a truth value is none."""

Text = Annotated[str, BeforeValidator(replace_surrogates)]
OptionalText = Annotated[str | None, BeforeValidator(none_if_blank)]
