"""Rounds: the plans of one sample ask one judge together, and none waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragmetrics_core.data import Usage
from ragmetrics_core.engine.rounds import Rounds

# A plan: how many turns of the loop pass before each of its steps.
PLANS = st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5)


class Recorded:
    """Answers each question with itself; records the rounds."""

    def __init__(self) -> None:
        self.rounds: list[list[Any]] = []

    async def ask(self, questions: Any, usage: list[Usage]) -> list[Any]:
        self.rounds.append(list(questions))
        await asyncio.sleep(0)
        return list(questions)


async def carried_out(
    name: int, waits: Sequence[int], rounds: Rounds
) -> list[list[Any]]:
    answers = []
    for step, n_turns in enumerate(waits):
        for _ in range(n_turns):
            await asyncio.sleep(0)
        questions: Any = ((name, step, 0), (name, step, 1))
        answers.append(await rounds.ask(questions, []))
    return answers


def begun(plans: Sequence[Sequence[int]], rounds: Rounds) -> list[asyncio.Task[Any]]:
    tasks = []
    for name, waits in enumerate(plans):
        task = asyncio.create_task(carried_out(name, waits, rounds))
        rounds.join(task)
        tasks.append(task)
    return tasks


@given(plans=PLANS)
def test_law_a_round_holds_a_step_of_every_plan_that_has_one(
    plans: list[list[int]],
) -> None:
    recorded = Recorded()

    async def run() -> list[list[list[Any]]]:
        tasks = begun(plans, Rounds(recorded.ask))
        return await asyncio.wait_for(asyncio.gather(*tasks), 5)

    answers = asyncio.run(run())
    for name, answered in enumerate(answers):
        steps = range(len(plans[name]))
        assert answered == [[(name, step, 0), (name, step, 1)] for step in steps]
    n_rounds = max(map(len, plans))
    asked = [{(name, step) for name, step, _ in done} for done in recorded.rounds]
    assert asked == [
        {(name, step) for name, plan in enumerate(plans) if step < len(plan)}
        for step in range(n_rounds)
    ]


@settings(deadline=None)
@given(plans=PLANS, data=st.data())
def test_law_whoever_leaves_nobody_waits_for_ever(
    plans: list[list[int]], data: st.DataObject
) -> None:
    recorded = Recorded()
    cancelled = data.draw(st.sets(st.integers(0, len(plans) - 1)))
    n_turns = data.draw(st.integers(0, 8))

    async def run() -> list[Any]:
        tasks = begun(plans, Rounds(recorded.ask))
        for _ in range(n_turns):
            await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
        gathered = asyncio.gather(*tasks, return_exceptions=True)
        return await asyncio.wait_for(gathered, 5)

    for name, outcome in enumerate(asyncio.run(run())):
        if name not in cancelled:
            assert len(outcome) == len(plans[name])


def test_a_round_for_which_nobody_waits_is_given_up() -> None:
    was_given_up = asyncio.Event()
    answers = asyncio.Event()  # kept here, so that what waits for it is not forgotten

    async def never(questions: Any, usage: list[Usage]) -> list[Any]:
        try:
            await answers.wait()
        except asyncio.CancelledError:
            was_given_up.set()
            raise
        return []

    async def run() -> None:
        tasks = begun([[0], [0]], Rounds(never))
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        assert not was_given_up.is_set()
        tasks[1].cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.wait_for(was_given_up.wait(), 1)

    asyncio.run(run())
