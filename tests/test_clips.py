"""Clips: the cubes of all frames in one file, and what is broken left out."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import napari_mst as nm
from napari_mst.batch.clips import reconstruct_clip
from napari_mst.cli.main import main
from napari_mst.errors import NapariMstError, PhotoError
from napari_mst.photo.frames import frames_of

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(40, 220, (4, 3, 4, 3), dtype=np.uint8).repeat(16, 1).repeat(16, 2)
FRAMES[:, 16:32, 16:32] = (200, 120, 60)  # what is the same in all of them


def video(path: Path) -> Path:
    av = pytest.importorskip("av")
    with av.open(path, "w") as container:
        stream = container.add_stream("mjpeg", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj444p"
        for frame in FRAMES:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")):
                container.mux(packet)
    return path


def gif(path: Path) -> Path:
    pytest.importorskip("av")
    images = [Image.fromarray(frame) for frame in FRAMES]
    images[0].save(path, save_all=True, append_images=images[1:])
    return path


def pages(path: Path) -> Path:
    tifffile.imwrite(path, FRAMES, photometric="rgb")
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    for number, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(path / f"{number}.png")
    return path


@pytest.mark.parametrize(
    ("make", "name", "bound"),
    [(video, "a.avi", 12), (gif, "a.gif", 12), (pages, "a.tif", 0), (folder, "a", 0)],
)
def test_each_kind_of_clip_has_its_frames(make: Any, name: str, bound: int, tmp_path: Path) -> None:
    found = [frame for frame in frames_of(make(tmp_path / name)) if isinstance(frame, nm.Photo)]
    shown = np.stack([np.moveaxis(frame.pixels, 0, -1) for frame in found]).astype(int)
    assert np.abs(shown - FRAMES).max() <= bound


@pytest.mark.parametrize("name", ["a.avi", "a.tif"])
def test_no_clip_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no clip")
    with pytest.raises(PhotoError, match="Expected a clip, got"):
        list(frames_of(tmp_path / name))
    with pytest.raises(PhotoError, match="Expected a clip, got"):
        list(frames_of(tmp_path / f"missing{name}"))


def test_damaged_frames_are_named_and_left_out(
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
    assert "2.png: Expected (48, 64) pixels, got (9, 9). It is left out." in err
    array: Any = zarr.open_array(str(target / "0"), mode="r")
    assert array.shape == (2, 31, 48, 64)
    single = nm.Reconstructor(nm.load_model("pixelwise-srgb"), "cpu").reconstruct(FRAMES[3])
    np.testing.assert_array_equal(array[1], single.data)
    spectra = nm.read_spectra(tmp_path / "clip_20_30.csv")
    assert [spectrum.name for spectrum in spectra] == ["frame 0", "frame 1"]
    np.testing.assert_allclose(spectra[1].values, array[1, :, 20, 30], rtol=1e-6)
    ome: Any = zarr.open_group(str(target)).attrs["ome"]
    assert [axis["name"] for axis in ome["multiscales"][0]["axes"]] == ["t", "wavelength", "y", "x"]
    for file in clip.iterdir():
        file.write_bytes(b"")
    assert main([*arguments, "--overwrite"]) == 2
    assert "no frame that can be read" in capsys.readouterr().err
    assert target.exists()


def test_steady_statistics_keep_what_is_the_same_the_same(tmp_path: Path) -> None:
    reconstructor = nm.Reconstructor(
        nm.load_model("mstpp-srgb"), "cpu", denoise="off", correct_colour=False
    )
    beside = np.array([[30, 200, 90], [220, 220, 220], [120, 20, 20]], np.uint8)
    frames = np.concatenate([FRAMES[:1].repeat(3, 0).repeat(3, 1).repeat(2, 2)] * 2, axis=2)
    frames[:, :, 128:] = beside[:, None, None]
    tifffile.imwrite(tmp_path / "a.tif", frames, photometric="rgb")
    read = partial(frames_of, tmp_path / "a.tif")
    flicker = []
    for is_steady in (False, True):
        cubes = reconstruct_clip(read, reconstructor, is_steady=is_steady)
        spectra = np.stack([np.asarray(cube.data)[:, 72, 64] for cube in cubes])
        flicker.append(float(spectra.std(0).max()))
    assert flicker[0] > 1e-3
    assert flicker[1] < 1e-6


def test_a_damaged_frame_of_a_video_is_named(tmp_path: Path) -> None:
    path = video(tmp_path / "a.avi")
    data = path.read_bytes()
    _, start, end, _ = (found.start() for found in re.finditer(b"\xff\xd8\xff", data))
    path.write_bytes(data[:start] + bytes(end - 8 - start) + data[end - 8 :])  # chunk headers: 8
    first, second, *others = frames_of(path)
    assert isinstance(second, NapariMstError)
    assert "a.avi, frame 1: Expected a frame, got damage" in str(second)
    assert all(isinstance(frame, nm.Photo) for frame in (first, *others))
    assert len(others) == 2
