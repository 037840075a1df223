"""Kernels: compiled by numba for this processor, once, and kept on disk as machine code.

A kernel takes integers, and records (NamedTuples) of them, and runs without Python's lock. Code
that is on disk is linked by llvmlite and called by ctypes, so that only a process that compiles
imports numba. It needs nothing of numba's runtime: kernels allocate nothing and raise nothing.
"""

import ctypes
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, TypeVar, cast

from napari_mst.engine.kernels import kept

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
    "_nrt": False,
}

_compiling = threading.RLock()


class CompiledPart:
    """A function that compiled code calls: *make* returns numba's compiled object.

    Python calls it as it is written.
    """

    def __init__(self, make: Callable[[], Any], function: Callable[..., Any] | None = None) -> None:
        self._make, self._function = make, function

    @functools.cached_property
    def compiled(self) -> Any:
        """The function as numba calls it from compiled code."""
        return self._make()

    def __call__(self, *given: Any) -> Any:
        """The function in Python."""
        return cast("Callable[..., Any]", self._function)(*given)


def part(function: Function, **options: Any) -> Function:
    """A compiled *function* that only compiled code calls; *options* go to numba."""
    return cast("Function", CompiledPart(lambda: _jitted(function, **options), function))


inlined = functools.partial(part, forceinline=True)
"""A `part` that becomes code of its caller, whose loops are made vector instructions then."""

written_out = functools.partial(part, inline="always")
"""A `part` that numba sees as lines of its caller."""


def _jitted(function: Callable[..., Any], **options: Any) -> Any:
    """*function* for numba, which is to see the parts that it calls as it knows them."""
    from numba import njit

    def known(value: Any) -> Any:
        return value.compiled if isinstance(value, CompiledPart) else value

    names = function.__globals__
    seen = {name: known(names[name]) for name in function.__code__.co_names if name in names}
    cells = [CellType(known(cell.cell_contents)) for cell in function.__closure__ or ()]
    copy = FunctionType(
        function.__code__, names | seen, function.__name__, function.__defaults__, tuple(cells)
    )
    return njit(**_OPTIONS, **options)(copy)


def kernel(function: Function) -> Function:
    """*function* in machine code, which is linked or compiled when it is first called."""
    return cast("Function", CompiledKernel(function))


class CompiledKernel:
    """A *function* in machine code; see `kernel`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._types = [each.annotation for each in inspect.signature(function).parameters.values()]

    def __call__(self, *given: Any) -> Any:
        """Run it, without Python's lock; returns an integer, 0 if it has no result."""
        numbers: list[int] = []
        for each in given:
            numbers.extend(each if isinstance(each, tuple) else (each,))
        result, fault = ctypes.c_int64(), ctypes.c_void_p()
        self._call(ctypes.byref(result), ctypes.byref(fault), *numbers)
        return result.value

    @functools.cached_property
    def _call(self) -> Callable[..., int]:
        """The code as ctypes calls it: results by address, and all integers side by side."""
        with _compiling:
            address = self._linked() or self.compile()
        numbers = sum(1 if each is int else len(each._fields) for each in self._types)
        kinds = [*[ctypes.c_void_p] * 2, *[ctypes.c_int64] * numbers]
        return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)

    def is_kept(self) -> bool:
        """Return True if the compiled kernel is on disk for this processor."""
        return kept.read(self._files()) is not None

    def _files(self) -> Iterator[Path]:
        path = Path(inspect.getfile(self._function))
        return kept.places(f"{path.stem}.{self._function.__name__}", path.parent)

    def _linked(self) -> int:
        """The address of the code that is on disk; 0 if there is none."""
        content = kept.read(self._files())
        if content is None:
            return 0
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        triple, processor, features = kept.machine()
        target = binding.Target.from_triple(triple)
        machine = target.create_target_machine(cpu=processor, features=features)
        empty = binding.parse_assembly(f'target triple = "{triple}"')
        # It is kept, because the code goes with it.
        self._engine = binding.create_mcjit_compiler(empty, machine)
        symbol, _, code = content.partition(b"\n")
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(symbol.decode()))

    def compile(self) -> int:
        """Compile it and, if some folder is writable, keep it; returns the address of its code."""
        from numba import types

        kinds = (
            types.int64
            if each is int
            else types.NamedUniTuple(types.int64, len(each._fields), each)
            for each in self._types
        )
        self._compiled = _jitted(self._function)
        self._compiled.compile(tuple(kinds))
        (result,) = self._compiled.overloads.values()
        symbol = result.fndesc.llvm_func_name
        code = result.library._get_compiled_object()
        kept.keep(self._files(), symbol.encode() + b"\n" + code)
        return int(result.library.get_pointer_to_function(symbol))
