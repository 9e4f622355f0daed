"""What messages may repeat of an endpoint's own words: no key, and no word of the sample."""

import re
from base64 import b64encode
from functools import lru_cache
from html import unescape
from unicodedata import category, combining, normalize
from urllib.parse import unquote

from ragmetrics_core.data import errors, sendable_text
from ragmetrics_core.models.chat import ChatRequest

LEFT_OUT = "…"
"""Stands in an endpoint's sentence for a key or a text of the sample."""
_LONGEST_SENTENCE = 300
_MOST_CODES_OF_CODES = 12
_PRIVATE_RUN = 12
_PRIVATE_RUN_WITHOUT_SPACES = 2
# A sign as JSON, Python, an address or HTML writes it, escaped again by JSON or not.
_CODE = re.compile(
    r"[\\%&](?:"  # first, as a search for these signs alone is fast
    # backslashes are looked at from the first of a row, or many would take for ever
    r"""(?<=\\)(?<!\\\\)\\*(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(["'/])|[nrtbf])"""
    r"|(?<=%)([0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*)"
    r"|(?<=&)(\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|\w{1,32});?)"
)
# Signs that no text writes in two ways; of these, in either case, keys are compared.
_NOT_COMPARED = re.compile(r"[^!-*,-\[\]-~]+")
_SHORTEST_SECRET = 8  # a shorter one may be a word
_SHORTEST_WITH_OTHER_SIGNS = 5  # than letters
# The longest text that is kept where it repeats a secret.
_LONGEST_KEPT = 100_000
_WORD = re.compile(r"[^\W_]+")
_LONGEST_WHOLE_WORD = 3  # a longer one is left out where it begins a word of the sample
# A text of the sample in the tag of a prompt, which ends in eight digits.
_TAGGED = re.compile(r"<([\w-]+-[0-9a-f]{8})\b[^>]*>\n(.*?)\n</\1>", re.DOTALL)
# Long, of letters and digits, and no words joined by hyphens, as names of models are;
# letters one by one; or the ends of a key that the endpoint has cut out of the middle.
_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|rk|key|gsk|xai|hf|r8)[-_][\w-]{6,}|\b(?=\w*\d)(?=\w*[A-Za-z])\w{20,}"
    r"|[\w+=]{28,}|(?<!\w)(?:\w[ .*-]+){6,}\w(?!\w)"
    r"|[\w-]*\*{3,}[\w-]*|\bsk\.{3}\w+",
    re.IGNORECASE | re.ASCII,
)
# They tell nothing of a sample that has them, too.
_WORDS_OF_ERRORS = frozenset(
    _WORD.findall(
        """
        a about above access account again all allowed already an and any api are argument as
        at authentication available bad be because been before below between billing blocked
        body budget but by call calls can cannot chat check client code completion completions
        config content context could credits current data day default deployment did disabled
        do does doesn enabled endpoint error exceed exceeded exceeds exist expected expired
        failed feature field filter for forbidden format found from function gateway given has
        have header http id if in include input instead internal invalid is it its json key
        larger least length less level limit limits list load loaded long longer may max
        maximum message messages minimum missing model models more most must name need no not
        null number object of off on one only or organization out output over parameter parse
        payload per permission plan please policy prompt property provided provider quota rate
        reached received region rejected request requests required response retry role roles
        route running schema see send server service set should size some stop string support
        supported supports system temperature template than that the there this time timeout
        to token tokens too tool try type unable unauthorized unavailable unexpected unknown
        unsupported up upgrade upstream usage use used user using valid value values verified
        version wait was we when which window with within without you your
        """
    )
)


def add_sentence(error: errors.JudgeError, request: ChatRequest) -> None:
    """Add the endpoint's own sentence to the message of its error, where it may stand.

    Args:
        error: The error; its ``raw`` is the sentence, and is made public, too.
        request: What was asked.
    """
    if not error.raw or isinstance(error, errors.UnusableReply):
        return
    error.raw = public_sentence(error.raw, request)
    error.args = (f'{error}; it says: "{error.raw}"', *error.args[1:])


def public_sentence(sentence: str, request: ChatRequest) -> str:
    """Return an endpoint's sentence, cut, without keys and words of the sample.

    What is left out is compared without case, accents and codes such as ``%20``,
    ``&#73;`` or JSON's: words, beginnings of words, and runs of twelve letters,
    whatever stands between them. Words of which errors are made may stay. Example: of a
    sample about Ida Voss, 'value "IDA VOSS" is not allowed' becomes 'value "…" is not
    allowed'.

    Args:
        sentence: The sentence.
        request: The request that the endpoint answered with it.
    """
    tagged_texts = [
        match[2]
        for message in request.messages
        for match in _TAGGED.finditer(message.content)
    ]
    sample_texts = tagged_texts + [
        message.content
        for message in request.messages
        # the instructions are ours, but for a prompt of the application
        if not _TAGGED.search(message.content)
        and not (tagged_texts and message.role == "system")
    ]
    words_of_sample = _WORD.findall(_folded(" ".join(sample_texts)))
    sample = f" {' '.join(words_of_sample)} "
    letters_of_sample = "".join(words_of_sample)

    signs_seen = (sign for sign in _decoded(sentence) if category(sign) != "Cf")
    sentence = sendable_text("".join(signs_seen))
    sentence = " ".join(sentence.split())[:_LONGEST_SENTENCE]
    is_private = [False] * len(sentence)
    for match in _WORD.finditer(sentence):
        word = _folded(match[0])
        beginning = f" {word}" if len(word) > _LONGEST_WHOLE_WORD else f" {word} "
        if beginning in sample and word not in _WORDS_OF_ERRORS:
            is_private[match.start() : match.end()] = [True] * len(match[0])
    for match in _LIKE_A_KEY.finditer(sentence):
        is_private[match.start() : match.end()] = [True] * len(match[0])
    # each letter of the sentence, as it is compared, and its place
    letters = [
        (letter, place)
        for place, sign in enumerate(sentence)
        for letter in _folded(sign)
        if letter.isalnum()
    ]
    for start, (letter, place) in enumerate(letters):
        # of scripts without spaces two letters are a word
        length = _PRIVATE_RUN_WITHOUT_SPACES if letter >= "\u3040" else _PRIVATE_RUN
        run = letters[start : start + length]
        is_run = len(run) == length
        if is_run and "".join(each for each, _ in run) in letters_of_sample:
            end = run[-1][1] + 1
            is_private[place:end] = [True] * (end - place)

    return _left_out(sentence, is_private)


