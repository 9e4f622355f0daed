"""Prompt templates: those shipped with the metrics, and the check of users' own."""

from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files

from ragmetrics_core.data import Instructions, check_template


@cache
def read_shipped_template(name: str) -> str:
    """Read a template that ships with the metrics, e.g. ``adherent``."""
    return (
        files("ragmetrics_core.metrics")
        .joinpath("prompts", f"{name}.txt")
        .read_text(encoding="utf-8")
    )


@lru_cache(maxsize=64)
def instructions_for_judge(
    name: str,
    template: str | None,
    required: str,
    optional: str = "",
    examples: str | None = None,
    language: str | None = None,
) -> Instructions:
    """Return what a judge is told, by the user's own template or the shipped one.

    The user's own is checked before a call is paid for.

    Args:
        name: Name of the shipped template.
        template: The user's own text, with ``{names}``, each on a line of its own; braces around anything
            but a name are literal.
        required: Names that must occur, with spaces between them.
        optional: Further names that may occur; ``language`` always may.
        examples: Few-shot examples; "" for none. None: the shipped ones, beside the
            shipped template.
        language: Language of explanations.

    Raises:
        SettingError: If the template does not fit these names; see ``check_template``.
    """
    if examples is None:
        examples = ""
        if template is None:
            with suppress(FileNotFoundError):  # not each shipped template has some
                examples = read_shipped_template(f"{name}_examples").strip()
    instructions = Instructions(
        template=read_shipped_template(name) if template is None else template,
        examples=examples,
        language=language,
        optional=tuple(optional.split()),
    )
    check_template(instructions, (*required.split(), *instructions.optional))
    return instructions


def digest_of_prompt(*parts: str) -> str:
    """Short digest that tells two prompts apart in a signature."""
    return sha256("\0".join(parts).encode()).hexdigest()[:6]
