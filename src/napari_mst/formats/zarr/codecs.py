"""Zarr arrays whose chunks never decompress to far more bytes than their numbers need.

A chunk of 60 kB can decompress to gigabytes, and zarr would notice only afterwards.
"""

import dataclasses
import math
from asyncio import to_thread
from dataclasses import dataclass
from typing import Any

import imagecodecs
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec

_SPARE_BYTES = 2**16
# Zarr compressors in imagecodecs, which stops when its output is full.
_COMPRESSORS = ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd")


def _decoded(codec: str, data: Any, most: int) -> bytes | bytearray | None:
    """*data* decompressed to at most *most* bytes; None if *codec* itself is safe."""
    if codec not in _COMPRESSORS:
        return None
    options = {"header": True} if codec == "lz4" else {}
    return getattr(imagecodecs, f"{codec}_decode")(data, out=most, **options)


@dataclass(frozen=True)
class _BoundedCodec(BytesBytesCodec):
    """A Zarr 3 codec with a bound on the decompressed size."""

    codec: BytesBytesCodec
    most: int

    is_fixed_size = False

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        name = str(self.codec.to_dict()["name"]).removeprefix("numcodecs.")
        data = await to_thread(_decoded, name, memoryview(chunk_bytes.as_numpy_array()), self.most)
        if data is not None:
            return chunk_spec.prototype.buffer.from_bytes(data)
        (decoded,) = await self.codec.decode([(chunk_bytes, chunk_spec)])
        return decoded

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return self.codec.compute_encoded_size(input_byte_length, chunk_spec)


class _BoundedFilter(Codec):  # type: ignore[misc]  # numcodecs has no types
    """A Zarr 2 compressor or filter with a bound on the decompressed size."""

    codec_id = "bounded"

    def __init__(self, codec: Any, most: int) -> None:
        self._codec, self._most = codec, most

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = _decoded(self._codec.codec_id, memoryview(buf).cast("B"), self._most)
        return self._codec.decode(buf, out) if data is None else data

    def encode(self, buf: Any) -> Any:
        return self._codec.encode(buf)


def bounded(array: Any) -> Any:
    """The Zarr *array* for reading, with bounds on the decompressed size of its chunks."""

    def bound(shape: tuple[int, ...]) -> int:
        # Twice the size, because a filter may have stored the numbers in a larger type.
        return 2 * math.prod(shape) * array.dtype.itemsize + _SPARE_BYTES

    def wrapped(codec: Any, shape: tuple[int, ...]) -> Any:
        """The Zarr 3 *codec* with a bound for chunks of *shape*."""
        if isinstance(codec, ShardingCodec):
            # A shard is decompressed chunk by chunk, so the bound inside it is that of a chunk.
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
        # Either is None for chunks without compression or without filters.
        filters = metadata.filters
        changed = {
            "compressor": metadata.compressor and _BoundedFilter(metadata.compressor, limit),
            "filters": filters and tuple(_BoundedFilter(each, limit) for each in filters),
        }
    metadata = dataclasses.replace(metadata, **changed)
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path))
