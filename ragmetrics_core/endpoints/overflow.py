"""What endpoints say when a request is too long, or refused for its content: phrases and token counts."""

from __future__ import annotations

import re

_OVERFLOW = re.compile(
    r"context_length_exceeded|context[ _-]?(?:length|window|size)|prompt is too long|input token count|too many tokens"
    r"|longer than the (?:model's )?maximum|inputs?.? tokens? \+ .?max_new_tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy|ResponsibleAI", re.IGNORECASE)
_NUMBER = r"\(?(\d[\d,]*)\)?"
# Tokens of the request, and the window, in the words of OpenAI, vLLM, llama.cpp, Anthropic, Gemini and TGI.
_TOKENS = re.compile(
    r"(?:resulted in|you requested(?: about)?|you passed|request has|requested tokens|prompt is too long:|given:"
    rf"|input token count|request(?= {_NUMBER} tokens)|prompt contains(?: at least)?) {_NUMBER}",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    rf"(?:maximum context length is|context window of|context size|>(?= {_NUMBER} maximum)"
    rf"|maximum number of tokens allowed|must be <=|context length of only) {_NUMBER}",
    re.IGNORECASE,
)


def too_long(text: str) -> bool:
    """True if an endpoint says that a request is longer than the context window."""
    return _OVERFLOW.search(text) is not None


def filtered(text: str) -> bool:
    """True if an endpoint says that a filter refused the content of a request."""
    return _FILTERED.search(text) is not None


def token_counts(text: str) -> tuple[int | None, int | None]:
    """Tokens of the request and of the context window, as far as the endpoint says them."""
    return _number(_TOKENS, text), _number(_WINDOW, text)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[found.lastindex or 0].replace(",", "")) if found else None
