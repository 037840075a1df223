"""Clips: the cubes of all frames in one file; what is broken stays empty, in its place."""

import errno
import re
import socket
import weakref
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import colour
import numpy as np
import pytest
import tifffile
import xarray
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tests.conftest import on_cpu

import napari_mst as nm
from napari_mst.base import atomic_save, sandbox
from napari_mst.base.errors import CubeFileError, OutOfMemory, PhotoError, SaveError
from napari_mst.batch.clips import _sampled, reconstruct_clip, write_clip
from napari_mst.cli.main import main
from napari_mst.formats.zarr.reading import read_clip
from napari_mst.formats.zarr.writing import CubeClip
from napari_mst.photo import video as decoder
from napari_mst.photo.frames import Frame, frames_of

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(40, 220, (4, 3, 4, 3), dtype=np.uint8).repeat(16, 1).repeat(16, 2)
FRAMES[:, 16:32, 16:32] = (200, 120, 60)  # what is the same in all of them


def video(path: Path, **changes: Any) -> Path:
    """A video of FRAMES, or of others, every 0.2 s, in MJPEG or with other properties."""
    av = pytest.importorskip("av")
    chosen: dict[str, Any] = {"codec": "mjpeg", "pix_fmt": "yuvj444p", "options": {}, "tags": {}}
    chosen |= {"frames": FRAMES} | changes
    frames = chosen["frames"]
    times = chosen.get("times", range(0, 200 * len(frames), 200))
    with av.open(path, "w", options=chosen.get("muxing", {})) as container:
        stream = container.add_stream(chosen["codec"], rate=5, options=chosen["options"])
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = chosen["pix_fmt"]
        if chosen["codec"] != "mjpeg":
            stream.codec_context.time_base = Fraction(1, 1000)
        if "turned" in chosen:
            stream.set_display_rotation(*chosen["turned"])
        for name, value in chosen["tags"].items():
            setattr(stream.codec_context, name, value)
        kind = "rgb48le" if frames.dtype == np.uint16 else "rgb24"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format=kind)
            matrix = chosen["tags"].get("colorspace")
            if matrix in (1, 5, 9):
                frame = frame.reformat(format=chosen["pix_fmt"], dst_colorspace=matrix)
            for name, value in chosen["tags"].items():
                setattr(frame, name, value)
            if chosen["codec"] != "mjpeg":
                frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


H264: dict[str, Any] = {"codec": "libx264", "pix_fmt": "yuv444p", "options": {"qp": "0", "g": "4"}}
GREY = {"colorspace": 1}  # tagged, so that greys keep their values
LEVELS = np.arange(20, 240, 20)
GREYS = np.ones((1, 48, 64, 3), np.uint8) * LEVELS[:, None, None, None].astype(np.uint8)


def gif(path: Path) -> Path:
    pytest.importorskip("av")
    images = [Image.fromarray(frame) for frame in FRAMES]
    images[0].save(path, save_all=True, append_images=images[1:], duration=200)
    return path


def pages(path: Path) -> Path:
    tifffile.imwrite(path, FRAMES, photometric="rgb")
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    for number, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(path / f"{number}.png")
    return path


def photos(clip: Path) -> list[nm.Photo]:
    """The frames of *clip*, none of which is damaged."""
    contents = [frame.content for frame in frames_of(clip) if isinstance(frame, Frame)]
    return [content for content in contents if isinstance(content, nm.Photo)]


def seconds(clip: Path) -> list[float | None]:
    return [frame.seconds for frame in frames_of(clip) if isinstance(frame, Frame)]


@pytest.mark.parametrize(
    ("make", "name", "bound", "times"),
    [
        (video, "a.avi", 12, [0, 0.2, 0.4, 0.6]),
        (gif, "a.gif", 12, [0, 0.2, 0.4, 0.6]),
        (pages, "a.tif", 0, [None] * 4),
        (folder, "a", 0, [None] * 4),
    ],
)
def test_each_kind_of_clip_has_its_frames_and_their_times(
    make: Any, name: str, bound: int, times: list[float | None], tmp_path: Path, apart: None
) -> None:
    clip = make(tmp_path / name)
    shown = np.stack([np.moveaxis(frame.pixels, 0, -1) for frame in photos(clip)]).astype(int)
    assert np.abs(shown - FRAMES).max() <= bound
    assert seconds(clip) == (times if None in times else pytest.approx(times))


