"""Texts as sets of terms.

Terms are words without inflection, character pairs and numbers. Texts are split into
sentences, too.

Everything here is linear in the length of the text and safe for any string: NUL, lone
surrogates, texts without spaces or without a single word.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from ragmetrics_core.lexical.numerals import number, numbers, spelt, unmarked
from ragmetrics_core.models.threads import check_wanted

_FUNCTION_WORDS = """
    a about above after again all also although am an and any are as at be because been before being below
    between both but by can cannot could did do does doing down during each either for from further had has have
    having he her here hers him his how however i if in into is it its itself just may me might more most must
    my no nor not of off on once only or other our out over own same shall she should so some such than that the
    their them then there these they this those through to too under until up upon very was we were what when
    where which while who whom whose why will with within would yes you your
"""
# English alone; no other language has a list
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())

_LONGEST_CACHED_WORD = 40
_LONGEST_CACHED_TEXT = 8_000

# Scripts written without spaces (or, for Korean, with particles glued on) are read as
# pairs of characters.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Vowel signs and accents that regular expressions do not count as part of a word.
_MARKS = "\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0971-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)*|[\w{_MARKS}]+(?:['’][\w{_MARKS}]+)*")
_PIECE = re.compile(rf"\d+|[{_DENSE}]+|[^\d{_DENSE}]+")

_WORD = "[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][\\w’'.-]*"
_NAME = re.compile(
    rf"(?:(?<=[\w,;:)\"'’”] )[\"'“(]?{_WORD}|^[\"'“(]?{_WORD} {_WORD})(?: {_WORD})*"
)
_NEGATIONS = (
    r"\b(?:not(?! only\b| just\b)|never|cannot|no|without|neither|nor|unable"
    r" to|fail(?:s|ed)? to)|n['’]t"
)
_NEGATION = re.compile(rf"(?:{_NEGATIONS})\b((?:[^\w.!?]+\w+){{1,4}})", re.IGNORECASE)

_UNITS = "zero one two three four five six seven eight nine"
_TEENS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
_NUMERALS = {word: str(10 * value) for value, word in enumerate(_TENS.split(), 1)}
_NUMERALS |= {
    word: str(value) for value, word in enumerate(f"{_UNITS} {_TEENS}".split())
}
_NUMERALS |= {word: str(value) for value, word in enumerate(_ORDINALS.split(), 1)}

LONGEST_SENTENCE = 1000
"""Most characters of a sentence; a longer one is cut at white space.

So the work per sentence is bounded.
"""

_BREAK = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？｡।]+[」』”]*|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Prof|Jr|Sr|vs|No|Inc|Ltd|Co|approx|etc)\.$|(?m:^)["
    r" \t]*\d{1,2}\.$"
)
_VERB = "is|are|was|were|has|have|had|can|could|will|would|did|does"
_CLAUSE = re.compile(
    rf"; |,? (?:and|but|while|whereas|although) (?=(?:\w+ ){{1,4}}(?:{_VERB})\b)"
)


@dataclass(frozen=True, slots=True, repr=False)
class Sentence:
    """A sentence as it stands in the text, and its content terms in order."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Passage:
    """A text, taken apart.

    Args:
        sentences: Its sentences in order, without those that hold no content term.
        terms: Every content term.
        bigrams: Every pair of neighbouring content terms of a sentence.
        beginnings: The first four letters of every term that is no number.
        numbers: Every number, written as ``number`` returns it, those in English words
            included.
    """

    sentences: tuple[Sentence, ...]
    terms: frozenset[str]
    bigrams: frozenset[tuple[str, str]]
    beginnings: frozenset[str]
    numbers: frozenset[str]


def read(text: str) -> Passage:
    """Take a text apart; short texts are remembered.

    Returns:
        Its sentences, terms, bigrams and numbers.
    """
    return _read(text) if len(text) <= _LONGEST_CACHED_TEXT else _read.__wrapped__(text)


@lru_cache(maxsize=256)
def _read(text: str) -> Passage:
    parts = (
        (sentence, _content_if_wanted(sentence)) for sentence in split_sentences(text)
    )
    sentences = tuple(Sentence(sentence, found) for sentence, found in parts if found)
    terms = frozenset(chain.from_iterable(sentence.terms for sentence in sentences))
    bigrams = frozenset(
        chain.from_iterable(pairwise(sentence.terms) for sentence in sentences)
    )
    spelt_out = {number for sentence in sentences for number in spelt(sentence.terms)}
    beginnings = frozenset(beginning(term) for term in terms if not term[0].isdecimal())
    return Passage(sentences, terms, bigrams, beginnings, numbers(text) | spelt_out)


def _content_if_wanted(sentence: str) -> tuple[str, ...]:
    check_wanted()
    return content(sentence)


def beginning(term: str) -> str:
    """Return the part of a term that its relatives share.

    An example is the part that *presence* and *presenting* share.
    """
    return term[:4]


