"""Prompt templates: those that ship with the metrics, and the check of those that users bring."""

from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files

from ragmetrics_core.data import Instructions, check_template


@cache
def shipped(name: str) -> str:
    """Read a template that ships with the metrics, e.g. ``adherent``."""
    return (
        files("ragmetrics_core.metrics")
        .joinpath("prompts", f"{name}.txt")
        .read_text(encoding="utf-8")
    )


@lru_cache(maxsize=64)
def prompt(
    name: str,
    own: str | None,
    required: str,
    optional: str = "",
    examples: str = "",
    language: str | None = None,
) -> Instructions:
    """What a judge is told: by a template of the user's own, checked before a call is paid for, or by the shipped one.

    Args:
        name: Name of the shipped template.
        own: Text with ``{names}``, each on a line of its own; braces around anything
            but a name are literal.
        required: Names that must occur, with spaces between them.
        optional: Further names that may occur; ``language`` always may.
        examples: Few-shot examples.
        language: Language of explanations.

    Raises:
        SettingError: If the template does not fit these names; see ``check_template``.
    """
    made = Instructions(
        shipped(name) if own is None else own,
        examples,
        language,
        tuple(optional.split()),
    )
    check_template(made, (*required.split(), *made.optional))
    return made


def digest(*parts: str) -> str:
    """Short digest that tells two prompts apart in a signature."""
    return sha256("\0".join(parts).encode()).hexdigest()[:6]
