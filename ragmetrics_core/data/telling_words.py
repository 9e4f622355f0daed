"""The words of a text that tell what it is about."""

from ragmetrics_core.data.lazy_patterns import lazy_pattern

# A number, a word of four letters or more, or a sign of a script without blanks.
_TELLING_WORD = lazy_pattern(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|\d+"
    r"|[^\W\d_\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]{4,}"
)


def telling_words(text: str) -> list[str]:
    """Return the words of a text that tell something, in lower case and in order.

    They are numbers, words of at least four letters, and single signs of scripts
    without blanks between words. Example: "The bridge opened in 1886." gives "bridge",
    "opened" and "1886".
    """
    return _TELLING_WORD.findall(text.lower())
