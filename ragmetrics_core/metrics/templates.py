"""Prompt templates: those that ship with the metrics, and the check of those that users bring."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.questions import Instructions

_PLACEHOLDER = re.compile(r"\{(question|answer|contexts?|chunks?|reference|facts?)\}")


@cache
def shipped(name: str) -> str:
    """Read a template that ships with the metrics, e.g. ``adherent``."""
    return files("ragmetrics_core.metrics").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")


@lru_cache(maxsize=64)
def prompt(
    name: str, own: str | None, required: str, optional: str = "", examples: str = "", language: str | None = None
) -> Instructions:
    """What a judge is told: by a template of the user's own, checked before a call is paid for, or by the shipped one.

    Args:
        name: Name of the shipped template.
        own: Text with ``{names}``; braces around anything that is no placeholder's name are literal.
        required: Names that must occur, with spaces between them.
        optional: Further names that may occur; ``examples`` and ``language`` always may.
        examples: Few-shot examples.
        language: Language of explanations.

    Raises:
        SettingError: If a required placeholder is missing, or one occurs that this question cannot fill.
    """
    template, needed = shipped(name) if own is None else own, set(required.split())
    present = set(_PLACEHOLDER.findall(template))
    if missing := needed - present:
        raise SettingError(f"the template lacks {_braced(missing)}; it must hold {_braced(needed)}")
    if unknown := present - needed - set(optional.split()):
        raise SettingError(f"the template holds {_braced(unknown)}, which this question cannot fill")
    return Instructions(template, examples, language)


def digest(*parts: str) -> str:
    """Short digest that tells two prompts apart in a signature."""
    return sha256("\0".join(parts).encode()).hexdigest()[:6]


def _braced(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
