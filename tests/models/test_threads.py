"""Blocking calls in daemon threads: their results and errors arrive whole."""

import asyncio
import threading
from contextvars import Context, ContextVar

import pytest

from ragmetrics_core.models.threads import call_in_thread

PLACE = ContextVar("PLACE", default="nowhere")


def test_the_call_is_made_in_a_daemon_thread_and_in_the_given_context():
    context = Context()
    context.run(PLACE.set, "inside")
    thread, place = call_in_thread(
        lambda: (threading.current_thread(), PLACE.get()),
        context=context,
        name="a-name",
    ).result(10)
    assert (thread.name, thread.daemon, place) == ("a-name", True, "inside")
    assert PLACE.get() == "nowhere"


@pytest.mark.parametrize("error", [ValueError("a fault"), OSError(), TimeoutError()])
def test_whatever_is_raised_is_handed_on_and_nothing_is_printed(error, capfd):
    def broken():
        raise error

    assert (
        call_in_thread(broken, context=Context(), name="a-name").exception(10) is error
    )
    assert capfd.readouterr() == ("", "")


def test_a_call_that_nobody_waits_for_any_more_ends_quietly():
    release = threading.Event()
    future = call_in_thread(lambda: release.wait(10), context=Context(), name="a-name")
    assert not future.cancel()
    release.set()
    assert future.result(10) is True


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), KeyboardInterrupt()])
def test_what_a_loop_cannot_be_handed_reaches_who_waits_as_another_error(error, capfd):
    def broken():
        raise error

    async def wait():
        await asyncio.wait_for(
            asyncio.wrap_future(
                call_in_thread(broken, context=Context(), name="a-name")
            ),
            10,
        )

    with pytest.raises(RuntimeError, match=type(error).__name__):
        asyncio.run(wait())
    assert capfd.readouterr() == ("", "")
