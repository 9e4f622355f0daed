"""The prompt templates that ship with the metrics, and the check of templates that users bring."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files

from ragmetrics_core.data.errors import SettingError

PLACEHOLDERS = frozenset(
    {"question", "answer", "contexts", "chunk", "chunks", "context", "reference"}
    | {"fact", "facts", "examples", "language"}
)


@cache
def shipped(name: str) -> str:
    """Read a template that ships with the metrics, e.g. ``adherent``."""
    return files("ragmetrics_core.metrics").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")


def checked(template: str, *, required: frozenset[str], optional: frozenset[str]) -> str:
    """Check the placeholders of a template at construction, before a call is paid for.

    Args:
        template: Text with ``{names}``; braces around anything that is no placeholder's name are literal.
        required: Names that must occur.
        optional: Further names that may occur; ``examples`` and ``language`` always may.

    Returns:
        The template.

    Raises:
        SettingError: If a required placeholder is missing, or one occurs that this question cannot fill.
    """
    present = set(re.findall(r"\{(\w+)\}", template)) & PLACEHOLDERS
    missing = required - present
    if missing:
        raise SettingError(f"the template lacks {_braced(missing)}; it must hold {_braced(required)}")
    unknown = present - required - optional - {"examples", "language"}
    if unknown:
        raise SettingError(f"the template holds {_braced(unknown)}, which this question cannot fill")
    return template


def digest(*parts: str) -> str:
    """Short digest that tells two prompts apart in a signature."""
    return sha256("\0".join(parts).encode()).hexdigest()[:6]


def _braced(names: frozenset[str] | set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
