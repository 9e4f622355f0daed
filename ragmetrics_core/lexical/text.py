"""Texts as sets of terms.

Terms are words without inflection, single characters of scripts without spaces, and
numbers. Texts are split into sentences, too, and are told to be in English or not.

Everything here is linear in the length of the text and safe for any string: NUL, lone
surrogates, texts without spaces or without a single word.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.numerals import (
    normalise_number,
    numbers_in_words,
    numbers_of,
    strip_marks,
)

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

# What tells English from other languages that are written in Latin letters
_ENGLISH_ALONE_LIST = """
    about after all also and any are as be because been before being between both but by can could did does each
    from had has have how if into it its many more most not of only or other our out should some such than that
    the their them then there these they this those through to up was were what when where which while who why
    with would you your she her
"""
# "in" is German and "is" Dutch, too; "a", "me" and "no" say nothing
_ENGLISH_AMONG_OTHERS_LIST = "an at for his in is just may my on over us we will him"
_ENGLISH_ALONE = frozenset(_ENGLISH_ALONE_LIST.split())
_ENGLISH = _ENGLISH_ALONE.union(_ENGLISH_AMONG_OTHERS_LIST.split())
_LEAST_ENGLISH_ALONE, _LEAST_ENGLISH = 0.13, 0.18
"""Shares of the different words; English texts have .3.

Below both are 1 of 1,273 labelled English rows by what was asked, answered and expected
(11 with a context, of links or code), and of messages of programs with twelve words or
more 95 % of the French and Spanish, 77 % of the German ones. Rows hold more words.
"""
_FEWEST_WORDS = 12  # different ones: fewer tell no language
_FEWEST_OF_ALL = 4  # and fewer than these tell none, though not one is English
_READ_FOR_LANGUAGE = 2_000  # characters
_LETTER = re.compile(r"[^\W\d_]")
# neither Latin nor a sign of mathematics
_OTHER_SCRIPT = re.compile(
    "[^\\W\\d_A-Za-z\u00aa-\u036f\u1d00-\u1eff\u2070-\u218f\u2c60-\u2c7f\ua720-\ua7ff"
    "\uab30-\uab6f\ufb00-\ufb06\uff21-\uff5a\U0001d400-\U0001d7ff]"
)
# beside no sign of code, addresses or names
_SMALL_WORD = re.compile(
    r"(?<![\w'’./@-])[^\W\d_A-ZÀ-ÖØ-Þ][^\W\d_]*(?:['’][^\W\d_]+)*(?![\w/@])"
)
# between spaces and the signs of a sentence, not of code
_PLAIN_WORD = re.compile(
    r"(?:(?<=[\s(“„«‘’'\"—–])|^)[^\W\d_]+(?:['’][^\W\d_]+)*"
    r"(?=[\s,;.!?:)”“»’\"]|$)(?![:\"'=.(]\S)"
)
# soft hyphens, joiners and marks of direction
_UNSEEN = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufe00-\ufe0f]"
)
# a hyphen at a line's end inside a word
_DIVISION = re.compile(
    "[-\u2010](?<=[^\\W\\d_].)[ \\t]*\\r?\\n[ \\t]*(?=[^\\W\\d_A-Z])"
)

_LONGEST_CACHED_WORD = 40
_LONGEST_CACHED_TEXT = 8_000

# Scripts written without spaces (or, for Korean, with particles glued on) are read
# character by character.
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
_NUMERALS: dict[str, str] = {}
for _tens, _numeral in enumerate(_TENS.split(), 1):
    _NUMERALS[_numeral] = str(10 * _tens)
for _value, _numeral in enumerate(f"{_UNITS} {_TEENS}".split()):
    _NUMERALS[_numeral] = str(_value)
for _value, _numeral in enumerate(_ORDINALS.split(), 1):
    _NUMERALS[_numeral] = str(_value)

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
        sentences: Its sentences in order. A sentence without content terms is left out.
        terms: Every content term.
        bigrams: Every pair of neighbouring content terms of a sentence.
        first_four_letters_of_words: Those of every term that is no number.
        numbers: Every number, written as ``normalise_number`` returns it, those in English words
            included.
    """

    sentences: tuple[Sentence, ...]
    terms: frozenset[str]
    bigrams: frozenset[tuple[str, str]]
    first_four_letters_of_words: frozenset[str]
    numbers: frozenset[str]


def parse(text: str) -> Passage:
    """Take a text apart; short texts are remembered.

    Returns:
        Its sentences, terms, bigrams and numbers.
    """
    if len(text) > _LONGEST_CACHED_TEXT:
        return _parse.__wrapped__(text)
    return _parse(text)


