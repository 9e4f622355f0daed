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

from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.numerals import number, numbers, spelt, unmarked
from ragmetrics_core.models.threads import check_wanted

_STOP_WORD_LIST = """
    a about above after again all also although am an and any are as at be because been before being below
    between both but by can cannot could did do does doing down during each either for from further had has have
    having he her here hers him his how however i if in into is it its itself just may me might more most must
    my no nor not of off on once only or other our out over own same shall she should so some such than that the
    their them then there these they this those through to too under until up upon very was we were what when
    where which while who whom whose why will with within would yes you your
"""
# English alone; no other language has a list
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())

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

_VERB = "is|are|was|were|has|have|had|can|could|will|would|did|does"
_SHORTEST_CLAUSE = 3  # words
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


def parse(text: str) -> Passage:
    """Take a text apart; short texts are remembered.

    Returns:
        Its sentences, terms, bigrams and numbers.
    """
    return (
        _parse(text) if len(text) <= _LONGEST_CACHED_TEXT else _parse.__wrapped__(text)
    )


@lru_cache(maxsize=256)
def _parse(text: str) -> Passage:
    sentences: list[Sentence] = []
    for sentence in split_sentences(text):
        check_wanted()
        terms = content(sentence)
        if terms:
            sentences.append(Sentence(sentence, terms))
    all_terms: set[str] = set()
    bigrams: set[tuple[str, str]] = set()
    every_number = set(numbers(text))
    for taken_apart in sentences:
        all_terms.update(taken_apart.terms)
        bigrams.update(pairwise(taken_apart.terms))
        every_number.update(spelt(taken_apart.terms))
    words_alone = [term for term in all_terms if not term[0].isdecimal()]
    return Passage(
        sentences=tuple(sentences),
        terms=frozenset(all_terms),
        bigrams=frozenset(bigrams),
        beginnings=frozenset(beginning(word) for word in words_alone),
        numbers=frozenset(every_number),
    )


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
    if len(token) > _LONGEST_CACHED_WORD:
        return _terms_of_word.__wrapped__(token)
    return _terms_of_word(token)


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
    terms_by_name = [frozenset(content(name)) for name in _NAME.findall(text)]
    return [terms for terms in terms_by_name if terms]


def negated(text: str) -> frozenset[str]:
    """The first content term after each English negation of a sentence."""
    terms_behind = [content(behind) for behind in _NEGATION.findall(text)]
    return frozenset(terms[0] for terms in terms_behind if terms)


def words(text: str, terms: frozenset[str]) -> tuple[str, ...]:
    """Words of a text with one of these terms, each once and in order.

    For scripts without spaces the terms.
    """
    words_with_terms: dict[str, None] = {}
    for token in _TOKEN.findall(text):
        token_terms = _terms_of(token)
        hits = [term for term in token_terms if term in terms]
        if len(token_terms) > 1:  # of a script without spaces
            words_with_terms.update(dict.fromkeys(hits))
        elif hits:
            words_with_terms[token] = None
    return tuple(words_with_terms)


def holds(text: str, wording: str) -> bool:
    """Does a text hold a wording without content terms word for word?

    A blank one is found nowhere.
    """
    folded_wording = _fold(wording)
    if not folded_wording.strip():  # nothing but marks that folding drops
        return bool(wording.strip()) and wording.strip() in text
    folded_text = _fold(text)
    tokens = _TOKEN.findall(folded_wording)
    if tokens:
        text_tokens = _TOKEN.findall(folded_text)
        return f" {' '.join(tokens)} " in f" {' '.join(text_tokens)} "
    return " ".join(folded_wording.split()) in " ".join(folded_text.split())


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
        singular = word[:-3] + "y" if len(word) > 4 else word[:-1]
        return _NUMERALS.get(singular, singular)
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    word = _without_verb_ending(word)
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _without_verb_ending(word: str) -> str:
    """Strip *ing*, *ed* or *ly*, and the doubled consonant before it."""
    for ending, shortest in (("ing", 6), ("ed", 5), ("ly", 6)):
        if not word.endswith(ending) or len(word) < shortest:
            continue
        stem = word.removesuffix(ending)
        is_doubled = stem[-2] == stem[-1]
        if len(stem) > 3 and is_doubled and stem[-1] not in "aeiouls":
            return stem[:-1]
        return stem
    return word


def _stem_other(word: str) -> str:
    """Strip the final vowels of Cyrillic and Greek words.

    Most case endings begin there.
    """
    if len(word) < 5 or word.isdecimal():
        return word
    stem = re.sub("[аеиоуыэюяьйіїє]{1,3}$|[αεηιουω]{1,3}[σν]?$", "", word)
    return stem if len(stem) >= 3 else word


def split_clauses(sentence: str) -> list[str]:
    """Clauses of a sentence in order.

    A piece of fewer than three words stays with its neighbour.
    """
    clauses: list[str] = []
    for piece in _CLAUSE.split(sentence):
        clause = piece.strip()
        if clauses and (_is_short(clause) or _is_short(clauses[-1])):
            clauses[-1] = f"{clauses[-1]} {clause}"
        elif clause:
            clauses.append(clause)
    return clauses


def _is_short(clause: str) -> bool:
    return len(clause.split()) < _SHORTEST_CLAUSE
