"""Which samples of a run belong together, by a key of the sample or its metadata."""

import json
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from unicodedata import normalize

from pydantic import BaseModel

from ragmetrics_core.data import (
    Sample,
    SampleResult,
    SettingError,
    did_you_mean,
    follow_path,
    names_in_words,
    plain_name,
)
from ragmetrics_core.data.cells import conversation_in
from ragmetrics_core.data.sample import why_contexts_are_unknown
from ragmetrics_core.data.scalars import is_present, number_as_text

GroupBy = str | None
"""What tells which samples belong together.

It is a name or dotted path of the sample or its metadata, ``"auto"``, or None for samples
that are independent.
"""

_LEDGER = "ledger.conversation"
_NAMES_OF_DOCUMENTS = {"documentid": "document_id", "sourcedocument": "source_document"}

# what gives a sample's text as the key of its group; no list makes a slice anyway
_TEXTS = frozenset(("question", "standalone_question", "answer", "error", "auto"))
# of metadata, kept and listed while a key is looked for
_MOST_NAMES, _SHOWN_NAMES = 1000, 20


def group_of(sample: Sample | None, by: GroupBy) -> str | None:
    """Return the key of the group that a sample belongs to, as a text.

    Samples are in one group exactly if their keys are equal. None for a sample without
    a key, which stands alone. The number 1 and the text "1" are one key; 1 and True are
    two. Example: by "metadata.user.id", {"user": {"id": 7}} gives "7".

    Args:
        sample: The sample; None for a row that is none.
        by: A name or dotted path (``"conversation_id"``, ``"metadata.user.id"``);
            None for no groups; or ``"auto"`` for the conversation, else the source
            document, else the question. A name is looked up in the metadata first, then among the fields of
            the sample, or for ``"conversation"`` in its ledger.

    Raises:
        SettingError: If ``by`` is empty.
    """
    if by is None or sample is None:
        return None
    if by == "auto":  # the key as "name=key"
        named_conversation = conversation_in(sample.metadata)
        if named_conversation is not None:
            return f"{named_conversation.name}={_key(named_conversation.value)}"
        conversation_key = _key(_conversation_in_ledger(sample))
        if conversation_key is not None:
            return f"{_LEDGER}={conversation_key}"
        return _document_group(sample.metadata) or _question_group(sample)
    if not by:
        raise SettingError('cluster= takes a name, a path, "auto" or None; got ""')
    return _key(_value_at(sample, by))


def _value_at(sample: Sample, path: str) -> object:
    """Return what the metadata or a field of a sample hold at a path; None for nothing."""
    # the path may begin at the metadata's own name, or at a flattened column of it
    is_there, value = follow_path(sample.metadata, path.split("."))
    if not is_there:
        names = path.removeprefix("metadata.").split(".")
        _, value = follow_path(sample.metadata, names)
    if value is None and path == "conversation":
        return _conversation_in_ledger(sample)
    if value is None and path in Sample.model_fields:
        return getattr(sample, path)
    return value


def _conversation_in_ledger(sample: Sample) -> str | None:
    """The conversation that an adapter recorded; None if it recorded none."""
    return None if sample.ledger is None else sample.ledger.conversation


def _question_group(sample: Sample) -> str | None:
    """Return what was asked, with the expected answer, as "question=key", or None.

    Rows that share these are no new evidence: copies, or one question asked again. Rows
    without a question are copies where all their texts are equal.
    """
    asked = _asked(sample)
    return f"question={_key(asked)}" if asked[0] else _copy(sample)


def _asked(sample: Sample) -> list[object]:
    """Return what was asked: "And the second?" is one question only after one history."""
    question = normalize("NFKC", sample.question or "").casefold()
    history = [turn.model_dump() for turn in sample.history or ()]
    asked = [" ".join(question.split()), sample.reference]
    return [*asked, sample.standalone_question, history]


def _copy(sample: Sample) -> str | None:
    """Return all texts of a sample, which its copies share; None if some are unknown."""
    if sample.answer is None or why_contexts_are_unknown(sample):
        return None
    contexts = [context.text for context in sample.known_contexts]
    retrieved = [context.text for context in sample.retrieved or ()]
    return f"texts={_key([*_asked(sample), contexts, retrieved, sample.answer])}"


def _document_group(metadata: Mapping[str, object]) -> str | None:
    """Return the document that metadata identify as "name=key", or None.

    Names in the metadata are compared without regard to case, hyphens and underscores:
    "Document-ID" is "document_id". A document's id counts before its source. Example:
    {"Document-ID": 7, "source": "a.pdf"} gives "document_id=7".
    """
    for plain_document_name, name in _NAMES_OF_DOCUMENTS.items():
        for metadata_name, value in metadata.items():
            plain_metadata_name = plain_name(metadata_name.removeprefix("metadata."))
            key = _key(value) if plain_metadata_name == plain_document_name else None
            if key is not None:
                return f"{name}={key}"
    return None


