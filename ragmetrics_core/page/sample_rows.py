"""Rows of a report as data for the page.

There is an index for the table, and everything else as one line per row.
"""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from zlib import compressobj

from ragmetrics_core.data import SampleResult, clean
from ragmetrics_core.page.diagnosis import diagnose
from ragmetrics_core.page.row_groups import group_of_row
from ragmetrics_core.reporting.jsonl import plain

LONGEST = 20_000
"""Most bytes of one text that the page holds."""

_EXCERPT = 160
_FIELDS, _VALUES, _VALUE = 20, 40, 60
LARGEST_ROWS = 11_000_000
"""Most bytes of packed rows that the page holds."""

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_EMPTY: tuple[object, ...] = (None, "", [], {})


def cut(text: str) -> str:
    """The text, cut after 20,000 bytes of UTF-8 with a note of how much is missing."""
    text = str(clean(text))
    kept = text.encode()[:LONGEST].decode(errors="ignore")
    note = (
        f" … [cut here: {len(text) - len(kept):,} more characters; the results file has"
        " all of them]"
    )
    return text if kept == text else kept + note


def entry_of(row: SampleResult, metrics: Sequence[str]) -> list[Any]:
    """What the table shows of a row and sorts by.

    Its index, id, an excerpt of the question (or the problem), per metric a score or a
    status, the group and the scores that a diagnosis rests on, and the grade of the
    capture or null; where there is a ledger, the conversation and the turn.
    """
    sample = row.sample
    texts = (sample.question, sample.answer, *sample.reference) if sample else ()
    title = row.problem or next(filter(None, texts), "")
    title = " ".join(str(clean(title))[:1000].split())
    if len(title) > _EXCERPT:
        title = title[:_EXCERPT] + "…"
    results = map(row.results.get, metrics)
    outcomes = [
        own and (own.status if own.value is None else round(own.value, 4))
        for own in results
    ]
    diagnosis = diagnose(row)
    because = ", ".join(diagnosis.because) if diagnosis else ""
    notes = sample.capture if sample else None
    entry = [
        row.index,
        cut(sample.id or "") if sample else "",
        title,
        outcomes,
        group_of_row(row),
        because,
        notes and notes.grade,
    ]
    ledger = sample.ledger if sample else None
    return [*entry, cut(ledger.conversation or ""), ledger.turn] if ledger else entry


def facets_of(rows: Iterable[SampleResult]) -> dict[str, dict[str, list[Any]]]:
    """Return the fields of the metadata by which people filter.

    For each field there are its values, and per row the place of the row's value, or
    None.

    Short words, whole numbers or truth values, 2 to 40 different ones, fewer than rows
    with one; after 20 fields empty.
    """
    kept = [_facts(row.sample.metadata) if row.sample else {} for row in rows]
    found: dict[str, dict[str, list[Any]]] = {}
    for name in dict.fromkeys(name for own in kept for name in own):
        counts = Counter(own[name] for own in kept if name in own)
        few = 1 < len(counts) <= min(_VALUES, counts.total() - 1)
        if few and max(map(len, counts)) <= _VALUE:
            places = {
                value: place for place, (value, _) in enumerate(counts.most_common())
            }
            # no value has blanks around it
            of = [places.get(own.get(name, " ")) for own in kept]
            found[name] = (
                {"values": [*places], "of": of} if len(found) < _FIELDS else {}
            )
    return found


def _facts(metadata: Mapping[str, Any]) -> dict[str, str]:
    plain_values = (
        (name, value)
        for name, value in metadata.items()
        if isinstance(value, str | int)
    )
    return {
        cut(name): str(clean(str(value)[: _VALUE + 1])).strip()
        for name, value in plain_values
    }


def detail_lines(rows: Iterable[SampleResult]) -> Iterator[str]:
    """Yield everything known of each row, one JSON object per line, in their order.

    ``cut`` tells what texts lost.
    """
    for row in rows:
        lost = Counter[str]()
        found = _short(plain(_own(row)), "", lost)
        yield json_text({**found, "cut": +lost} if lost.total() else found) + "\n"


def packed(lines: Iterable[str]) -> str:
    """Lines as the page carries them: deflated, in base64; as many as it holds."""
    packer, found = compressobj(), bytearray()
    for line in lines:
        found += packer.compress(line.encode())
        if len(found) > LARGEST_ROWS:
            break
    found += packer.flush()
    return b64encode(found).decode()


def _own(row: SampleResult) -> SampleResult:
    """Return the row without what calls of earlier turns brought.

    The rows of those turns show it.
    """
    if row.sample is None or row.sample.ledger is None:
        return row
    ledger = row.sample.ledger
    calls = (
        it if it.turn == ledger.turn else it.model_copy(update={"items": ()})
        for it in ledger.calls
    )
    sample = row.sample.model_copy(
        update={"ledger": ledger.model_copy(update={"calls": tuple(calls)})}
    )
    return row.model_copy(update={"sample": sample})


def _short(value: Any, path: str, lost: Counter[str]) -> Any:
    """Return the same data without empty fields and with long texts cut.

    Empty fields of metadata stay. ``lost`` counts what was cut, by path.
    """
    if isinstance(value, str):
        text = value.encode()[:LONGEST].decode(errors="ignore")
        lost[path] += len(value) - len(text)
        return text
    if isinstance(value, dict):
        # Nothing shown is known; that nothing is known of it is not. Metadata is the
        # caller's own.
        whole = path.startswith("sample.") and ".metadata" in path
        kept = {
            k: v
            for k, v in value.items()
            if whole or v not in _EMPTY or (k, v) == ("shown", [])
        }
        return {
            cut(key): _short(item, f"{path}.{key[:60]}".lstrip("."), lost)
            for key, item in kept.items()
        }
    if isinstance(value, list):
        return [_short(item, f"{path} {at}", lost) for at, item in enumerate(value, 1)]
    return value


def json_text(value: object) -> str:
    """JSON without any character that could end or open an element of the page."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).translate(_ESCAPES)
