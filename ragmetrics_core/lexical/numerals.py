"""Numbers of a text in one spelling, so that equal numbers meet."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from decimal import Decimal

_LONGEST = 20  # digits of a number that a word such as million may follow
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUP = re.compile(r"[.,](?=\d{3}(?:[.,]|$))")
_CITATION = re.compile(r"\[\d{1,3}(?:[,;–-] ?\d{1,3}){0,20}\]")
_POINTER = re.compile(
    r"\b(?:passage|context|document|source|chunk)s? (?:id"
    r" )?#?\d{1,2}\b|(?<!\w)\(?\d\)(?=\s)",
    re.I,
)
_NUMBERING = re.compile(r"^[ \t*#]*\(?\d{1,2}[.)]\*{0,2}(?=\s)", re.MULTILINE)
_GAP = re.compile("(?<=\\d)[ \u00a0\u2009\u202f'’](?=\\d)")
_CENTURIES = ["18", "19", "20"]  # that "the 90s" may be of
_SCALES = {
    "hundred": 2,
    "hundr": 2,
    "thousand": 3,
    "million": 6,
    "mn": 6,
    "billion": 9,
    "bn": 9,
    "trillion": 12,
}
_WRITTEN = re.compile(
    "(\\d{1,3}(?:["
    " \u00a0\u2009\u202f'’]\\d{3})+(?!\\d)(?:[.,]\\d+)?|\\d+(?:[.,]\\d+)*)(?:["
    f" \u00a0-]?({'|'.join(_SCALES)})\\b|(['’]?s)\\b)?"
)
# The end of a span of years, written short: 2018–19. Dates such as 2018-11-05 are left
# alone.
_YEARS = re.compile(r"(?<![\d–—/-])(\d\d)(\d\d)([–—/-])(\d\d)(?![\d–—/-])")


def normalise_number(token: str) -> str:
    """Write a number so that equal numbers are equal texts.

    For example ``"1998"`` for ``"1,998"`` and ``"2.5"`` for ``"02.50"``. As an exception,
    "00" stays as it is.

    Args:
        token: Digits with points and commas between them.
    """
    if not token.isascii():
        token = "".join(
            str(unicodedata.decimal(sign)) if sign.isdecimal() else sign
            for sign in token
        )
    without_groups = _GROUP.sub("", token)  # "1,234.5" without its comma
    number = without_groups.replace(",", ".")
    # "2.5" for "2.50", and "2" for "2.0"; a version such as "1.2.0" stays
    if number.count(".") == 1:
        number = number.rstrip("0").rstrip(".")
    # "7" for "007"; "0.5" and "00" stay
    is_zero = number.strip("0") == ""
    has_one_digit_before_point = number[1:2] == "."
    if is_zero or has_one_digit_before_point:
        return number
    return number.lstrip("0")


def numbers_of(text: str) -> frozenset[str]:
    """Return the numbers of a text, as ``normalise_number`` writes them.

    Every spelling counts: ``2018–19``, ``1 149``, ``53 million``.
    """
    spans = " ".join(_write_years_out(span) for span in _YEARS.finditer(text))
    every_number: set[str] = set()
    for part in (text, spans):
        for written in _WRITTEN.finditer(part):
            every_number.update(*_spellings(written))
    return frozenset(every_number)


def _spellings(written: re.Match[str]) -> list[set[str]]:
    """Return the ways in which a context may write a number of an answer.

    The context bears the number out if it holds all numbers of one way.
    Example: "1 149" may be {"1149"} or {"1", "149"}; "2 million" {"2"} or {"2000000"}.

    Args:
        written: The digits, with gaps between groups, and perhaps a word such as
            "million" behind them.
    """
    digits = written[1]
    scale = written[2]
    # "1 149" may be one number, or two beside each other
    as_one = normalise_number(_GAP.sub("", digits))
    part_by_part = {normalise_number(part) for part in _NUMBER.findall(digits)}
    spellings = [{as_one}, part_by_part]
    # "2 million", not "1.2.3 million", or a hundred digits before it
    can_be_scaled = len(as_one) <= _LONGEST and as_one.count(".") < 2
    if scale and can_be_scaled:
        scaled = Decimal(as_one).scaleb(_SCALES[scale])
        spellings.append({normalise_number(f"{scaled:f}")})
    return spellings


def _numbers_for_decade(written: re.Match[str]) -> set[str]:
    """Return the numbers that stand for a decade in a context: its name and its years.

    Example: an answer says "the 1990s". The contexts say so, too, if they hold "90" (in
    "the 90s") or any year from "1990" to "1999". For "the 90s" the years from "1890" and
    from "2090" on count as well. Empty for a number that is no decade, such as "1990".

    Args:
        written: The number with the groups of ``_WRITTEN``: 1 is the digits, 3 an "s"
            behind them, or None.
    """
    digits = written[1]
    century = digits[:-2]
    tens = digits[-2:]
    is_plural = written[3] is not None
    has_fitting_length = len(century) in (0, 2)  # "90" or "1990"
    is_decade = is_plural and has_fitting_length and tens.endswith("0")
    if not is_decade:
        return set()
    numbers = {tens}
    for possible_century in [century] if century else _CENTURIES:
        for last_digit in range(10):
            numbers.add(f"{possible_century}{tens[0]}{last_digit}")
    return numbers


def numbers_in_words(terms: Iterable[str]) -> Iterator[str]:
    """Yield the numbers that terms of a sentence make together.

    Examples are ``20 1`` (*twenty-one*) and ``2 hundr 50``.
    """
    value = 0
    for term in terms:
        is_small_number = term.isdecimal() and len(term) < 3
        if term in _SCALES:
            value = max(value, 1) * 10 ** _SCALES[term]
        elif is_small_number:
            addend = int(term)
            # "two thousand" goes on with any small number, "twenty" with one digit
            is_tens = value % 10 == 0 and value % 100 > 10
            does_continue = value % 100 == 0 or (is_tens and addend < 10)
            value = value + addend if does_continue else addend
        else:
            value = 0
            continue
        yield str(value)


def _write_years_out(span: re.Match[str]) -> str:
    """Both years of a span, the second one written out."""
    century, begin, dash, end = span.groups()
    if end > begin:
        end = century + end
    return f"{century}{begin}{dash}{end}"


def strip_marks(text: str) -> str:
    """Return the text without citation marks and the numbering of lists.

    Marks such as ``[12]`` and the numbering are no part of what a text says.
    """
    text = _CITATION.sub(" ", text) if "[" in text else text
    return _NUMBERING.sub(" ", text)


def find_unknown_numbers(text: str, known_numbers: AbstractSet[str]) -> dict[str, None]:
    """Find the numbers of a text that are not known in any spelling.

    Numbers that only point (*passage 2*) or number a list are left out.

    Returns:
        The numbers as they are written, as the keys of an ordered mapping.
    """
    without_pointers = _POINTER.sub(" ", strip_marks(text))
    with_years_written_out = _YEARS.sub(_write_years_out, without_pointers)
    unknown: dict[str, None] = {}
    for written in _WRITTEN.finditer(with_years_written_out):
        # known in any spelling, or as a decade
        is_spelt = any(spelling <= known_numbers for spelling in _spellings(written))
        if not is_spelt and known_numbers.isdisjoint(_numbers_for_decade(written)):
            unknown[written[1]] = None
    return unknown
