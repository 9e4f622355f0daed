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
_TOKENS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:resulted in|you requested(?: about)?|you passed|request has|requested tokens) {_NUMBER}",
        rf"prompt is too long: {_NUMBER}",
        rf"input token count {_NUMBER}",
        rf"request {_NUMBER} tokens",
        rf"request \({_NUMBER} tokens\) exceeds",
        rf"given: {_NUMBER}",
        rf"prompt contains(?: at least)? {_NUMBER}",
    )
)
_WINDOWS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"maximum context length is {_NUMBER}",
        rf"context window of {_NUMBER}",
        rf"context size {_NUMBER}",
        rf"> {_NUMBER} maximum",
        rf"maximum number of tokens allowed {_NUMBER}",
        rf"must be <= {_NUMBER}",
        rf"context length of only {_NUMBER}",
    )
)


def too_long(text: str) -> bool:
    """True if an endpoint says that a request is longer than the context window."""
    return _OVERFLOW.search(text) is not None


def filtered(text: str) -> bool:
    """True if an endpoint says that a filter refused the content of a request."""
    return _FILTERED.search(text) is not None


def token_counts(text: str) -> tuple[int | None, int | None]:
    """Tokens of the request and of the context window, as far as the endpoint says them."""
    return _first(_TOKENS, text), _first(_WINDOWS, text)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    found = (match for pattern in patterns if (match := pattern.search(text)))
    return next((int(match[1].replace(",", "")) for match in found), None)
