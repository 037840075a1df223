"""Zarr arrays whose chunks are never decompressed to much more bytes than they have numbers for.

A chunk of 60 kB can decompress to gigabytes; zarr would find out only afterwards that they are too
many.
"""

import bz2
import dataclasses
import lzma
import math
import zlib
from asyncio import to_thread
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import imagecodecs
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec

from napari_mst.errors import mismatch

_SPARE_BYTES = 2**16
# Memory for the dictionary of an lzma stream, whose header asks for it. The highest preset takes
# 65 MiB.
_LZMA_BYTES = 2**27
# With 32 added, the stream itself says whether it is gzip or zlib.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_STREAMS: dict[str, Callable[[], Any]] = {
    "bz2": bz2.BZ2Decompressor,
    "gzip": partial(zlib.decompressobj, wbits=_GZIP_OR_ZLIB),
    "lzma": partial(lzma.LZMADecompressor, memlimit=_LZMA_BYTES),
    "zlib": partial(zlib.decompressobj, wbits=_GZIP_OR_ZLIB),
}
# Where in its header a chunk says (little-endian) how many bytes it decompresses to. These codecs
# never give more than that.
_SIZES = {"blosc": slice(4, 8), "lz4": slice(0, 4)}


@dataclass(frozen=True)
class _Bound:
    """The most bytes that a chunk of the file *name* may have, decompressed."""

    name: str
    nbytes: int

    def decoded(self, codec: str, data: Any) -> bytes | bytearray | None:
        """The *data* decompressed; None if the *codec* itself may do that.

        Raises `CubeFileError` if they are too many.
        """
        if codec == "zstd":
            return imagecodecs.zstd_decode(data, out=self.nbytes)
        is_whole = True
        numbers = None
        if codec in _STREAMS:
            stream = _STREAMS[codec]()
            numbers = stream.decompress(bytes(data), self.nbytes)
            # A stream that is cut off does not reach its end either.
            is_whole = stream.eof
        elif codec in _SIZES:
            is_whole = int.from_bytes(data[_SIZES[codec]], "little") <= self.nbytes
        if not is_whole:
            expected = f"whole chunks of at most {self.nbytes} bytes"
            raise mismatch(self.name, expected, "others", "It is damaged, or not what it says.")
        return numbers


@dataclass(frozen=True)
class _BoundedCodec(BytesBytesCodec):
    """A codec of Zarr 3 that decompresses within its bound."""

    codec: BytesBytesCodec
    bound: _Bound

    is_fixed_size = False

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        name = str(self.codec.to_dict()["name"]).removeprefix("numcodecs.")
        data = await to_thread(self.bound.decoded, name, memoryview(chunk_bytes.as_numpy_array()))
        if data is not None:
            return chunk_spec.prototype.buffer.from_bytes(data)
        (decoded,) = await self.codec.decode([(chunk_bytes, chunk_spec)])
        return decoded

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return self.codec.compute_encoded_size(input_byte_length, chunk_spec)


class _BoundedFilter(Codec):  # type: ignore[misc]  # numcodecs has no types
    """A compressor or filter of Zarr 2 that decompresses within its bound."""

    codec_id = "bounded"

    def __init__(self, codec: Any, bound: _Bound) -> None:
        self._codec = codec
        self._bound = bound

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = self._bound.decoded(self._codec.codec_id, memoryview(buf).cast("B"))
        return self._codec.decode(buf, out) if data is None else data

    def encode(self, buf: Any) -> Any:
        return self._codec.encode(buf)


def bounded(name: str, array: Any) -> Any:
    """The Zarr *array* of the file *name*, to be read only, with codecs that keep to a bound."""

    def bound(shape: tuple[int, ...]) -> _Bound:
        # Twice the numbers, because a filter may have stored them as a larger type.
        return _Bound(name, 2 * math.prod(shape) * array.dtype.itemsize + _SPARE_BYTES)

    def wrapped(codec: Any, shape: tuple[int, ...]) -> Any:
        """A *codec* of Zarr 3 for chunks of *shape* numbers."""
        if isinstance(codec, ShardingCodec):
            # A shard is decompressed chunk by chunk, so a bound for chunks counts inside it.
            inner = tuple(wrapped(each, array.chunks) for each in codec.codecs)
            return dataclasses.replace(codec, codecs=inner)
        is_compressing = isinstance(codec, BytesBytesCodec)
        return _BoundedCodec(codec, bound(shape)) if is_compressing else codec

    metadata = array.metadata
    changed: dict[str, Any]
    if metadata.zarr_format == 3:
        sides = array.shards or array.chunks
        changed = {"codecs": tuple(wrapped(codec, sides) for codec in metadata.codecs)}
    else:
        limit = bound(array.chunks)
        # Either may be None: chunks without compression, or without filters.
        filters = metadata.filters
        changed = {
            "compressor": metadata.compressor and _BoundedFilter(metadata.compressor, limit),
            "filters": filters and tuple(_BoundedFilter(each, limit) for each in filters),
        }
    metadata = dataclasses.replace(metadata, **changed)
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path))
