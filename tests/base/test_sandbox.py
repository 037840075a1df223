"""Files of strangers are decoded by a process that may crash, hang, print or be refused memory."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from tests.raw_photos import write_dng

from napari_mst.base import sandbox
from napari_mst.base.arrays import Singles
from napari_mst.base.errors import CubeFileError, NapariMstError, OutOfMemory, PhotoError, mismatch
from napari_mst.formats import read_cube
from napari_mst.photo.frames import frames_of
from napari_mst.photo.photo import Photo

pytestmark = pytest.mark.usefixtures("apart")
Decode = Callable[[str], Singles]
KILL = "import os, signal; os.kill(os.getpid(), signal.{})" if os.name != "nt" else "os._exit(5)"
DECODERS = f"""
import os, signal, time
import numpy as np
from napari_mst.base.sandbox import limit_memory

LINE = {{"shape": [2, 3], "dtype": "<f4"}}

def whole(path):
    os.write(1, b"what a library prints")
    return LINE, [np.full(3, 1, "<f4"), np.full(3, 2, "<f4")]

def crash(path):
    {KILL.format("SIGSEGV")}

def half(path):
    def parts():
        yield np.ones(3, "<f4")
        {KILL.format("SIGSEGV")}
    return LINE, parts()

def several(path):
    yield LINE, [np.full(6, 1, "<f4")]
    yield LINE, [np.full(6, 2, "<f4")]

def some(path):
    yield LINE, [np.full(6, 1, "<f4")]
    {KILL.format("SIGSEGV")}

def hang(path):
    time.sleep(100)

def starved(path):
    {KILL.format("SIGKILL")}

def unstarted(path):
    raise ImportError("numpy.so: failed to map segment from shared object")

def swollen(path):
    limit_memory(2**28)
    np.ones(2**29, "u1")
"""
no_limits = pytest.mark.skipif(
    sys.platform in ("darwin", "win32"), reason="only Linux sets limits of memory"
)


@pytest.fixture
def decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decode:
    """Decodes a file by one of the functions of `DECODERS`."""
    (tmp_path / "decoders.py").write_text(DECODERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def decoded_by(name: str) -> Singles:
        def refusal(got: str, advice: str) -> CubeFileError:
            return mismatch("a.mat", "a file", got, advice)

        function = f"decoders:{name}"
        _, numbers = sandbox.decoded(function, tmp_path / "decoders.py", [], refusal)
        return numbers

    return decoded_by


def test_numbers_arrive_whole_whatever_a_library_prints(
    decoded: Decode,
) -> None:
    assert decoded("whole").tolist() == [[1, 1, 1], [2, 2, 2]]


def test_a_decoder_may_give_several_results(decoded: Decode, tmp_path: Path) -> None:
    results = sandbox.stream("decoders:several", tmp_path / "decoders.py", [], Mock())
    assert [int(numbers.mean()) for _, numbers in results] == [1, 2]
    results = sandbox.stream(
        "decoders:some", tmp_path / "decoders.py", [], Mock(return_value=EOFError("crash"))
    )
    assert int(next(results)[1].mean()) == 1
    with pytest.raises(EOFError, match="crash"):
        next(results)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crash", "crashes its reader. It is damaged; get the file again"),
        ("half", "crashes its reader"),
        ("hang", "its reader does not finish"),
    ],
)
def test_a_file_that_crashes_or_stops_its_decoder_is_refused(
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    message: str,
) -> None:
    if name == "hang":
        monkeypatch.setattr(sandbox, "SECONDS", 0.5)
    with pytest.raises(CubeFileError, match=message):
        decoded(name)
    # A clock that runs on would hold up the end of the program.
    clocks = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    assert all(clock.finished.is_set() for clock in clocks)


@pytest.mark.skipif(os.name == "nt", reason="Windows ends no process for want of memory")
@pytest.mark.parametrize("name", ["starved", "unstarted", pytest.param("swollen", marks=no_limits)])
def test_a_decoder_without_memory_does_not_blame_the_file(decoded: Decode, name: str) -> None:
    with pytest.raises(MemoryError):
        decoded(name)


def test_decoding_goes_on_where_no_memory_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="limits of memory are a thing of POSIX")
    refuse_limit = Mock(side_effect=ValueError("current limit exceeds maximum limit"))
    monkeypatch.setattr(resource, "setrlimit", refuse_limit)
    sandbox.limit_memory(2**28)
    refuse_limit.assert_called_once()


def mat(folder: Path) -> object:
    savemat(folder / "a.mat", {"cube": np.ones((31, 12, 40), np.float32)})
    return read_cube(folder / "a.mat")


def raw(folder: Path) -> object:
    pytest.importorskip("rawpy")
    return Photo.read(write_dng(folder / "a.dng", np.full((40, 60, 3), 0.3)))


def clip(folder: Path) -> object:
    pytest.importorskip("av")
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "a.gif", save_all=True, append_images=frames[1:])
    return list(frames_of(folder / "a.gif"))


@pytest.mark.parametrize(
    ("read", "refusal"), [(mat, CubeFileError), (raw, PhotoError), (clip, PhotoError)]
)
def test_every_stranger_is_decoded_by_a_process_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Path], object],
    refusal: type[NapariMstError],
) -> None:
    (tmp_path / "child.py").write_text("import os\n" + KILL.format("SIGSEGV"))
    popen = subprocess.Popen
    crashing = [sys.executable, str(tmp_path / "child.py")]
    monkeypatch.setattr(subprocess, "Popen", lambda _, **rest: popen(crashing, **rest))
    with pytest.raises(refusal, match=r"Expected a .*, got one that crashes its reader"):
        read(tmp_path)
    (tmp_path / "child.py").write_text("raise MemoryError")
    if os.name != "nt":
        with pytest.raises(OutOfMemory, match=r"Expected memory for .*, got too little"):
            read(tmp_path)