def _key(value: object) -> str | None:
    """Return the text of a key.

    Neither hashes nor ``==`` tell keys apart: -1 and -2 share a hash in CPython, and
    True == 1.
    """
    if not is_present(value):
        return None
    value = number_as_text(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


class KeysSought:
    """Whether any sample has the metadata keys that make slices or clusters.

    So a slip in a key is not passed over.

    Args:
        slices: Keys of the metadata that make slices.
        cluster: What makes clusters; only a name or path is looked for.

    Raises:
        SettingError: If slices are asked for by texts of samples, or a key is no text.
    """

    def __init__(self, slices: Iterable[str] = (), cluster: GroupBy = None) -> None:
        self._slices = tuple(slices)
        for key in (*self._slices, cluster):
            if not isinstance(key, str | None):
                raise SettingError(
                    "samples are grouped by one name or path, e.g. 'language'; got a"
                    f" {type(key).__name__}"
                )
        self._unseen = dict.fromkeys(self._slices, "slices")
        for key in self._slices:
            if key in _TEXTS:
                raise SettingError(
                    f"slices by {key!r} would have texts of samples for names, which"
                    " summaries of a run must not hold; slices are made by a key of"
                    " the metadata"
                )
        if isinstance(cluster, str) and cluster not in ("", "auto"):
            self._unseen.setdefault(cluster, "clusters")
        # what samples have instead, as long as something is looked for
        self._names: dict[str, None] = {}
        self._looked = False

    def look_in(self, sample: Sample) -> None:
        """Look for the keys in one more sample.

        Raises:
            SettingError: If it holds several values at a key of slices: to which slice
                it belongs, nobody said.
        """
        self._looked = True
        if self._unseen and len(self._names) < _MOST_NAMES:
            for name, value in sample.metadata.items():
                self._names[name] = None
                if isinstance(value, Mapping):
                    self._names.update({f"{name}.{inner}": None for inner in value})
        for key in self._slices:
            value = _value_at(sample, key)
            is_one = isinstance(value, str) or not isinstance(
                value, (Collection, BaseModel)
            )
            if is_present(value) and not is_one:
                raise SettingError(
                    f"{key!r} holds a list or an object, and a slice is made by one"
                    f" value; the metadata holds: {self._names_in_words}"
                )
        for key in [key for key in self._unseen if group_of(sample, key) is not None]:
            del self._unseen[key]

    @property
    def _names_in_words(self) -> str:
        return names_in_words(self._names, most=_SHOWN_NAMES) or "nothing"

    def check(self) -> None:
        """Raise ``SettingError`` if there were samples and none has one of the keys."""
        if not self._looked:
            return
        for key, what in self._unseen.items():
            name = key.removeprefix("metadata.")
            if name in self._names:
                raise SettingError(
                    f"{key!r} is empty in each sample, so it makes no {what}"
                )
            near = did_you_mean(name, self._names)
            raise SettingError(
                f"no sample has {key!r}, so it makes no {what}{near}; the metadata"
                f" holds: {self._names_in_words}"
            )


def check_keys(
    rows: Iterable[SampleResult], *, slices: Iterable[str] = (), cluster: GroupBy = None
) -> None:
    """Refuse keys that no sample of finished rows has; see ``KeysSought``."""
    keys = KeysSought(slices, cluster)
    for row in rows:
        if row.sample is not None:
            keys.look_in(row.sample)
    keys.check()


class Clusters:
    """Numbers the clusters of samples that come one by one.

    A copy of an earlier sample is no new evidence, whatever conversation or document it
    names: it belongs to that one's cluster.

    Args:
        by: What tells which samples belong together.
    """

    def __init__(self, by: GroupBy) -> None:
        self._by = by
        # by the texts of each sample that names a conversation or a document
        self._number_of_texts: dict[int, int] = {}

    def number(self, sample: Sample | None) -> int:
        """Return the number of the sample's cluster; −1 if it stands alone.

        It is a digest of the key: of millions of samples, nobody has to keep which
        cluster has which number.
        """
        key = group_of(sample, self._by)
        if key is None or sample is None:
            return -1
        number = _digest(key)
        copy = _copy(sample)
        names_a_group = key not in (copy, _question_group(sample))
        if self._by == "auto" and names_a_group and copy is not None:
            number = self._number_of_texts.setdefault(_digest(copy), number)
        return number


def _digest(key: str) -> int:
    """A number for a text, positive in 64 bits."""
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
