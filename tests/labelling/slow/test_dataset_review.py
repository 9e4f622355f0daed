"""The review: blind, resumable, with a second reviewer; in a real terminal and in pieces."""

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dataset_toys import SIZE, corpus, judge

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.labelling import (
    ContinuousSettings,
    DiscreteSettings,
    Maker,
    Pair,
    Reviews,
    build_continuous,
    build_discrete,
    write_set,
)
from ragmetrics_core.labelling.reviews import (
    Item,
    Review,
    items_to_review,
    labels_of,
    review,
    review_items,
    review_summary,
)
from ragmetrics_core.labelling.sets import CombinationPoint, ContinuousSet, DiscreteSet

SCRIPT = str(Path(sys.executable).with_name("ragmetrics"))
# Makes the pseudo-terminal the controlling one, so that Ctrl-C in it is an interrupt.
LAUNCH = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # else it is ignored below a shell in the background
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(terminal, number)
os.execv(sys.argv[2], sys.argv[2:])
"""
PROMPT, REASON = "p/n/a/q> ", "no reason)> "


def discrete(questions: int = 15) -> DiscreteSet:
    documents = corpus(documents=questions)
    pairs = [
        Pair(question=f"What is d{n}p0w1 d{n}p0w2?", answer=f"d{n}p0w1.")
        for n in range(questions)
    ]
    return build_discrete(documents, pairs, DiscreteSettings(chunk_size=SIZE))


def continuous() -> ContinuousSet:
    return build_continuous(
        corpus(), ContinuousSettings(chunk_size=SIZE, documents=1), Maker(judge())
    )


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, *arguments: str) -> None:
        self._master, self._slave = pty.openpty()
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            os.ttyname(self._slave),
            SCRIPT,
            *arguments,
        ]
        self.process = subprocess.Popen(command, start_new_session=True)
        self.seen = ""
        self._read = 0

    def until(self, text: str, again: str = "") -> str:
        """What is shown from the last call to the text.

        While nothing comes, some keys are typed again.

        A Ctrl-C between the prompt and the wait for a line only counts with the next
        key, in any Python program.
        """
        idle = 0
        end = time.monotonic() + 240  # a loaded machine
        while text not in self.seen[self._read :]:
            ready, _, _ = select.select([self._master], [], [], 1)
            self.seen += os.read(self._master, 65536).decode() if ready else ""
            idle = 0 if ready else idle + 1
            if again and idle and idle % 5 == 0:
                self.type(again)
            if not ready and self.process.poll() is not None:
                break
            assert time.monotonic() < end, self.seen[self._read :]
        start = self._read
        assert text in self.seen[start:], self.seen[start:]
        self._read = self.seen.index(text, start) + len(text)
        return self.seen[start : self._read]

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    opened = Terminal(*arguments)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.nightly
def test_a_review_in_a_terminal_interrupted_and_resumed(tmp_path):
    made, path = discrete(3), tmp_path / "set.jsonl"
    write_set(path, made)
    before = path.read_bytes()
    command = ("dataset", "review", str(path), "--reviewer", "Ada")
    shown: list[str] = []
    with terminal(*command) as screen:
        for key, reason in (("p", "says so"), ("x\nn", ""), ("a", "half of it")):
            shown.append(screen.until(PROMPT))
            screen.type(f"{key}\n")
            screen.until(REASON)
            screen.type(f"{reason}\n")
        shown.append(screen.until(PROMPT))
        screen.type("\x03")  # Ctrl-C
        screen.until(
            "3 of 6 points reviewed: 1 positive, 1 negative, 1 ambiguous (left out)",
            again="\x03",
        )
        screen.until("the same command goes on here")
        assert screen.process.wait(60) == 0
    with terminal(*command) as screen:
        for done in range(3, 6):
            shown.append(screen.until(PROMPT))
            assert f"=== {done} of 6 decided" in shown[-1]
            screen.type("n\n")
            screen.until(REASON)
            screen.type("\n")
        screen.until(
            "6 of 6 points reviewed: 1 positive, 4 negative, 1 ambiguous (left out)"
        )
        assert screen.process.wait(60) == 0
    assert path.read_bytes() == before  # the set itself never changes
    _check_blind(made, shown)
    reviews = Reviews(path, made)
    assert set(reviews.first) == {point.id for point in made.points}
    for point in made.points:
        review = reviews.first[point.id]
        assert (review.was, review.reviewer) == (point.by_rank, "Ada")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", review.date)
    assert {review.reason for review in reviews.first.values()} == {
        "says so",
        "half of it",
        "",
    }
    assert labels_of(made, reviews).count(None) == 1


def _check_blind(made: DiscreteSet, shown: list[str]) -> None:
    """No rank, score, id or label was shown, and the order is not that of the set."""
    items = "".join(text.partition("===")[2] for text in shown)
    for point in made.points:
        assert point.id not in items
        assert all(
            str(context.score) not in items and str(context.id) not in items
            for context in point.sample.known_contexts
        )
    assert not re.search(
        r"rank|score|positive|negative|judge", items.replace("p/n/a/q", "")
    )
    order = [
        item.id
        for item in items_to_review(made, Reviews("nowhere", made), second=False)
    ]
    assert order != [point.id for point in made.points]
    assert sorted(order) == sorted(point.id for point in made.points)


def typed(*keys: str) -> Any:
    """Types these keys at the prompts, then ends the input."""
    left = iter(keys)

    def ask(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return ask


def asked(
    items: Sequence[Item],
    reviews: Reviews,
    *keys: str,
    reviewer: str = "Ada",
    second: bool = False,
) -> bool:
    """Ask somebody about items, who types these keys; whether all is decided then."""
    return review(
        items,
        reviews,
        reviewer=reviewer,
        second=second,
        ask=typed(*keys),
        show=lambda text: None,
    )


def test_thirty_points_become_twenty_eight(tmp_path):
    """As published: two ambiguous, 16 negative and 12 positive, which the ranks alone cannot give."""
    made = discrete()
    reviews = Reviews(tmp_path / "set.jsonl", made)
    items = items_to_review(made, reviews, second=False)
    assert len(items) == 30
    positives = [item.id for item in items if item.was == "positive"]
    wanted = dict.fromkeys(positives[:12], "p") | dict.fromkeys(positives[12:14], "a")
    keys = [key for item in items for key in (wanted.get(item.id, "n"), "")]
    assert asked(items, reviews, *keys)
    assert Counter(labels_of(made, reviews)) == {0: 16, 1: 12, None: 2}
    assert review_summary(made, reviews) == [
        "30 of 30 points reviewed: 12 positive, 16 negative, 2 ambiguous (left out); 3"
        " differ from the label by rank."
    ]


def test_what_is_taken_out_of_the_file_is_asked_again(tmp_path):
    made = discrete(2)
    reviews = Reviews(tmp_path / "set.jsonl", made)
    items = items_to_review(made, reviews, second=False)
    keys = ["p", "", "n", "sure", "q"]
    assert not asked(items, reviews, *keys)
    lines = reviews.path.read_text().splitlines(keepends=True)
    reviews.path.write_text("".join(lines[:1] + lines[2:]))
    again = Reviews(tmp_path / "set.jsonl", made)
    assert [item.id for item in items if item.id in again.first] == [items[1].id]
    assert again.first[items[1].id].reason == "sure"


def test_a_second_reviewer_gives_kappa(tmp_path):
    made, path = discrete(4), tmp_path / "set.jsonl"
    reviews = Reviews(path, made)
    with pytest.raises(SettingError, match="there is nothing yet"):
        items_to_review(made, reviews, second=True)
    items = items_to_review(made, reviews, second=False)
    for item, key in zip(items, "ppppnnnn", strict=True):
        asked([item], reviews, key, "")
    everything = items_to_review(made, reviews, second=True)
    assert [item.id for item in everything] != [item.id for item in items]
    for number, item in enumerate(everything):
        own = (
            "p"
            if (reviews.first[item.id].label == "positive") != (number == 0)
            else "n"
        )
        asked([item], reviews, own, "", reviewer="Bea", second=True)
    again = Reviews(path, made)
    # 7 agree, one half by chance: kappa .75
    assert (
        "Second reviewer: 8 points, the same label on 7; kappa 0.750."
        in review_summary(made, again)
    )
    assert labels_of(made, again).count(1) == 4  # the first reviewer decides


def test_the_second_reviewer_is_someone_else(tmp_path, capsys):
    from ragmetrics_core.cli.main import main

    made, path = discrete(2), tmp_path / "set.jsonl"
    write_set(path, made)
    reviews = Reviews(path, made)
    items = items_to_review(made, reviews, second=False)
    asked(items, reviews, "p", "")
    assert (
        main(["dataset", "review", str(path), "--reviewer", "Ada", "--second-reviewer"])
        == 2
    )
    assert "'Ada' is the first reviewer" in capsys.readouterr().err


def test_each_reviewer_goes_on_where_they_stopped(tmp_path, capsys, monkeypatch):
    """Who is not named goes by the login."""
    from ragmetrics_core.cli.main import main

    made, path = discrete(2), tmp_path / "set.jsonl"
    write_set(path, made)
    command = ["dataset", "review", str(path)]
    for login, more in (("Ada", []), ("Ada", []), ("Bea", ["--second-reviewer"])):
        monkeypatch.setenv("USER", login)
        monkeypatch.setattr(sys, "stdin", io.StringIO("p\n\nq\n"))
        assert main([*command, *more]) == 0
        assert "the same command goes on here" in capsys.readouterr().out
    reviews = Reviews(path, made)
    assert [review.reviewer for review in reviews.first.values()] == ["Ada", "Ada"]
    assert [review.reviewer for review in reviews.second.values()] == ["Bea"]


def test_cells_are_reviewed_and_change_the_labels(tmp_path):
    made = continuous()
    (document,) = made.documents
    reviews = Reviews(tmp_path / "set.jsonl", made)
    items = {item.id: item for item in review_items(made)}
    assert len(items) == 4 * 7
    assert {len(item.texts) for item in items.values()} == {1}

    def labels() -> dict[CombinationPoint, float]:
        labelled = zip(made.points, labels_of(made, reviews), strict=True)
        return {point: label for point, label in labelled if label is not None}

    before = labels()

    def decide(fact: int, context: int, label: Any) -> None:
        item = items[f"{document.id}#{fact}#{context}"]
        reviews.add(Review(item=item.id, was=item.was, label=label, reviewer="Ada"))

    decide(0, 0, "negative")  # the model found fact 0 there
    after = labels()
    assert all(
        after[point] == before[point] - 0.25 * (0 in point.contexts)
        for point in made.points
    )
    decide(0, 6, "ambiguous")
    kept = labels()
    assert [point for point in made.points if point not in kept] == [
        p for p in made.points if 6 in p.contexts
    ]
    decide(0, 5, "positive")  # decides the fact wherever it stands
    kept = labels()
    assert {point for point in made.points if point not in kept} == {
        p for p in made.points if 6 in p.contexts and 5 not in p.contexts
    }
    assert (
        "3 of 28 cells reviewed: 1 positive, 1 negative, 1 ambiguous"
        in review_summary(made, reviews)[0]
    )


def test_a_document_cannot_steer_the_terminal(tmp_path):
    pair = Pair(question="\x1b[2Jq", answer="\x9b31m\x07a")
    made = build_discrete(
        [], [pair], retriever=lambda question, count: [f"\x1b]0;{n}" for n in range(5)]
    )
    shown: list[str] = []
    reviews = Reviews(tmp_path / "set.jsonl", made)
    review(
        review_items(made),
        reviews,
        reviewer="Ada",
        second=False,
        ask=typed(),
        show=shown.append,
    )
    page = "".join(shown)
    assert "--- question\n\ufffd[2Jq\n" in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)


def test_reviews_that_were_cut_off_or_belong_elsewhere(tmp_path):
    made, path = discrete(2), tmp_path / "set.jsonl"
    reviews = Reviews(path, made)
    items = review_items(made)
    for item in items[:2]:
        reviews.add(
            Review(item=item.id, was=item.was, label="positive", reviewer="Ada")
        )
    whole = reviews.path.read_bytes()
    reviews.path.write_bytes(whole[:-20])  # the machine stopped while writing
    again = Reviews(path, made)
    assert set(again.first) == {items[0].id}
    again.add(
        Review(item=items[1].id, was=items[1].was, label="negative", reviewer="Ada")
    )
    labels = [review.label for review in Reviews(path, made).first.values()]
    assert labels == ["positive", "negative"]
    reviews.path.write_bytes(whole[:10])
    assert not Reviews(path, made).first
    Reviews(path, made).add(
        Review(item=items[0].id, was=items[0].was, label="negative", reviewer="Ada")
    )
    assert len(Reviews(path, made).first) == 1
    reviews.path.write_bytes(whole.replace(b'"reviewer"', b'"nobody"', 1))
    with pytest.raises(InputError, match="line 2: reviewer: Field required"):
        Reviews(path, made)
    reviews.path.write_bytes(whole)
    with pytest.raises(InputError, match="another version of the set"):
        Reviews(path, discrete(3))
    assert json.loads(whole.splitlines()[1])["was"] == "positive"