@lru_cache(maxsize=256)
def _parse(text: str) -> Passage:
    """Take a text apart into sentences, terms, bigrams and numbers.

    A **term** is the stem of a word that carries a meaning; a **bigram** is two terms
    one after the other in a sentence. "Anna lit lamps." has the terms "anna", "lit" and
    "lamp", and two bigrams. A sentence without terms is left out.
    """
    sentences: list[Sentence] = []
    all_terms: set[str] = set()
    bigrams: set[tuple[str, str]] = set()
    every_number = set(numbers_of(text))
    for sentence in split_sentences(text):
        terms = content_terms(sentence)
        if terms:
            sentences.append(Sentence(sentence, terms))
            all_terms.update(terms)
            bigrams.update(pairwise(terms))
            every_number.update(numbers_in_words(terms))
    words = [term for term in all_terms if not term[0].isdecimal()]
    return Passage(
        sentences=tuple(sentences),
        terms=frozenset(all_terms),
        bigrams=frozenset(bigrams),
        # "pres" of "presence": related words, such as "presenting", begin alike
        first_four_letters_of_words=frozenset(map(first_four_letters, words)),
        numbers=frozenset(every_number),
    )


def first_four_letters(term: str) -> str:
    """Return the part of a term that its relatives share.

    An example is the part that *presence* and *presenting* share.
    """
    return term[:4]


def content_terms(text: str) -> tuple[str, ...]:
    """Return the content terms of a text in order.

    Function words are left out, and so are inflection, case and accents.

    Returns:
        Terms with repetitions; () if there are only function words, signs or nothing.

    Examples:
        >>> content_terms("The cities of France, in 1,998")
        ('city', 'franc', '1998')
    """
    tokens = _TOKEN.findall(strip_marks(text))
    return tuple(chain.from_iterable(map(_terms_of, tokens)))


def canonical_words(text: str) -> tuple[str, ...]:
    """Return all words of a text in order, function words and negations included.

    Case, accents, citation marks and the spelling of numbers do not count.

    Examples:
        >>> canonical_words("It didn't open in 1,998, but three years later [2].")
        ('it', 'did', 'not', 'open', 'in', '1998', 'but', '3', 'years', 'later')
    """
    words: list[str] = []
    for token in _TOKEN.findall(strip_marks(plain_text(text))):
        if token[0].isdecimal():
            words.append(normalise_number(token))
            continue
        word = _fold(token).replace("’", "'")
        if word.endswith("n't"):
            words += [word.removesuffix("n't"), "not"]
        elif word.isascii():
            words.append(_NUMERALS.get(word, word))
        else:
            for piece in _PIECE.findall(word):
                # a script without spaces is read sign by sign
                words += piece if re.match(f"[{_DENSE}]", piece) else [piece]
    return tuple(words)


def _terms_of(token: str) -> tuple[str, ...]:
    """Return the terms of one token.

    A function word has none. A token of a script without spaces has several.
    """
    if token[0].isdecimal():  # numbers seldom come again, and need no memory
        return (normalise_number(token),)
    if len(token) > _LONGEST_CACHED_WORD:
        return _terms_of_word.__wrapped__(token)
    return _terms_of_word(token)


@lru_cache(maxsize=16_384)
def _terms_of_word(token: str) -> tuple[str, ...]:
    """Return the terms of a word: its stem, or none if it is a function word.

    "lamps" has the term "lamp". "the" has none, nor has a single letter or digit. A
    word of a script without spaces, such as Chinese, has one term for each character.
    """
    word = token.lower() if token.isascii() else _fold(token)
    for ending in ("'s", "’s"):
        word = word.removesuffix(ending)
    word = word.strip("_")
    if not word or word in _STOP_WORDS:
        return ()
    if word.isascii():
        is_letter = len(word) == 1  # or a digit
        return () if is_letter else (_stem_english(word),)
    terms: list[str] = []
    for piece in _PIECE.findall(word):
        if re.match(f"[{_DENSE}]", piece):
            terms += piece
        else:
            terms.append(_stem_english(piece) if piece.isascii() else piece)
    return tuple(terms)


