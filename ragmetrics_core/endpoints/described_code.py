"""What functions and classes are made of: names of those that are installed, the code of those that users wrote."""

from __future__ import annotations

import functools
import hashlib
import operator
import re
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic import BaseModel

_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, types.CodeType, types.ModuleType)
_BUILTIN = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_FORMS = (types.GenericAlias, types.UnionType, typing.TypeVar, typing.ParamSpec)
_PLACE = re.compile(r" at 0x[0-9A-Fa-f]+")
_METHODS = (types.FunctionType, staticmethod, classmethod, property, cached_property, functools.partialmethod)
_SKIPPED = (types.MemberDescriptorType, types.GetSetDescriptorType)


def made_of_code(thing: object) -> bool:
    """True for functions, methods, classes, installed modules, types of ``typing``, and wrappers of functions."""
    if isinstance(thing, types.ModuleType):
        return is_library(thing.__name__)
    if isinstance(thing, (*_CODE, *_METHODS, *_FORMS, *_BUILTIN, *_GETTERS)) or type(thing).__module__ == "typing":
        return True
    return _wraps(thing)


def code_parts(thing: object) -> list[object]:
    """What such a thing is made of, each part to be described in its turn."""
    if isinstance(thing, types.FunctionType):
        return _function(thing)
    if isinstance(thing, types.MethodType):
        return ["method", thing.__func__, thing.__self__]
    if isinstance(thing, types.BuiltinFunctionType):
        return ["builtin", thing.__qualname__, thing.__self__ or thing.__module__]
    if isinstance(thing, _BUILTIN):
        return ["builtin", thing.__qualname__, thing.__objclass__]
    if isinstance(thing, _GETTERS):
        return ["getter", *thing.__reduce__()]
    if isinstance(thing, types.CodeType):
        return _code(thing)
    if isinstance(thing, types.ModuleType):
        return ["module", thing.__name__]
    if isinstance(thing, _METHODS):
        return ["descriptor", type(thing).__name__, *_behind(thing)]
    if isinstance(thing, type) and not isinstance(thing, types.GenericAlias):
        return _class(thing)
    if _wraps(thing):
        return ["wrapper", type(thing).__qualname__, getattr(thing, "__wrapped__", None)]
    return ["form", _PLACE.sub("", repr(thing))]


@lru_cache(maxsize=4096)
def is_library(module: str) -> bool:
    """True for modules of Python itself and of installed packages: their names stand for what is in them."""
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _wraps(thing: object) -> bool:
    """True for what stands for a function, as ``lru_cache`` and many frameworks make it."""
    return callable(thing) and ("__wrapped__" in vars(type(thing)) or "__wrapped__" in getattr(thing, "__dict__", {}))


def _function(function: types.FunctionType) -> list[object]:
    """Name or code, defaults, what it closes over, and the globals that it names."""
    code, module = function.__code__, str(function.__globals__.get("__name__"))
    wrapped = getattr(function, "__wrapped__", None)
    if is_library(module):
        held = wrapped if wrapped is not None else _closed_over(function)
        return ["function", module, code.co_qualname, held]
    known = function.__globals__
    named = {name: known[name] for name in sorted(_names(code)) if name in known}
    return ["function", code, function.__defaults__, function.__kwdefaults__, _closed_over(function), named]


def _closed_over(function: types.FunctionType) -> list[object]:
    held: list[object] = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            held.append(cell.cell_contents)
    return held


def _code(code: types.CodeType) -> list[object]:
    """A code object without the places that it came from."""
    digest = hashlib.sha256(code.co_code + code.co_exceptiontable).hexdigest()
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return ["code", digest, counts, code.co_names, code.co_varnames, code.co_freevars, code.co_consts]


def _names(code: types.CodeType) -> set[str]:
    nested = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*nested)


def _class(cls: type) -> list[object]:
    """The name of a class; if a user wrote it, also of those that it inherits from, and what users wrote into them."""
    if is_library(cls.__module__):
        return ["class", cls.__module__, cls.__qualname__]
    return ["class", [[base.__module__, base.__qualname__, dict(_written(base))] for base in cls.__mro__]]


def _written(cls: type) -> Iterator[tuple[str, object]]:
    if is_library(cls.__module__):
        return
    yield "__doc__", cls.__doc__
    yield "__annotations__", {name: str(kind) for name, kind in vars(cls).get("__annotations__", {}).items()}
    if issubclass(cls, BaseModel):
        yield "schema", cls.model_json_schema()
    for name, value in vars(cls).items():
        code = isinstance(value, _METHODS) or _wraps(value)
        made_by_python = name.startswith("__") or name == "_abc_impl" or isinstance(value, _SKIPPED)
        if code or not made_by_python:
            yield name, value


def _behind(descriptor: object) -> list[object]:
    names = ("fget", "fset", "fdel", "func", "args", "keywords", "__func__")
    return [getattr(descriptor, name, None) for name in names]
