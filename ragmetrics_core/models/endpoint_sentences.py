"""What messages may repeat of an endpoint's own words: no key, and no word of the sample."""

import re
from html import unescape
from unicodedata import category, combining, normalize
from urllib.parse import unquote

from ragmetrics_core.data import errors, sendable_text
from ragmetrics_core.models.chat import ChatRequest

LEFT_OUT = "…"
"""Stands in an endpoint's sentence for a key or a text of the sample."""
_LONGEST_SENTENCE = 300
_MOST_CODES_OF_CODES = 3
_PRIVATE_RUN = 12
_PRIVATE_RUN_WITHOUT_SPACES = 2
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(/)|[nrtbf])")
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
    re.IGNORECASE,
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

    sentence = sendable_text(_decoded(sentence))
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

    signs = [
        LEFT_OUT if private else sign
        for sign, private in zip(sentence, is_private, strict=True)
    ]
    return re.sub(rf"{LEFT_OUT}(?:\s*{LEFT_OUT})*", LEFT_OUT, "".join(signs))


def _folded(text: str) -> str:
    """Return a text without case and accents."""
    decomposed = normalize("NFKD", text.casefold())
    return "".join(sign for sign in decomposed if not combining(sign)).casefold()


def _decoded(text: str) -> str:
    """Return a text without codes, also codes of codes, and signs that nobody sees."""
    for _ in range(_MOST_CODES_OF_CODES):
        text = unescape(unquote(_without_escapes(text)))
    return "".join(sign for sign in text if category(sign) != "Cf")


def _without_escapes(text: str) -> str:
    """Return a text with the signs that escapes of JSON in it stand for."""

    def sign(escape: re.Match[str]) -> str:
        code = escape[1] or escape[2]
        return chr(int(code, 16)) if code else escape[3] or " "  # an end of a line

    return _ESCAPE.sub(sign, text)


def without_secret(text: str, secret: str) -> str:
    """Return a text without a secret that it repeats, also in codes such as ``%2F``."""
    if not secret:
        return text
    text = decoded = text.replace(secret, LEFT_OUT)
    for _ in range(_MOST_CODES_OF_CODES):
        decoded = unescape(unquote(_without_escapes(decoded)))
        if secret in decoded:
            text = decoded = decoded.replace(secret, LEFT_OUT)
    return text