@pytest.mark.parametrize("name", ["a.avi", "a.tif"])
def test_no_clip_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no clip")
    with pytest.raises(PhotoError, match="Expected a clip, got"):
        list(frames_of(tmp_path / name))
    with pytest.raises(PhotoError, match="no file of this name"):
        list(frames_of(tmp_path / f"missing{name}"))


def test_a_list_of_other_files_opens_none_of_them(tmp_path: Path) -> None:
    """Neither files nor addresses: the lists are the plainest that FFmpeg's manual shows."""
    video(tmp_path / "a.ts", **H264)
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile a.ts\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"
        playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{address}\n#EXT-X-ENDLIST\n"
        (tmp_path / "play.mp4").write_text(playlist)
        for name in ("list.mp4", "play.mp4"):
            with pytest.raises(PhotoError, match="Expected a clip, got"):
                list(frames_of(tmp_path / name))
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_memory_of_the_decoder_is_limited_by_its_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []
    monkeypatch.setattr(sandbox, "limit_memory", rooms.append)
    assert len(photos(video(tmp_path / "a.avi"))) == len(FRAMES)
    room = sandbox.ROOM_BYTES
    assert rooms == [room, room + decoder._PIXEL_BYTES * 48 * 64]


def test_frames_beyond_the_largest_photo_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.photo.raw.MAX_PIXELS", 48 * 64 - 1)
    with pytest.raises(PhotoError, match="at most 3,071 pixels"):
        photos(video(tmp_path / "a.avi"))


# ------------------------------------------------------------------------------------------ colours

LIGHT = np.linspace(0.02, 0.9, 48 * 64 * 3).reshape(1, 48, 64, 3)
"""Light of a scene, linear in the primaries of sRGB, where 1 is white."""
PRIMARIES = {9: "ITU-R BT.2020", 12: "Display P3"}


@pytest.mark.parametrize(
    ("curve", "primaries", "encode"),
    [
        (18, 9, lambda rgb: colour.models.oetf_BT2100_HLG(rgb * 0.26496256)),
        (16, 9, lambda rgb: colour.models.eotf_inverse_ST2084(rgb * 203)),
        (13, 12, colour.models.eotf_inverse_sRGB),
        (8, 1, lambda rgb: rgb),
    ],
    ids=["HLG", "PQ", "P3", "linear"],
)
def test_the_light_of_a_video_is_that_of_the_scene(
    curve: int, primaries: int, encode: Any, tmp_path: Path
) -> None:
    scene = LIGHT
    if primaries in PRIMARIES:
        srgb, wide = (colour.RGB_COLOURSPACES[n] for n in ("sRGB", PRIMARIES[primaries]))
        scene = LIGHT @ colour.matrix_RGB_to_RGB(srgb, wide).T
    with np.errstate(invalid="ignore"):  # colour takes the logarithm of what is dark too
        stored = np.round(encode(scene) * 65535).astype(np.uint16)
    tags = {"colorspace": 9, "color_trc": curve, "color_primaries": primaries, "color_range": 1}
    options = {"x265-params": "log-level=error:lossless=1"}
    clip = video(
        tmp_path / "a.mp4",
        codec="libx265",
        pix_fmt="yuv444p10le",
        frames=stored,
        options=options,
        tags=tags,
    )
    (photo,) = photos(clip)
    assert photo.encoding == "linear"
    assert_allclose(np.moveaxis(photo.pixels, 0, -1), LIGHT[0], atol=0.01)


@pytest.mark.parametrize("said", ["transfer curve 9", "matrix 1"])
def test_unknown_colours_are_refused(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "_MATRICES", {5: 5})
    tags = GREY if "matrix" in said else {"colorspace": 5, "color_trc": 9}
    with pytest.raises(PhotoError, match=f"got {said} of H.273"):
        photos(video(tmp_path / "a.mkv", **H264, tags=tags))


@pytest.mark.parametrize("matrix", [1, 5])
def test_the_matrix_of_a_video_is_obeyed(matrix: int, tmp_path: Path) -> None:
    clip = video(tmp_path / "a.mkv", **H264, tags={"colorspace": matrix})
    shown = np.stack([np.moveaxis(photo.pixels, 0, -1) for photo in photos(clip)]).astype(int)
    assert np.abs(shown - FRAMES).max() <= 2
    assert not photos(clip)[0].assumptions


