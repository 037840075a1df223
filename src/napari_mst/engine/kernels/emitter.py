"""Vector instructions of LLVM, written where numba compiles a kernel.

Loops over many numbers are plain Python, which LLVM vectorises. This module writes out what must
stay in registers, above all products. An instruction takes addresses and counts,
which are 64-bit integers, and records (NamedTuples) of them.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, cast

import numpy as np
from llvmlite import ir

from napari_mst.engine.kernels.caching import CompiledPart
from napari_mst.engine.kernels.processor import LANES, STEP

Given = ParamSpec("Given")

LLVMValue = Any
"""A value in the code that is emitted; LLVM's own types are not typed."""

LLVMNumber = Any
"""A float32 of compiled code, where numba knows its type."""

FLOAT = ir.FloatType()
DOUBLE = ir.DoubleType()
FLOATS = ir.VectorType(FLOAT, LANES)
DOUBLES = ir.VectorType(DOUBLE, LANES)
HALF = ir.VectorType(DOUBLE, LANES // 2)
"""A vector of float64: it has the bytes of `FLOATS`."""

_INT = ir.IntType(64)
_INDEX = ir.IntType(32)
_VOID = ir.VoidType()
_BYTES_OF_FLOAT = 4

_GELU_AT_ONCE = 4
"""Vectors whose GELU is computed step by step together, so that none waits for another."""

_GELU = (
    1.0905083417892456,
    0.10875200480222702,
    0.04887039586901665,
    0.009315806441009045,
    0.001125625683926046,
    8.748184336582199e-05,
    0.0001180962281068787,
    -2.038250386249274e-05,
    3.3545982205396285e-06,
)
"""The coefficients of p with p(a)^-8 = (1 - erf(a / sqrt 2)) / 2 for a >= 0.

GELU is then right to 3e-7, as torch's own is in float32.

The approximation is Abramowitz and Stegun 7.1.28 (power 16 and degree 6 give 6e-7). Least
squares fitted it, weighted until the largest error of a p(a)^-8 was smallest, 4e-8.
"""


class Emitter:
    """Writes vector instructions to where numba's *builder* stands."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    # Addresses and memory

    def at(self, address: LLVMValue, offset: int = 0) -> LLVMValue:
        """*address* + *offset*."""
        if not offset:
            return address
        return self.builder.add(address, ir.Constant(_INT, offset))

    def along(
        self, address: LLVMValue, index: LLVMValue | int, stride: LLVMValue | int
    ) -> LLVMValue:
        """*address* + *index* x *stride*."""
        index = ir.Constant(_INT, index) if isinstance(index, int) else index
        stride = ir.Constant(_INT, stride) if isinstance(stride, int) else stride
        return self.builder.add(address, self.builder.mul(index, stride))

    def load(self, address: LLVMValue, kind: LLVMValue = FLOATS) -> LLVMValue:
        """The value of *kind* at *address*."""
        # A pixel of 31 channels begins at any float. LLVM takes a vector to be aligned to its whole
        # size unless it is told.
        loaded = self.builder.load(self._pointer(address, kind))
        loaded.align = _BYTES_OF_FLOAT
        return loaded

    def store(self, value: LLVMValue, address: LLVMValue) -> None:
        """Write *value* to *address*."""
        stored = self.builder.store(value, self._pointer(address, value.type))
        stored.align = _BYTES_OF_FLOAT

    def load_some(self, address: LLVMValue, lanes: LLVMValue) -> LLVMValue:
        """The vector at *address*; zero, and untouched in memory, where *lanes* are not set."""
        return self.call(
            f"llvm.masked.load.v{LANES}f32.p0",
            FLOATS,
            self._pointer(address, FLOATS),
            ir.Constant(_INDEX, _BYTES_OF_FLOAT),
            lanes,
            self.constant(0),
        )

    def store_some(self, value: LLVMValue, address: LLVMValue, lanes: LLVMValue) -> None:
        """Write those *lanes* of *value* that are set to *address*."""
        self.call(
            f"llvm.masked.store.v{LANES}f32.p0",
            _VOID,
            value,
            self._pointer(address, FLOATS),
            ir.Constant(_INDEX, _BYTES_OF_FLOAT),
            lanes,
        )

    def _pointer(self, address: LLVMValue, kind: LLVMValue) -> LLVMValue:
        return self.builder.inttoptr(address, kind.as_pointer())

    # Vectors

    def constant(self, value: float) -> LLVMValue:
        """A vector all of whose lanes are *value*."""
        return ir.Constant(FLOATS, [float(np.float32(value))] * LANES)

    def splat(self, scalar: LLVMValue, kind: LLVMValue = FLOATS) -> LLVMValue:
        """A vector of *kind* all of whose lanes are *scalar*."""
        undefined = ir.Constant(kind, ir.Undefined)
        first_lane = ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count)
        one = self.builder.insert_element(undefined, scalar, ir.Constant(_INDEX, 0))
        return self.builder.shuffle_vector(one, undefined, first_lane)

    def repeated(self, address: LLVMValue, index: int) -> LLVMValue:
        """A vector all of whose lanes are the number *index*, below `STEP`, from *address* on."""
        if LANES > STEP:
            return self.splat(self.load(self.at(address, _BYTES_OF_FLOAT * index), FLOAT))
        # NEON multiplies by one lane of a vector: the whole group is loaded at once.
        group = self.load(address)
        lanes = ir.Constant(ir.VectorType(_INDEX, LANES), [index] * LANES)
        return self.builder.shuffle_vector(group, group, lanes)

    def lanes_left(self, channels: LLVMValue, plane: LLVMValue) -> LLVMValue:
        """The lanes of *plane* that hold one of the *channels*."""
        kind = ir.VectorType(_INT, LANES)
        before = self.builder.mul(plane, ir.Constant(_INT, LANES))
        left = self.splat(self.builder.sub(channels, before), kind)
        return self.builder.icmp_signed("<", ir.Constant(kind, list(range(LANES))), left)

    # Arithmetic

    def call(self, name: str, kind: LLVMValue, *arguments: LLVMValue, **options: Any) -> LLVMValue:
        """The result, of *kind*, of LLVM's function *name*."""
        signature = ir.FunctionType(kind, [argument.type for argument in arguments])
        from numba.core import cgutils

        function = cgutils.get_or_insert_function(self.builder.module, signature, name)
        return self.builder.call(function, arguments, **options)

    def multiply_add(self, a: LLVMValue, b: LLVMValue, c: LLVMValue) -> LLVMValue:
        """a b + c."""
        kind = "f32" if a.type == FLOATS else "f64"
        return self.call(f"llvm.fmuladd.v{a.type.count}{kind}", a.type, a, b, c)

    def sum(self, vector: LLVMValue) -> LLVMValue:
        """The sum of the lanes of *vector*."""
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        # Without `reassoc` LLVM has to add the lanes one after the other, in their order.
        return self.call(name, FLOAT, ir.Constant(FLOAT, 0.0), vector, fastmath=("reassoc",))

    def gelu(self, values: list[LLVMValue]) -> list[LLVMValue]:
        """GELU of several vectors, step by step of all at once: none waits for another."""
        builder = self.builder
        # GELU(x) is max(x, 0) - |x| p(|x|)^-8, as the tail is the same on both sides of zero. Where
        # the power overflows the tail is 0, which is right.
        sizes = [self.size(value) for value in values]
        powers = [self.constant(_GELU[-1])] * len(values)
        for coefficient in _GELU[-2::-1]:
            constant = self.constant(coefficient)
            pairs = zip(powers, sizes, strict=True)
            powers = [self.multiply_add(power, size, constant) for power, size in pairs]
        for _ in range(3):
            powers = [builder.fmul(power, power) for power in powers]
        tails = [builder.fdiv(size, power) for size, power in zip(sizes, powers, strict=True)]
        positive = [self._positive(value) for value in values]
        return [builder.fsub(value, tail) for value, tail in zip(positive, tails, strict=True)]

    def _positive(self, value: LLVMValue) -> LLVMValue:
        zero = self.constant(0)
        return self.builder.select(self.builder.fcmp_ordered(">", value, zero), value, zero)

    def size(self, value: LLVMValue) -> LLVMValue:
        """*value* without its sign."""
        return self.call(f"llvm.fabs.v{LANES}f32", FLOATS, value)

    # Control

    def loop(self, count: LLVMValue | int) -> AbstractContextManager[Any]:
        """A loop; its `index` counts from zero."""
        from numba.core import cgutils

        count = ir.Constant(_INT, count) if isinstance(count, int) else count
        return cgutils.for_range(self.builder, count)

    def when(self, condition: LLVMValue) -> AbstractContextManager[Any]:
        """A block that runs only where *condition* is not 0."""
        is_true = self.builder.icmp_unsigned("!=", condition, ir.Constant(_INT, 0))
        return self.builder.if_then(is_true)

    # Registers that loops change

    def variables(self, count: int, start: LLVMValue) -> list[LLVMValue]:
        """Registers that all begin with *start*."""
        return [self.variable(start) for _ in range(count)]

    def variable(self, start: LLVMValue) -> LLVMValue:
        """A register that begins with *start*."""
        from numba.core import cgutils

        register = cgutils.alloca_once(self.builder, start.type)
        self.builder.store(start, register)
        return register

    def value(self, register: LLVMValue) -> LLVMValue:
        """The value that *register* has now."""
        return self.builder.load(register)

    def put(self, value: LLVMValue, register: LLVMValue) -> None:
        """Give *register* a new *value*."""
        self.builder.store(value, register)

    def apply_gelu(self, registers: list[LLVMValue], condition: LLVMValue) -> None:
        """GELU of all *registers*, in place, where *condition* is not 0."""
        with self.when(condition):
            for start in range(0, len(registers), _GELU_AT_ONCE):
                some = registers[start : start + _GELU_AT_ONCE]
                results = self.gelu([self.value(register) for register in some])
                for register, result in zip(some, results, strict=True):
                    self.put(result, register)


def _fused() -> Any:
    from numba.extending import intrinsic

    def fused(_: Any, a: Any, b: Any, c: Any) -> Any:
        return a(a, b, c), lambda _context, builder, _signature, values: builder.fma(*values)

    return intrinsic(fused)


fused = CompiledPart(_fused)
"""a b + c of three numbers, rounded once."""


def _array_of(number: str) -> Any:
    """A function that takes an address and a count, and returns the array of *number*s there."""
    from numba import types
    from numba.core.cgutils import pack_array
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array, populate_array

    kind = types.Array(getattr(types, number), 1, "C")

    def array(_: Any, address: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, values: Sequence[LLVMValue]) -> LLVMValue:
            made = make_array(kind)(context, builder)
            size = context.get_constant(
                types.int64, context.get_abi_sizeof(context.get_data_type(kind.dtype))
            )
            place = builder.inttoptr(values[0], made.data.type)
            shape, strides = (pack_array(builder, [each]) for each in (values[1], size))
            populate_array(made, place, shape, strides, size, None)
            return made._getvalue()

        return kind(types.unliteral(address), types.unliteral(count)), generate

    return intrinsic(array)


floats, doubles, integers, flags = (
    CompiledPart(functools.partial(_array_of, number))
    for number in ("float32", "float64", "int64", "boolean")
)
"""The array of a count of numbers at an address."""


def emitted(emit: Callable[Concatenate[Emitter, Given], None]) -> Callable[Given, None]:
    """An instruction of compiled code, which *emit* writes with an `Emitter`."""
    return cast("Callable[Given, None]", CompiledPart(functools.partial(_instruction, emit)))


def _instruction(emit: Callable[..., None]) -> Any:
    from numba import types
    from numba.extending import intrinsic

    # numba asks for the signature, which `wraps` takes from *emit*.
    @functools.wraps(emit)
    def instruction(_: Any, *given: Any) -> Any:
        kinds = [types.unliteral(each) for each in given]

        def generate(context: Any, builder: Any, _: Any, values: Sequence[LLVMValue]) -> LLVMValue:
            emit(Emitter(builder), *_unpacked(builder, kinds, values))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    return intrinsic(instruction)


def _unpacked(builder: Any, kinds: Sequence[Any], values: Sequence[LLVMValue]) -> list[Any]:
    """Values, and records of them, which the compiled code has in one value of their kind."""
    from numba import types
    from numba.core import cgutils

    return [
        kind.instance_class(
            *_unpacked(builder, kind.types, cgutils.unpack_tuple(builder, value, kind.count))
        )
        if isinstance(kind, types.BaseTuple)
        else value
        for kind, value in zip(kinds, values, strict=True)
    ]