@lru_cache(maxsize=256)
def is_english(text: str, *, is_all: bool = False) -> bool | None:
    """Whether a text is in English; None for a short one, or a list of names.

    It is not if most of its letters are of another script, or if its words in small
    letters hold too few of those that every English text has. A name or number alone
    tells no language. ``is_all`` says that there is no other text: then a short one is
    not in English if it has not one of those words.

    Examples:
        >>> is_english("Die Lampe wurde von Anna angezündet, wie alle wissen, und sie brannte die ganze lange Nacht.")
        False
        >>> is_english("Anna lit the lamp in 1901, as all of those who saw it from their boats know.")
        True
        >>> is_english("Kiel") is None
        True
        >>> is_english("El envío cuesta cinco euros.", is_all=True)
        False
    """
    start = text[:_READ_FOR_LANGUAGE]
    n_of_other_script = len(_OTHER_SCRIPT.findall(start))
    if n_of_other_script > 1 and 2 * n_of_other_script > len(_LETTER.findall(start)):
        return False
    # a name, which begins with a capital letter, tells nothing
    small_words = set(_SMALL_WORD.findall(start))
    is_short = len(small_words) < _FEWEST_WORDS
    if is_short and not (is_all and len(small_words) >= _FEWEST_OF_ALL):
        return None
    # one more, so that a few words decide nothing
    n_english_alone = 1 + len(small_words & _ENGLISH_ALONE)
    if not is_short and n_english_alone >= _LEAST_ENGLISH_ALONE * len(small_words):
        return True
    words = {word.lower() for word in _PLAIN_WORD.findall(start)}
    if is_short:
        return False if words.isdisjoint(_ENGLISH) else None
    n_english = 1 + len(words & _ENGLISH)
    return n_english >= _LEAST_ENGLISH * len(words)


def plain_text(text: str) -> str:
    r"""The text without signs that nobody sees, and words whole that a line divides.

    Examples:
        >>> plain_text("The light\u00adhouse burned in the win-\nter.")
        'The lighthouse burned in the winter.'
    """
    return _UNSEEN.sub("", _DIVISION.sub("", text))


def terms_of_names(text: str) -> list[frozenset[str]]:
    """Return the terms of each name of a sentence.

    A name is words with capitals; at the start of the sentence only if there are
    several.
    """
    terms_by_name: list[frozenset[str]] = []
    for name in _NAME.findall(text):
        terms = frozenset(content_terms(name))
        if terms:
            terms_by_name.append(terms)
    return terms_by_name


def negated_terms(text: str) -> frozenset[str]:
    """The first content term after each English negation of a sentence."""
    negated_terms: set[str] = set()
    for words_behind in _NEGATION.findall(text):
        terms = content_terms(words_behind)
        negated_terms.update(terms[:1])
    return frozenset(negated_terms)


def words_with_terms(text: str, terms: frozenset[str]) -> tuple[str, ...]:
    """Find the words of a text that have one of these terms, each once and in order.

    In scripts without spaces, such as Chinese, the terms stand for the words.
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


def holds_wording(text: str, wording: str) -> bool:
    """Whether a text holds a short wording word for word, such as "It is so".

    Case and accents do not count. A blank wording is found nowhere.
    """
    folded_text = _fold(text)
    folded_wording = _fold(wording)
    is_accents_or_blank = not folded_wording.strip()
    if is_accents_or_blank:
        accents = wording.strip()
        return accents != "" and accents in text
    wording_tokens = _TOKEN.findall(folded_wording)
    if wording_tokens:
        # as whole words: "it is" is not in "split issue"
        words_of_wording = f" {' '.join(wording_tokens)} "
        words_of_text = f" {' '.join(_TOKEN.findall(folded_text))} "
        return words_of_wording in words_of_text
    # such as "??"
    return " ".join(folded_wording.split()) in " ".join(folded_text.split())


def _fold(text: str) -> str:
    """Text without case, compatibility forms and accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    without_accents = re.sub("[\u0300-\u036f]", "", decomposed)
    return unicodedata.normalize("NFKC", without_accents)


def _stem_english(word: str) -> str:
    """Strip the endings of plural (s), tense (ing, ed) and adverb (ly) from a word.

    Examples: "cities" becomes "city", "walked" "walk", "quickly" "quick". A numeral
    becomes its digits: "3" for "three".
    """
    if word in _NUMERALS:
        return _NUMERALS[word]
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies"):
        # "tie" for "ties", and "city" for "cities"
        is_short = len(word) == 4
        singular = word[:-1] if is_short else f"{word[:-3]}y"
        return _NUMERALS.get(singular, singular)
    is_plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    if is_plural:
        word = word[:-1]
    for ending, shortest in (("ing", 6), ("ed", 5), ("ly", 6)):
        if word.endswith(ending) and len(word) >= shortest:
            word = word.removesuffix(ending)
            is_doubled = word[-2] == word[-1]
            if len(word) > 3 and is_doubled and word[-1] not in "aeiouls":
                word = word[:-1]
            break
    if len(word) > 4:
        word = word.removesuffix("e")
    return word


def split_clauses(sentence: str) -> list[str]:
    """Split a sentence into its clauses.

    A piece of fewer than three words stays with its neighbour.
    """
    clauses: list[str] = []
    for piece in _CLAUSE.split(sentence):
        clause = piece.strip()
        previous = clauses[-1] if clauses else ""
        n_words = min(len(clause.split()), len(previous.split()))
        if clauses and n_words < _SHORTEST_CLAUSE:
            clauses[-1] = f"{previous} {clause}"
        elif clause:
            clauses.append(clause)
    return clauses
