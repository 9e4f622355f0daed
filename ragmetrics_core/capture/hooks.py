"""Hooks that never harm the application: who gets a run, errors counted and logged once, locks that outlive a fork."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Any, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from ragmetrics_core.data import RowError, SettingError
from ragmetrics_core.models.judge_work import is_judge_work

logger = logging.getLogger("ragmetrics_core")

P = ParamSpec("P")
T = TypeVar("T")
Run = TypeVar("Run")  # what an adapter keeps of one run of the application

# What a fork leaves behind: locks that no thread of the child will ever release. Their
# owners renew them.


class Renewed(Protocol):
    """An object with locks or threads."""

    def after_fork(self) -> None:
        """Called when the object is made, and in a forked child, before any other code of it runs."""


_renewed_objects: WeakSet[Renewed] = WeakSet()


def renew_after_fork(owner: Renewed) -> None:
    """Have an object make its locks and threads, now and in each forked child.

    The object is not kept alive by this.
    """
    owner.after_fork()
    _renewed_objects.add(owner)


def _renew_in_child() -> None:
    """Give all objects of a forked child new locks and threads."""
    for owner in list(_renewed_objects):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)


class Lock:
    """A lock that one thread may enter several times.

    A forked child has it anew: threads of the parent may hold it.
    """

    def __init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Nobody holds it."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait until no other thread holds it, and hold it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Hold it once less."""
        self._lock.release()


_MOST_KINDS = 100
_FURTHER_KINDS = (
    f"more kinds of problems than the {_MOST_KINDS} that are named; these are counted"
    " together"
)


