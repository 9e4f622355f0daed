"""The base of all data models: immutable, strict about unknown fields, silent about texts in its repr."""

from __future__ import annotations

from typing import Annotated, Any
from unicodedata import category

from pydantic import BaseModel, BeforeValidator, ConfigDict

# Fields that hold symbols of ours or the caller's ids; every other text is private and shown by its size.
_SYMBOLS = frozenset(
    {
        "band",
        "cause",
        "code",
        "formula",
        "generator",
        "id",
        "judge",
        "message",
        "kind",
        "metric",
        "mode",
        "name",
        "role",
        "sample_id",
    }
    | {"scale", "signature", "status", "type", "verdict", "version"}
)


class _Size:
    """A stand-in in reprs for something private: it shows only a size."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def redacted(name: str | None, value: object) -> object:
    """What a repr may show of a field: symbols and numbers as they are, of everything else the size."""
    if isinstance(value, str):
        return value if name in _SYMBOLS else _Size(f"<{len(value)} characters>")
    if isinstance(value, (tuple, list, dict)) and not all(isinstance(item, (int, float)) for item in value):
        return _Size(f"<{len(value)} items>")
    return value


class Frozen(BaseModel):
    """Immutable data; unknown fields are errors; texts never appear in the repr."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), hide_input_in_errors=True)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show sizes of texts and collections, not what they say."""
        return [(name, redacted(name, value)) for name, value in super().__repr_args__()]

    def __str__(self) -> str:
        return repr(self)


def clean(value: object) -> object:
    """Join surrogate pairs and replace lone surrogates, which no encoding of the wire can carry."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def safe(text: str) -> str:
    """Replace what no endpoint accepts: NUL and lone surrogates."""
    cleaned = clean(text)
    return (cleaned if isinstance(cleaned, str) else text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def blank(text: str) -> bool:
    r"""True for a text that shows nothing: empty, white space, or signs without a shape such as a byte order mark.

    Example:
        >>> blank(""), blank("\ufeff"), blank("\u200b "), blank("0")
        (True, True, True, False)
    """
    return all(character.isspace() or category(character) in ("Cf", "Cc") for character in text)


def blank_is_none(value: object) -> object:
    """None and blank are the same: a text that shows nothing becomes None."""
    cleaned = clean(value)
    return None if isinstance(cleaned, str) and blank(cleaned) else cleaned


Text = Annotated[str, BeforeValidator(clean)]
OptionalText = Annotated[str | None, BeforeValidator(blank_is_none)]