def content(text: str) -> tuple[str, ...]:
    """Return the content terms of a text in order.

    Function words are left out, and so are inflection, case and accents.

    Returns:
        Terms with repetitions; () if there are only function words, signs or nothing.

    Examples:
        >>> content("The cities of France, in 1,998")
        ('city', 'franc', '1998')
    """
    return tuple(chain.from_iterable(map(_terms_of, _TOKEN.findall(unmarked(text)))))


def _terms_of(token: str) -> tuple[str, ...]:
    """Return the terms of one token.

    A function word has none. A token of a script without spaces has several.
    """
    if token[0].isdecimal():  # numbers seldom come again, and need no memory
        return (number(token),)
    return (
        _terms_of_word(token)
        if len(token) <= _LONGEST_CACHED_WORD
        else _terms_of_word.__wrapped__(token)
    )


@lru_cache(maxsize=16_384)
def _terms_of_word(token: str) -> tuple[str, ...]:
    word = token.lower() if token.isascii() else _fold(token)
    for ending in ("'s", "’s"):
        word = word.removesuffix(ending)
    word = word.strip("_")
    if not word or word in _STOP_WORDS or (len(word) == 1 and word.isascii()):
        return ()
    if word.isascii():
        return (_stem_english(word),)
    return tuple(
        term for piece in _PIECE.findall(word) for term in _pairs_or_stem(piece)
    )


def _pairs_or_stem(piece: str) -> Iterator[str]:
    if not re.match(f"[{_DENSE}]", piece):
        yield _stem_english(piece) if piece.isascii() else _stem_other(piece)
    elif len(piece) == 1:
        yield piece
    else:
        yield from map("".join, pairwise(piece))


def names(text: str) -> list[frozenset[str]]:
    """Return the terms of each name of a sentence.

    A name is words with capitals; at the start of the sentence only if there are
    several.
    """
    return [
        terms for name in _NAME.findall(text) if (terms := frozenset(content(name)))
    ]


def negated(text: str) -> frozenset[str]:
    """The first content term after each English negation of a sentence."""
    return frozenset(
        term for after in _NEGATION.findall(text) for term in content(after)[:1]
    )


def words(text: str, terms: frozenset[str]) -> tuple[str, ...]:
    """Words of a text with one of these terms, each once and in order.

    For scripts without spaces the terms.
    """
    found: dict[str, None] = {}
    for token in _TOKEN.findall(text):
        own = _terms_of(token)
        hits = [term for term in own if term in terms]
        found.update(dict.fromkeys(hits if len(own) > 1 else [token] if hits else []))
    return tuple(found)


def holds(text: str, wording: str) -> bool:
    """Does a text hold a wording without content terms word for word?

    A blank one is found nowhere.
    """
    if not _fold(wording).strip():  # nothing but marks that folding drops
        return bool(wording.strip()) and wording.strip() in text
    text, wording = _fold(text), _fold(wording)
    sought = _TOKEN.findall(wording)
    if sought:
        return f" {' '.join(sought)} " in f" {' '.join(_TOKEN.findall(text))} "
    return " ".join(wording.split()) in " ".join(text.split())


def _fold(text: str) -> str:
    """Text without case, compatibility forms and accents."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", re.sub("[\u0300-\u036f]", "", parts))


def _stem_english(word: str) -> str:
    """Strip plural, tense and adverb endings, so that forms of one word meet.

    A numeral becomes its digits.
    """
    if word in _NUMERALS:
        return _NUMERALS[word]
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y" if len(word) > 4 else word[:-1]
        return _NUMERALS.get(word, word)
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, shortest in (("ing", 6), ("ed", 5), ("ly", 6)):
        if word.endswith(ending) and len(word) >= shortest:
            word = word.removesuffix(ending)
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _stem_other(word: str) -> str:
    """Strip the final vowels of Cyrillic and Greek words.

    Most case endings begin there.
    """
    if len(word) < 5 or word.isdecimal():
        return word
    stem = re.sub("[аеиоуыэюяьйіїє]{1,3}$|[αεηιουω]{1,3}[σν]?$", "", word)
    return stem if len(stem) >= 3 else word


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in order, none longer than ``LONGEST_SENTENCE``.

    Returns:
        Sentences without surrounding white space; [] for a blank text.
    """
    sentences: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        if found[0] == "." and _ABBREVIATION.search(
            text, max(start, found.end() - 12), found.end()
        ):
            continue
        sentences += _cut(text[start : found.end()])
        start = found.end()
    return [sentence for sentence in (*sentences, *_cut(text[start:])) if sentence]


def _cut(sentence: str) -> Iterator[str]:
    """Cut a text without sentence ends at white space, or where it must be.

    Pieces may be empty.
    """
    sentence, start = sentence.strip(), 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start + 1, start + LONGEST_SENTENCE)
        end = end if end > start else start + LONGEST_SENTENCE
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()


def split_clauses(sentence: str) -> list[str]:
    """Clauses of a sentence in order.

    A piece of fewer than three words stays with its neighbour.
    """
    clauses: list[str] = []
    for piece in _CLAUSE.split(sentence):
        if clauses and min(len(piece.split()), len(clauses[-1].split())) < 3:
            clauses[-1] = f"{clauses[-1]} {piece.strip()}"
        elif piece.strip():
            clauses.append(piece.strip())
    return clauses