class Problems:
    """Internal errors of a recorder: counted by place, each place logged once.

    Truthy if there were any. Of many kinds the first hundred are named, and all others
    are counted together: a refused row names its keys, which may differ each time.

    Args:
        logged: Whether the first of each kind is logged; else problems are only
            counted.
        others: Returns the counters that count in place of this object, such as those
            of all listeners; if it returns none, this object counts.
    """

    def __init__(
        self, *, logged: bool = True, others: Callable[[], Collection[Problems]] = tuple
    ) -> None:
        self._is_logged = logged
        self._other_counters = others
        self._counts: Counter[str] = Counter()  # by kind
        self._lock = Lock()

    def __len__(self) -> int:
        """How many problems occurred, of all kinds together."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        """Show how often each problem occurred."""
        return f"Problems({dict(self)})"

    def __iter__(self) -> Iterator[str]:
        """The kinds of problems; ``dict(problems)`` has how often each occurred."""
        return iter(self.counts)

    def keys(self) -> Iterable[str]:
        """The kinds of problems."""
        return self.counts

    def __getitem__(self, kind: str) -> int:
        """How often a problem of a kind occurred."""
        return self._counts[kind]

    @property
    def why_no_sample(self) -> str:
        """Why a report has no row, in words."""
        return f"no run gave a sample: {'; '.join(self.counts) or 'none was captured'}"

    @property
    def counts(self) -> dict[str, int]:
        """How often each problem occurred, by ``hook: error``."""
        with self._lock:
            return dict(self._counts)

    def record(self, hook: str, error: BaseException) -> None:
        """Count an error that a hook raised, and log the first of its kind.

        The error's own words are left out, because they may hold texts of the
        application. Our own errors about a setting or a row hold none.

        Args:
            hook: The name of the method that raised.
            error: What it raised.
        """
        advice = ""
        if isinstance(error, (SettingError, RowError)):
            advice = f" ({error})"
        kind = f"{hook}: {type(error).__name__}{advice}"
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        sentence = (
            f"ragmetrics could not record a run ({kind}{place}); the"
            " application is not affected"
        )
        self.note(kind, sentence)

    def note(self, message: str, sentence: str = "") -> None:
        """Count something that the user should know, and log the first of its kind.

        If other counters count in place of this object, they get the message.

        Args:
            message: What is counted; equal messages are one kind.
            sentence: What is logged of it; by default the message.
        """
        other_counters = self._other_counters()
        for counter in other_counters:
            counter.note(message, sentence)
        if other_counters:
            return
        with self._lock:
            is_known = message in self._counts
            if not is_known and len(self._counts) >= _MOST_KINDS:
                message = sentence = _FURTHER_KINDS
            self._counts[message] += 1
            is_first_of_kind = self._counts[message] == 1
        if is_first_of_kind and self._is_logged:
            logger.warning("%s", sentence or message)


def guard_hook(hook: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method so that its errors never reach the application.

    Example: a decorated callback raises ``KeyError``. The error is counted in
    ``self.problems``, the callback returns None, and the application goes on.
    """

    @functools.wraps(hook)
    def _guarding(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except BaseException as error:
            # KeyboardInterrupt, SystemExit: the application's threads must get them
            ends_program = not isinstance(error, Exception)
            thread_name = threading.current_thread().name
            is_our_thread = thread_name.startswith("ragmetrics-")
            if ends_program and not is_our_thread:
                raise
            self.problems.record(hook.__qualname__, error)

    return cast("Callable[P, T]", _guarding)


def words_of(
    error: BaseException,
    write: Callable[[BaseException], str] = "{0.__class__.__name__}: {0}".format,
) -> str:
    """Return an error of the application in words, such as "ValueError: no key".

    Code of the application makes these words, and may itself raise: then only the name
    of the error's class is returned.

    Args:
        error: The error.
        write: Makes the words of an error.
    """
    try:
        return write(error)
    except Exception:  # noqa: BLE001  # whatever an application's class raises, the run has to end
        return type(error).__name__


# Who gets the runs that begin here: captures by context, watches by process; work of
# judges reaches nobody.


@dataclass(eq=False)
class Listener:
    """A watch or a ``capture`` block, which gets finished runs.

    Attributes:
        problems: Where errors of hooks are counted for it.
        record: Called with each finished run, in the application's thread.
        all_contexts: Whether it gets runs of every context that its ``Listeners`` hand
            out: a watch those of the whole process, a callback those that it is passed
            to. If not, it gets the runs that begin in its own context: a block.
        names_looked_up: The names under which the user looks for a field. All is kept
            of what calls of such a name, or with such a key in it, were given and
            returned.
        begun: Whether a run began for it.
        missed: Whether it missed a run that began in the context of no block.
    """

    problems: Problems
    record: Callable[[Any], object]
    _: KW_ONLY
    all_contexts: bool = False
    names_looked_up: frozenset[str] = frozenset()
    begun: bool = False
    missed: bool = False


# the listeners of the blocks that the code here runs in
_listeners_around: ContextVar[tuple[Listener, ...]] = ContextVar(
    "ragmetrics_listeners", default=()
)


class Listeners:
    """The listeners of one framework that are open now.

    Args:
        opened: Called with each listener before runs reach it; it puts the adapter's
            hooks in place.
        closed: Called with each listener after it was removed.

    Attributes:
        open: The listeners; an immutable tuple that is replaced at each change, so that
            reading it needs no lock.
        problems: Errors of the hooks, counted for everybody who listens.
    """

    def __init__(
        self,
        opened: Callable[[Listener], None] = lambda _: None,
        closed: Callable[[Listener], None] = lambda _: None,
    ) -> None:
        self.open: tuple[Listener, ...] = ()
        self.problems = Problems(
            others=lambda: [listener.problems for listener in self.open]
        )
        self._opened = opened
        self._closed = closed
        self._lock = Lock()

    def add(self, listener: Listener) -> None:
        """Begin to hand runs to a listener."""
        with self._lock:
            self.open = (*self.open, listener)
            self._opened(listener)
        if not listener.all_contexts:
            current_task_or_thread()  # tasks that are started here know of this one
            _listeners_around.set((*_listeners_around.get(), listener))

    def remove(self, listener: Listener) -> None:
        """Begin no further runs for a listener; runs that go on still reach it."""
        if not listener.all_contexts:
            # No token: a block may be left in another context than it was entered in.
            _listeners_around.set(_without(_listeners_around.get(), listener))
        with self._lock:
            if listener in self.open:
                self.open = _without(self.open, listener)
                self._closed(listener)

    def here(self) -> tuple[Listener, ...]:
        """Find the listeners that get a run of the application beginning here and now.

        These are the watches, and the ``capture`` blocks in whose context the code
        runs. Example: inside ``with capture():`` while a watch is on, both get the run.
        Outside of all blocks, as in a thread that was started without a copy of the
        context, each block notes that it missed a run. Work of a judge reaches nobody.
        """
        listeners = self.open  # another thread may open and close some meanwhile
        if not listeners or is_judge_work():
            return ()
        around = _listeners_around.get()
        here = tuple(
            [each for each in listeners if each.all_contexts or each in around]
        )
        if len(here) < len(listeners) and all(each.all_contexts for each in here):
            for listener in listeners:
                listener.missed = not listener.all_contexts
        return here

    def begin(self) -> tuple[Listener, ...]:
        """Return the listeners that get a run beginning now; each notes that it began."""
        listeners = self.here()
        for listener in listeners:
            listener.begun = True
        return listeners


def _without(
    listeners: tuple[Listener, ...], listener: Listener
) -> tuple[Listener, ...]:
    """Return listeners without one of them."""
    return tuple(remaining for remaining in listeners if remaining is not listener)


class ReplacedMethods:
    """Methods of a framework's classes that are replaced while somebody listens.

    Example: ``replace(Store, "search", observed)`` puts what ``observed`` makes of the
    method ``Store.search`` in its place, until ``restore`` is called.

    Others are replaced while a judge's model is called, so that the framework tells no
    handler and no tracer of the call (``hide``).

    Args:
        while_hidden: By class and name of a method, makes what is called instead of the
            method inside a hidden call, with the same arguments.

    Attributes:
        lock: Held while methods are replaced and restored.
    """

    def __init__(
        self,
        while_hidden: Mapping[
            tuple[type, str], Callable[[Callable[..., Any]], Callable[..., Any]]
        ] = MappingProxyType({}),
    ) -> None:
        self.lock = Lock()
        self._while_hidden = while_hidden
        self._n_hidden = 0
        # by class and name: the method of the class, and ours in its place
        self._replaced: dict[tuple[type, str], tuple[Any, Any]] = {}

    def __bool__(self) -> bool:
        """Whether there are any now."""
        return bool(self._replaced)

    def replace(
        self, owner: type, name: str, make: Callable[[Callable[..., Any]], Any]
    ) -> None:
        """Replace a method that a class defines itself, once.

        Args:
            owner: The class; one that cannot be changed is left alone.
            name: The method's name; nothing happens if the class has none of its own.
            make: Makes what takes the method's place.
        """
        with self.lock:
            method = vars(owner).get(name)
            is_ours = (owner, name) in self._replaced
            if not isinstance(method, FunctionType) or is_ours:
                return
            ours = make(method)
            with suppress(AttributeError, TypeError):
                setattr(owner, name, ours)
                self._replaced[owner, name] = method, ours

    def restore(self) -> None:
        """Put all methods back, but where others replaced ours meanwhile."""
        with self.lock:
            for (owner, name), (method, ours) in self._replaced.items():
                if vars(owner).get(name) is ours:
                    setattr(owner, name, method)
            self._replaced.clear()

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Hide what is called inside, and in its tasks and threads that copy the context.

        All other calls go through what takes the methods' places as before.
        """
        with self.lock:
            self._n_hidden += 1
            for (owner, name), make in self._while_hidden.items():
                self.replace(owner, name, partial(_hiding, make))
        token = _is_hidden.set(True)
        try:
            yield
        finally:
            _is_hidden.reset(token)
            with self.lock:
                self._n_hidden -= 1
                if self._n_hidden == 0:
                    self.restore()


_is_hidden: ContextVar[bool] = ContextVar("ragmetrics_hidden", default=False)


def _hiding(
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
    method: Callable[..., Any],
) -> Callable[..., Any]:
    """Make what is as a method, but inside a hidden call as what ``make`` makes of it."""
    instead = make(method)

    @functools.wraps(method)
    def tell(*args: Any, **kwargs: Any) -> Any:
        return (instead if _is_hidden.get() else method)(*args, **kwargs)

    return tell


# the tasks or threads that the one here was started from, the latest last
_tasks_around: ContextVar[tuple[str, ...]] = ContextVar("ragmetrics_tasks", default=())
_MOST_TASKS_AROUND = 8


def current_task_or_thread() -> str:
    """Return a name of the asyncio task, or else of the thread, that runs here.

    Runs of the same task or thread may belong to one question. The name begins with those
    of the tasks that it was started from, as far as a run began in them.
    """
    task = None
    with suppress(RuntimeError):  # no event loop runs here
        task = asyncio.current_task()
    here = f"{threading.get_ident()}/"
    if task is not None:
        here += f"{id(task)}/{task.get_name()}"
    tasks = _tasks_around.get()
    if here not in tasks[-1:]:
        tasks = (*tasks, here)[-_MOST_TASKS_AROUND:]
        _tasks_around.set(tasks)
    return "".join(f"{each}>" for each in tasks)