@pytest.mark.parametrize(("size", "name"), [((48, 64), "BT.601"), ((16, 1280), "BT.709")])
def test_an_untagged_matrix_is_told_by_the_size_and_said(
    size: tuple[int, int], name: str, tmp_path: Path
) -> None:
    frames = np.full((1, *size, 3), (200, 60, 30), np.uint8)
    (photo,) = photos(video(tmp_path / "a.mkv", **H264, frames=frames))
    assert photo.assumptions == (
        f"Its colour matrix is not tagged: by its size, {name} was taken.",
    )
    is_right = np.abs(photo.pixels[:, 5, 5].astype(int) - frames[0, 5, 5]).max() <= 2
    assert is_right == (name == "BT.601")  # PyAV encodes an untagged video by that


@pytest.mark.parametrize("turned", [(0, True), (90,), (180,), (-90,), (90, True), (-90, True)])
def test_a_video_is_upright(turned: Any, tmp_path: Path) -> None:
    degrees, *flip = turned
    tags = {"colorspace": 1}
    (photo, *_) = photos(video(tmp_path / "a.mp4", **H264, tags=tags, turned=turned))
    expected = np.rot90(FRAMES[0], degrees // 90)  # against the clock
    expected = expected[:, ::-1] if flip else expected
    assert np.abs(np.moveaxis(photo.pixels, 0, -1).astype(int) - expected).max() <= 2


# -------------------------------------------------------------------------------------------- times

UNEVEN = [0, 100, 150, 400, 1000, 1100, 1101, 1500, 1501, 2000, 2100]


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_uneven_times_are_those_of_the_frames(suffix: str, tmp_path: Path) -> None:
    clip = video(tmp_path / f"a{suffix}", **H264, frames=GREYS, tags=GREY, times=UNEVEN)
    assert seconds(clip) == pytest.approx(np.array(UNEVEN) / 1000, abs=1e-3)
    assert [photo.pixels.mean() for photo in photos(clip)] == pytest.approx(LEVELS, abs=1)


def test_predicted_frames_in_avi_have_even_times_in_their_order(tmp_path: Path) -> None:
    clip = video(tmp_path / "a.avi", **H264, frames=GREYS, tags=GREY)
    assert seconds(clip) == pytest.approx(np.arange(11) / 5)
    assert [photo.pixels.mean() for photo in photos(clip)] == pytest.approx(LEVELS, abs=1)


@pytest.mark.parametrize("is_even", [True, False])
def test_the_times_of_a_clip_are_the_axis_of_its_file(is_even: bool, tmp_path: Path) -> None:
    times = list(range(0, 2200, 200)) if is_even else UNEVEN
    clip = video(tmp_path / "a.mkv", **H264, frames=GREYS[:, :8, :8], times=times)
    reconstructor = on_cpu("pixelwise-srgb")
    target = tmp_path / "a.zarr"
    write_clip(target, reconstruct_clip(partial(frames_of, clip), reconstructor))
    with xarray.open_zarr(target, consolidated=False) as found:
        assert found["0"].dims[0] == "t"
        assert found["0"].attrs["seconds"] == pytest.approx(np.array(times) / 1000, abs=1e-3)
    ome: Any = zarr.open_group(str(target)).attrs["ome"]
    (image,) = ome["multiscales"]
    assert ("unit" in image["axes"][0]) == is_even
    scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
    assert scale[0] == pytest.approx(0.2 if is_even else 1)
    stack = read_clip(target)
    assert stack is not None
    start, step, label = stack.axis
    assert (start, label) == (0, "time (s)" if is_even else "frame")
    assert step == scale[0]


# ------------------------------------------------------------------------------------------- damage


def test_damaged_frames_are_named_and_keep_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = folder(tmp_path / "clip")
    whole = (clip / "1.png").read_bytes()
    (clip / "1.png").write_bytes(whole[: len(whole) // 2])
    Image.new("RGB", (9, 9)).save(clip / "2.png")
    target = tmp_path / "clip.zarr"
    arguments = ["clip", str(clip), "-o", str(target), "--model", "pixelwise-srgb"]
    assert main([*arguments, "--at", "20,30"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{target}\n{tmp_path / 'clip_20_30.csv'}\n"
    assert "1.png" in err
    assert "2.png: Expected (48, 64) pixels, got (9, 9). It stays empty." in err
    array: Any = zarr.open_array(str(target / "0"), mode="r")
    assert array.shape == (4, 31, 48, 64)
    assert np.isnan(array[1:3]).all()
    single = on_cpu("pixelwise-srgb").reconstruct(FRAMES[3])
    assert_array_equal(array[3], single.data)
    spectra = nm.read_spectra(tmp_path / "clip_20_30.csv")
    assert [spectrum.name for spectrum in spectra] == ["frame 0", "frame 3"]
    assert_allclose(spectra[1].values, array[3, :, 20, 30], rtol=1e-6)
    ome: Any = zarr.open_group(str(target)).attrs["ome"]
    assert [axis["name"] for axis in ome["multiscales"][0]["axes"]] == ["t", "wavelength", "y", "x"]
    for file in clip.iterdir():
        file.write_bytes(b"")
    assert main([*arguments, "--overwrite"]) == 2
    assert "no frame that can be read" in capsys.readouterr().err
    assert target.exists()


@pytest.mark.parametrize(("suffix", "lost"), [(".mkv", [5, 6, 7]), (".mp4", [5, 6, 7])])
def test_what_is_predicted_from_damage_is_damaged_and_the_rest_keeps_its_number_and_time(
    suffix: str, lost: list[int], tmp_path: Path
) -> None:
    options = H264["options"] | {"bf": "0"}
    clip = video(tmp_path / f"a{suffix}", **H264 | {"options": options}, frames=GREYS, tags=GREY)
    whole, times = photos(clip), seconds(clip)
    av = pytest.importorskip("av")
    with av.open(clip) as container:
        fifth = [packet for packet in container.demux(video=0) if packet.size][5]
        payload = bytes(fifth)
    data = clip.read_bytes()
    assert data.count(payload) == 1
    clip.write_bytes(data.replace(payload, payload[:4] + bytes(len(payload) - 4)))
    found = list(frames_of(clip))
    assert [frame.seconds for frame in found if isinstance(frame, Frame)] == times
    for number, (frame, photo) in enumerate(zip(found, whole, strict=True)):
        assert isinstance(frame, Frame)
        if number in lost:
            assert f"frame {number}: Expected a frame, got damage" in str(frame.content)
        else:
            assert isinstance(frame.content, nm.Photo)
            assert_array_equal(frame.content.pixels, photo.pixels)


def test_a_damaged_frame_of_a_video_is_named(tmp_path: Path) -> None:
    path = video(tmp_path / "a.avi")
    data = path.read_bytes()
    _, start, end, _ = (found.start() for found in re.finditer(b"\xff\xd8\xff", data))
    path.write_bytes(data[:start] + bytes(end - 8 - start) + data[end - 8 :])  # chunk headers: 8
    found = [frame for frame in frames_of(path) if isinstance(frame, Frame)]
    assert [isinstance(frame.content, nm.Photo) for frame in found] == [True, False, True, True]
    assert "a.avi, frame 1: Expected a frame, got damage" in str(found[1].content)


@pytest.mark.parametrize(
    "name", ["a.mkv", "a.mp4", "fragments.mp4", "large.mp4", "a.avi", "a.gif", "a.tif"]
)
def test_a_clip_that_is_cut_short_says_so(name: str, tmp_path: Path) -> None:
    muxing = {"movflags": "frag_keyframe+empty_moov" if name[0] == "f" else "faststart"}
    make = {".gif": gif, ".tif": pages}.get(Path(name).suffix, video)
    changes = {} if make is not video or name == "a.avi" else H264 | {"muxing": muxing}
    clip = make(tmp_path / name, **changes)
    data = clip.read_bytes()
    if name == "large.mp4":
        # The box of the frames states its length in 64 bits, as where there are 4 GB or more.
        before, after = data.split(b"\0\0\0\x08free", 1)
        length = int.from_bytes(after[:4]) + 8
        data = before + b"\0\0\0\1mdat" + length.to_bytes(8) + after[8:]
        clip.write_bytes(data)
    assert all(isinstance(frame, Frame) for frame in frames_of(clip))
    clip.write_bytes(data[: len(data) * 9 // 10])
    *frames, last = frames_of(clip)
    assert frames
    assert isinstance(last, PhotoError)
    assert f"Expected all of {name}, got a file that is cut short" in str(last)


# -------------------------------------------------------------------------------------------- saves


def cubes_of(tmp_path: Path) -> Any:
    reconstructor = on_cpu("pixelwise-srgb")
    clip = folder(tmp_path / "clip")
    return reconstruct_clip(partial(frames_of, clip), reconstructor)


def test_a_full_disk_leaves_nothing_of_a_clip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_item = zarr.Array.__setitem__

    def full(array: Any, key: Any, value: Any) -> None:
        set_item(array, key, value)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zarr.Array, "__setitem__", full)
    clip = cubes_of(tmp_path)
    with pytest.raises(SaveError, match="No space left"):
        write_clip(tmp_path / "clip.zarr", clip)
    assert {path.name for path in tmp_path.iterdir()} == {"clip"}


def test_a_clip_asks_for_its_space_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 4 * 31 * 48 * 64 * 4
    monkeypatch.setattr(atomic_save, "free_bytes", lambda _: needed)
    clip = cubes_of(tmp_path)
    with pytest.raises(SaveError, match=f"Expected {needed} bytes of free space"):
        write_clip(tmp_path / "clip.zarr", clip)
    assert {path.name for path in tmp_path.iterdir()} == {"clip"}


@pytest.mark.parametrize(
    ("frames", "side"), [(2**40, 64), (1, 2**40)], ids=["many-frames", "large-chunks"]
)
def test_a_clip_of_a_stranger_has_the_bounds_of_a_cube(
    frames: int, side: int, tmp_path: Path
) -> None:
    clip = cubes_of(tmp_path)
    one = clip._replace(shape=(1, *clip.shape[1:]), cubes=islice(clip.cubes, 1), seconds=[None])
    target = write_clip(tmp_path / "clip.zarr", one)
    assert read_clip(target) is not None
    shape, chunks = (frames, 31, 48, 64), (1, 1, side, side)
    zarr.create_array(f"{target}/0", shape=shape, chunks=chunks, dtype="f4", overwrite=True)
    with pytest.raises(OutOfMemory):
        read_clip(target)


def test_a_clip_without_frames_is_refused(tmp_path: Path) -> None:
    clip = cubes_of(tmp_path)
    with pytest.raises(SaveError, match="got none"):
        write_clip(tmp_path / "none.zarr", clip._replace(cubes=iter([])))
    target = write_clip(tmp_path / "clip.zarr", clip)
    zarr.open_array(f"{target}/0").resize((0, 31, 48, 64))
    with pytest.raises(CubeFileError, match=r"got shape \(0, 31, 48, 64\)"):
        read_clip(target)


def test_steady_statistics_are_those_of_frames_from_all_over_the_clip() -> None:
    made = [nm.Photo.from_array(np.full((2, 2, 3), at, np.uint8), name=f"{at}") for at in range(20)]
    sample, times = _sampled(iter([(None, 0.0), *((photo, 1.0) for photo in made)]))
    assert [photo.name for photo in sample] == ["0", "4", "8", "12", "16"]
    assert times == [0.0] + [1.0] * 20


def test_steady_statistics_keep_what_is_the_same_the_same(tmp_path: Path) -> None:
    reconstructor = on_cpu("mstpp-srgb", denoise="off", correct_colour=False)
    beside = np.array([[30, 200, 90], [220, 220, 220], [120, 20, 20]], np.uint8)
    frames = np.concatenate([FRAMES[:1].repeat(3, 0).repeat(3, 1).repeat(2, 2)] * 2, axis=2)
    frames[:, :, 128:] = beside[:, None, None]
    tifffile.imwrite(tmp_path / "a.tif", frames, photometric="rgb")
    read = partial(frames_of, tmp_path / "a.tif")
    flicker = []
    for is_steady in (False, True):
        cubes = reconstruct_clip(read, reconstructor, is_steady=is_steady).cubes
        spectra = np.stack([np.asarray(cube.data)[:, 72, 64] for cube in cubes if cube])
        flicker.append(float(spectra.std(0).max()))
    assert flicker[0] > 1e-3
    assert flicker[1] < 1e-6


def test_no_cube_of_a_clip_is_in_memory_while_the_next_is_computed(tmp_path: Path) -> None:
    alive = list[weakref.ref[nm.SpectralCube]]()
    reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))

    def cubes() -> Iterator[nm.SpectralCube]:
        for frame in FRAMES:
            assert not any(each() for each in alive)
            cube = reconstructor.reconstruct(frame)
            alive.append(weakref.ref(cube))
            yield cube
            del cube

    shape = len(FRAMES), 31, *FRAMES.shape[1:3]
    write_clip(tmp_path / "a.zarr", CubeClip(cubes(), shape, [None] * len(FRAMES)))
    assert len(alive) == len(FRAMES)
