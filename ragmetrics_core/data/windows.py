"""Cutting texts that are longer than a judge's context window into overlapping windows."""

_SHORTEST = 1_000
_OVERLAP = 200


def halves(text: str) -> tuple[str, ...]:
    """Cut a text at spaces into two windows that overlap by about 200 characters.

    () for fewer than 1,000 characters, too few to be what makes a prompt too long.
    """
    if len(text) < _SHORTEST:
        return ()
    start, end = (len(text) - _OVERLAP) // 2, (len(text) + _OVERLAP) // 2
    first, second = text.find(" ", end, end + 80), text.rfind(" ", start - 80, start)
    return text[: first if first >= 0 else end], text[second + 1 if second >= 0 else start :]


def divided(texts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Two groups of texts of about the same length, in order; a single text is cut; () if nothing can be divided."""
    if len(texts) < 2:
        return tuple((half,) for text in texts for half in halves(text))
    total = sum(map(len, texts))
    at = min(range(1, len(texts)), key=lambda count: abs(2 * sum(map(len, texts[:count])) - total))
    return texts[:at], texts[at:]