def _folded(text: str) -> str:
    """Return a text without case and accents."""
    decomposed = normalize("NFKD", text.casefold())
    return "".join(sign for sign in decomposed if not combining(sign)).casefold()


def _decoded(text: str) -> str:
    """Return a text without codes, also codes of codes."""
    for _ in range(_MOST_CODES_OF_CODES):
        before, text = text, _CODE.sub(_signs_of, text)
        if text == before:
            break
    return text


def _signs_of(code: re.Match[str]) -> str:
    """Return the signs that a code stands for: of ``%41`` and ``&#65;`` it is "A"."""
    number = code[1] or code[2]
    if number:
        return chr(int(number, 16))
    if code[4]:
        return unquote(code[0])
    return unescape(code[0]) if code[5] else code[3] or " "  # an end of a line


def leave_secret_out(error: errors.JudgeError, secret: str) -> None:
    """Leave a secret out of an error and the endpoint's sentence in it."""
    error.args = (without_secret(str(error), secret), *error.args[1:])
    error.raw = without_secret(error.raw, secret)


def without_secret(text: str, secret: str) -> str:
    """Return a text without a secret that it repeats, whole or in part.

    Runs of twelve signs are left out, in whatever case and codes they are written:
    those of JSON, HTML and addresses, codes of codes, and Base64, in which a header
    carries a user with a key. Example: of ``the key a%2Fb-7Hd82 is bad`` and ``a/b-7Hd82`` it is
    "the key … is bad". A short word, such as "EMPTY", is no secret.
    """
    shortest = _SHORTEST_SECRET if secret.isalpha() else _SHORTEST_WITH_OTHER_SIGNS
    if len(secret) < shortest:
        return text
    text = text.replace(secret, LEFT_OUT)
    compared = _compared(_decoded(text))
    if not any(_runs(compared, form) for form in _forms(secret)):
        return text
    if len(text) > _LONGEST_KEPT:
        return LEFT_OUT
    signs = [sign for sign in _placed_signs(text) if _compared(sign[0])]
    is_private = [False] * len(text)
    for form in _forms(secret):
        for start, end in _runs(compared, form):
            place, end_place = signs[start][1], signs[end - 1][2]
            is_private[place:end_place] = [True] * (end_place - place)
    return _left_out(text, is_private)


def _compared(text: str) -> str:
    """Return the signs of a text of which keys are compared, in small letters."""
    return _NOT_COMPARED.sub("", text).lower()  # all are ASCII: as many


@lru_cache(maxsize=16)
def _forms(secret: str) -> tuple[str, ...]:
    """Return a secret as it is compared, and in Base64 behind any user's name."""
    forms = [secret, _decoded(secret)]  # codes in capitals are none
    for n_before in range(3):  # Base64 writes three bytes in four signs
        written = b64encode(bytes(n_before) + secret.encode()).decode()
        n_whole = 8 * (n_before + len(secret.encode())) // 6
        form = written[(0, 2, 3)[n_before] : n_whole]
        forms += [form, form.replace("+", "-").replace("/", "_")]
    compared = dict.fromkeys(map(_compared, forms))
    return tuple(form for form in compared if len(form) >= _SHORTEST_WITH_OTHER_SIGNS)


def _runs(text: str, form: str) -> list[tuple[int, int]]:
    """Return where runs of a form stand in a text: the start and end of each."""
    length = min(_PRIVATE_RUN, len(form))
    half = length // 2
    # every run holds one of these whole
    pieces = (form[at : at + half] for at in range(0, len(form) - half + 1, half))
    if not any(piece in text for piece in pieces):
        return []
    starts = range(len(text) - length + 1)
    return [
        (start, start + length)
        for start in starts
        if text[start : start + length] in form
    ]


def _placed_signs(text: str) -> list[tuple[str, int, int]]:
    """Return each sign of the decoded text, and where in the text it is written."""
    signs = [(sign, place, place + 1) for place, sign in enumerate(text)]
    for _ in range(_MOST_CODES_OF_CODES):
        decoded: list[tuple[str, int, int]] = []
        end = 0
        for code in _CODE.finditer("".join(sign for sign, _, _ in signs)):
            decoded += signs[end : code.start()]
            end = code.end()
            span = signs[code.start()][1], signs[end - 1][2]
            decoded += [(sign, *span) for sign in _signs_of(code)]
        signs = decoded + signs[end:]
    return signs


def _left_out(text: str, is_private: list[bool]) -> str:
    """Return a text with one mark in place of each run of private signs."""
    signs = [
        LEFT_OUT if private else sign
        for sign, private in zip(text, is_private, strict=True)
    ]
    return re.sub(rf"{LEFT_OUT}(?:\s*{LEFT_OUT})*", LEFT_OUT, "".join(signs))
