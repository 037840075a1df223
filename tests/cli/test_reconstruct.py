"""The command line as a shell sees it: exit code, standard output, standard error and files."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import napari_mst
from napari_mst.cli import main as cli
from napari_mst.cube import SpectralCube
from napari_mst.engine.device import choose_device
from napari_mst.errors import Cancelled, OutOfMemory
from napari_mst.evaluation.baselines import BASELINES
from napari_mst.formats import write_cube
from napari_mst.models import MODELS, ModelCard
from napari_mst.models.cards import card_to_metadata
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.spectra.library import read_spectra

RECONSTRUCT = napari_mst.Reconstructor.reconstruct
Run = Callable[..., tuple[int, str, str]]

CARD = ModelCard(
    "tiny",
    "Untrained",
    (450.0, 500.0, 550.0, 600.0),
    True,
    "none",
    "reflectance",
    domain="Nothing.",
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network of four bands."""
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = MSTPlusPlus(out_bands=4, stages=1).state_dict()
    safetensors.torch.save_file(state, file, metadata=card_to_metadata(CARD))
    return file


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    file = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)).save(file)
    return file


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], weights: Path) -> Run:
    def run_command(command: str, *arguments: object) -> tuple[int, str, str]:
        defaults = (
            ["--model", str(weights), "--device", "cpu"]
            if command in ("reconstruct", "attention")
            else []
        )
        code = cli.main([command, *defaults, *map(str, arguments)])
        return code, *capsys.readouterr()

    return run_command


def test_cube_equals_that_of_the_api_bit_for_bit(run: Run, photo: Path, weights: Path) -> None:
    code, out, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    expected = napari_mst.Reconstructor(napari_mst.load_model(weights), "cpu").reconstruct(photo)
    cube = napari_mst.read_cube(photo.with_name("cube.hdr"))
    assert (code, out) == (0, f"{photo.with_name('cube.hdr')}\n")
    assert np.array_equal(cube.data, expected.data)
    assert cube.provenance == expected.provenance
    assert "note: running on cpu" in err
    assert "100%" in err


def test_linear_photos_are_not_decoded(run: Run, photo: Path, weights: Path) -> None:
    assert run("reconstruct", photo, "--linear", "-o", photo.with_name("cube.tif"))[0] == 0
    source = napari_mst.Photo.read(photo, encoding="linear")
    expected = napari_mst.Reconstructor(napari_mst.load_model(weights), "cpu").reconstruct(source)
    assert np.array_equal(napari_mst.read_cube(photo.with_name("cube.tif")).data, expected.data)


def test_what_was_assumed_is_noted(run: Run, photo: Path) -> None:
    Image.open(photo).convert("L").save(photo)
    code, _, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    assert code == 0
    assert [
        line for line in err.splitlines() if line.startswith("note: photo.png: ") and "rey" in line
    ]


def test_format_says_what_is_written_into_a_folder(run: Run, photo: Path, tmp_path: Path) -> None:
    assert (
        run("reconstruct", photo, "-o", tmp_path, "--format", "tiff")[1]
        == f"{tmp_path / 'photo.tif'}\n"
    )


@pytest.mark.parametrize("suffix", cli.SUFFIXES.values())
def test_info_says_what_the_file_holds_and_what_made_it(run: Run, photo: Path, suffix: str) -> None:
    run("reconstruct", photo, "-o", photo.with_name(f"cube{suffix}"))
    code, out, err = run("info", photo.with_name(f"cube{suffix}"))
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert (code, err) == (0, "")
    assert facts["shape"].strip() == "4 bands x 6 rows x 9 columns"
    assert facts["type"].strip() == "float32"
    assert facts["wavelengths"].strip() == "450 to 600 nm"
    assert facts["model"].strip() == "tiny"
    assert f"torch {version('torch')}" in facts["versions"]


def test_what_the_reader_ignored_is_noted(run: Run, photo: Path) -> None:
    run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    header = photo.with_name("cube.hdr")
    header.write_text(header.read_text().replace("wavelength = {", "wavelength = {nan, "))
    code, out, err = run("info", header)
    assert code == 0
    assert "unknown (band)" in out
    assert err.startswith("note: ")


def test_a_cube_that_is_a_folder_is_replaced_not_filled(run: Run, photo: Path) -> None:
    target = photo.with_name("cube.zarr")
    for _ in range(2):
        assert run("reconstruct", photo, "-o", target, "--overwrite")[1] == f"{target}\n"
    assert not list(target.glob("*.hdr"))


def test_info_takes_the_name_of_the_array(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", left=np.zeros((3, 5, 6)), right=np.zeros((4, 5, 6)))
    code, _, err = run("info", tmp_path / "a.npz")
    assert code == 2
    assert "--variable NAME" in err
    assert "4 bands x 5 rows" in run("info", tmp_path / "a.npz", "--variable", "right")[1]


def test_info_takes_the_axis_of_the_bands(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros((6, 5, 6)))
    assert "--band-axis" in run("info", tmp_path / "a.npz")[2]
    assert "6 bands x 6 rows x 5 columns" in run("info", tmp_path / "a.npz", "--band-axis", "-1")[1]


@pytest.mark.parametrize("name", ["cube.hdr", "cube.tif"])
def test_a_name_of_an_array_is_refused_where_there_are_none(
    run: Run, photo: Path, name: str
) -> None:
    run("reconstruct", photo, "-o", photo.with_name(name))
    code, _, err = run("info", photo.with_name(name), "--variable", "x")
    assert code == 2
    assert "got variable. Leave them out." in err


def test_every_model_is_listed_with_domain_and_accuracy(run: Run) -> None:
    code, out, _ = run("models")
    assert code == 0
    for card in MODELS.values():
        assert card.name in out
        assert card.domain in out
        assert all(
            f"{metric} {value:g}" in out
            for scores in card.accuracy.values()
            for metric, value in scores.items()
        )


def test_default_model_is_bundled() -> None:
    assert MODELS[cli.DEFAULT_MODEL].file
    assert next(iter(MODELS)) == cli.DEFAULT_MODEL  # what a list of models begins with


@pytest.mark.parametrize(("option", "value"), [("--model", "mst-minus"), ("--device", "abacus")])
def test_unknown_model_or_device_is_refused(run: Run, photo: Path, option: str, value: str) -> None:
    code, out, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"), option, value)
    assert (code, out) == (2, "")
    assert_is_one_error(err, f"got '{value}'")


def test_control_c_ends_with_130_and_leaves_no_cube(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(napari_mst.Reconstructor, "reconstruct", raising(KeyboardInterrupt))
    code, _, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    assert code == 130
    assert err.endswith("cancelled\n")
    assert [file.name for file in photo.parent.iterdir()] == ["photo.png"]


@pytest.fixture
def control_c() -> Iterator[None]:
    """Ctrl-C as Python begins with it: where the tests run in the background, it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c")
def test_control_c_is_asked_for_by_the_run_and_raised_in_the_middle_of_nothing(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, went_on = signal.getsignal(signal.SIGINT), []

    def pressed(*_: object, is_cancelled: Callable[[], bool], **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        went_on.append(is_cancelled())
        raise Cancelled("The reconstruction was cancelled.")

    monkeypatch.setattr(napari_mst.Reconstructor, "reconstruct", pressed)
    code, _, err = run("reconstruct", photo, *several(photo, 2), "-o", photo.parent)
    assert (code, went_on) == (130, [True])  # none of the photos to come is begun
    assert err.endswith("cancelled\n")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("control_c")
def test_a_second_control_c_is_raised_at_once(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("not raised")

    monkeypatch.setattr(napari_mst.Reconstructor, "reconstruct", pressed)
    assert run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))[0] == 130


def test_kernels_are_compiled_in_a_thread_of_their_own_so_that_control_c_is_heard(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    askers: list[threading.Thread] = []

    def is_ready() -> bool:
        askers.append(threading.current_thread())
        return False

    monkeypatch.setattr("napari_mst.engine.forms.native.is_ready", is_ready)
    assert run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))[0] == 0
    assert askers[0] is not threading.main_thread()


@pytest.mark.parametrize("command", ["models", "cameras"])
def test_output_that_nobody_reads_ends_the_command_quietly(command: str) -> None:
    """As with `head`, which closes its end: no traceback, neither of the command nor when Python ends."""
    code = f"import sys; sys.stdin.read(); from napari_mst.cli import main as cli; sys.exit(cli.main([{command!r}]))"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    "arguments", [["--help"], ["models"], ["info", "no-such-file"]], ids=" ".join
)
def test_output_that_cannot_be_written_is_said_in_one_line(
    arguments: list[str], stream: str
) -> None:
    is_refused = arguments[0] == "info"
    is_hit = stream == ("stderr" if is_refused else "stdout")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "napari_mst", *arguments]
        done = subprocess.run(
            command, **{**streams, stream: full}, env=buffered, text=True, check=False
        )
    assert done.returncode == (74 if is_hit else 2 if is_refused else 0)
    if is_hit and not is_refused:
        assert_is_one_error(done.stderr, "got: No space left on device")


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX shells")
def test_errors_never_mix_with_results_where_a_shell_has_closed_their_stream() -> None:
    command = [
        "sh",
        "-c",
        '"$@" 2>&-',
        "sh",
        sys.executable,
        "-m",
        "napari_mst",
        "info",
        "no-such-file",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_only_photo_that_fails_is_refused(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        napari_mst.Reconstructor, "reconstruct", raising(OutOfMemory("Expected more memory."))
    )
    assert run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))[0] == 2


@pytest.mark.parametrize(
    ("photos", "output", "message"),
    [
        ("photo.tif", "nowhere/cube.hdr", "Expected an existing folder"),
        ("photo.tif", "x" * 300 + ".hdr", "name too long"),
        ("photo.tif", "cube.docx", ".hdr"),
        ("photo.tif", "old.hdr", "old.hdr which exists"),
        ("photo.tif", "photo.tif --overwrite", "got the photo photo.tif"),
        ("photo.tif", "cube.hdr --format tiff", "Expected a folder with --format"),
        ("photo.tif photo.PNG", ".", "got photo.tif and photo.PNG for photo.hdr"),
        ("photo.tif Photo.png", ".", "got photo.tif and Photo.png for Photo.hdr"),
        ("photo.tif other.png", "cube.hdr", "Expected a folder for several cubes, got cube.hdr"),
    ],
    ids=[
        "081-missing-folder",
        "081-long-name",
        "081-unknown-format",
        "082-target-exists",
        "082-target-is-the-photo",
        "081-two-formats",
        "087-names-differ-in-suffix",
        "087-names-differ-in-case",
        "081-several-cubes-in-one-file",
    ],
)
def test_bad_input(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, photos: str, output: str, message: str
) -> None:
    """Refused before anything is computed; nothing changes on disk."""
    monkeypatch.setattr(napari_mst.Reconstructor, "__init__", raising(AssertionError))
    monkeypatch.chdir(photo.parent)
    Image.open(photo).save("photo.tif")
    Path("old.hdr").write_text("precious")
    before = contents(photo.parent)
    code, out, err = run("reconstruct", *photos.split(), "-o", *output.split())
    assert (code, out) == (2, "")
    assert_is_one_error(err, message)
    assert contents(photo.parent) == before


class TestBatch:
    """Several photos into one folder."""

    @pytest.mark.parametrize("damage", [b"", b"GIF"], ids=["088-empty-file", "088-not-an-image"])
    def test_bad_input(self, run: Run, photo: Path, damage: bytes) -> None:
        """The others are written, the exit code is 1, and the report names the photo that failed."""
        folder = photo.parent
        photos = [folder / f"{number}.png" for number in range(4)]
        for file in photos:
            file.write_bytes(photo.read_bytes())
        photos[1].write_bytes(damage)
        code, out, err = run("reconstruct", *photos, "-o", folder)
        assert code == 1
        assert out.splitlines() == [str(folder / f"{number}.hdr") for number in (0, 2, 3)]
        assert_is_one_error(
            "\n".join(line for line in err.splitlines() if "error" in line), "1.png: Expected an"
        )
        assert err.endswith("3 of 4 cubes written, 1 failed\n")
        assert not (folder / "1.hdr").exists()

    @pytest.mark.parametrize(
        "options", ["", "--overwrite"], ids=["086-rerun", "086-rerun-overwrite"]
    )
    def test_bad_input_interrupted(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, options: str
    ) -> None:
        """The second run keeps what the first has finished, and makes the rest; so does a run after a loss."""
        photos, out = several(photo, 4), photo.with_name("out")
        out.mkdir()
        made = counted(monkeypatch, limit=2)
        arguments = [*photos, "-o", out, *options.split()]
        assert run("reconstruct", *arguments)[0] == 130
        assert made == ["0.png", "1.png"]
        first = contents(out)
        counted(monkeypatch, made)
        code, printed, err = run("reconstruct", *arguments)
        assert (code, made) == (0, ["0.png", "1.png", "2.png", "3.png"])
        assert "2 of 4 cubes are of this run, and stay" in err
        assert printed.splitlines() == [str(out / f"{number}.hdr") for number in range(4)]
        assert first.items() <= contents(out).items()
        assert all(
            napari_mst.read_cube(out / f"{number}.hdr").provenance.source == f"{number}.png"
            for number in (0, 3)
        )

    @pytest.mark.parametrize(
        "change",
        ["photo", "--linear", "--ensemble", "damage"],
        ids=["086-photo", "086-options", "086-ensemble", "086-damage"],
    )
    def test_bad_input_changed(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        """What is not verified, or is of another photo or other options, is refused; and replaced if that is asked."""
        photos, out = several(photo, 3), photo.with_name("out")
        out.mkdir()
        options = [*photos, "-o", out]
        assert run("reconstruct", *options)[0] == 0
        if change == "photo":
            Image.fromarray(np.zeros((6, 9, 3), np.uint8)).save(photos[1])
        elif change == "damage":
            (out / "1.img").write_bytes(bytes((out / "1.img").stat().st_size))
        else:
            options.append(change)
        made, before = counted(monkeypatch), contents(out)
        code, _, err = run("reconstruct", *options)
        assert (code, made, contents(out)) == (2, [], before)
        assert "which exists" in err
        assert run("reconstruct", *options, "--overwrite")[0] == 0
        assert made == (["0.png", "1.png", "2.png"] if change.startswith("--") else ["1.png"])

    def test_bad_input_seal(self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """086-lost-seal: a cube that nothing vouches for is not taken for done, however well it looks."""
        photos, out = several(photo, 2), photo.with_name("out")
        assert run("reconstruct", *photos, "-o", out)[0] == 0
        header = out / "1.hdr"
        lines = header.read_text().splitlines(keepends=True)
        header.write_text("".join(line for line in lines if "crc32" not in line))
        assert napari_mst.read_cube(header).provenance.model == "tiny"
        made = counted(monkeypatch)
        code, _, err = run("reconstruct", *photos, "-o", out)
        assert (code, made) == (2, [])
        assert "got 1.img which exists" in err

    def test_folders_of_photos_are_mirrored_in_an_output_that_is_made(
        self, run: Run, photo: Path
    ) -> None:
        folder, out = photo.parent / "photos", photo.parent / "made" / "here"
        for name in ("a.png", "one/a.png", "two/a.png"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(photo.read_bytes())
        (folder / "two/b.png").touch()
        code, printed, err = run("reconstruct", folder, "-o", out)
        assert code == 1
        assert printed.splitlines() == [
            str(out / name) for name in ("a.hdr", "one/a.hdr", "two/a.hdr")
        ]
        assert "error: two/b.png: Expected an image file, got an empty one" in err
        assert sorted(file.name for file in out.rglob("*")) == sorted(
            [*["a.hdr", "a.img"] * 3, "one", "two"]
        )

    @pytest.mark.parametrize("model", ["mstpp-srgb", "no-such-model"])
    def test_an_output_that_was_made_in_vain_is_removed(
        self, run: Run, photo: Path, model: str
    ) -> None:
        empty = photo.with_name("empty.png")
        empty.touch()
        code, *_ = run(
            "reconstruct",
            empty,
            empty.with_name("lost.png"),
            "-o",
            photo.with_name("out"),
            "--model",
            model,
        )
        assert code in (1, 2)
        assert not photo.with_name("out").exists()

    def test_two_runs_at_once_make_each_cube_once(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other run has begun with the first photo when this one starts, and ends it when this one has the rest."""
        photos, out = several(photo, 4), photo.with_name("out")
        has_begun, may_end, codes = threading.Event(), threading.Event(), list[int]()
        made = counted(monkeypatch)
        count = napari_mst.Reconstructor.reconstruct

        def held(
            self: napari_mst.Reconstructor, photo: napari_mst.Photo, **kwargs: object
        ) -> object:
            has_begun.set()
            is_of_the_other = threading.current_thread() is other
            if is_of_the_other:
                may_end.wait(60)
            cube = count(self, photo, **kwargs)
            if len(made) == 3:
                may_end.set()
            return cube

        monkeypatch.setattr(napari_mst.Reconstructor, "reconstruct", held)
        other = threading.Thread(
            target=lambda: codes.append(run("reconstruct", *photos, "-o", out)[0])
        )
        other.start()
        assert has_begun.wait(60)
        codes.append(run("reconstruct", *photos, "-o", out)[0])
        other.join(60)
        assert codes == [0, 0]
        assert sorted(made) == ["0.png", "1.png", "2.png", "3.png"]
        assert made[-1] == "0.png"
        assert sorted(file.name for file in out.iterdir()) == sorted(
            f"{n}.{end}" for n in range(4) for end in END
        )

    def test_what_a_killed_run_left_is_picked_up(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A claim, a temporary of a save that had just begun, and a pair whose header had not yet arrived."""
        photos, out = several(photo, 3), photo.with_name("out")
        assert run("reconstruct", *photos, "-o", out)[0] == 0
        expected = contents(out)
        (out / "1.hdr").replace(out / ".1.hdr.tmp")
        for name in (".0.hdr.run", ".2.hdr.run", ".2.img.tmp"):
            (out / name).touch()
        for end in END:
            (out / f"2.{end}").unlink()
        made = counted(monkeypatch)
        assert run("reconstruct", *photos, "-o", out)[0] == 0
        assert made == ["2.png"]
        assert contents(out) == expected

    def test_a_batch_with_error_bands_goes_on_where_it_stopped(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A band is made anew from the cube that is there, and one of the two is never taken for the other."""
        photos, out = several(photo, 3), photo.with_name("out")
        arguments = [*photos, "-o", out, "--model", "pixelwise-srgb", "--error-bands"]
        assert run("reconstruct", *arguments)[0] == 0
        expected = contents(out)
        for name in ("1_upper", "2", "2_lower", "2_upper"):
            for end in END:
                (out / f"{name}.{end}").unlink()
        made = counted(monkeypatch)
        code, printed, _ = run("reconstruct", *arguments)
        assert (code, made) == (0, ["2.png"])
        assert len(printed.splitlines()) == 9
        assert contents(out) == expected
        for end in END:
            (out / f"0_lower.{end}").rename(out / f"other.{end}")
            (out / f"0_upper.{end}").rename(out / f"0_lower.{end}")
            (out / f"other.{end}").rename(out / f"0_upper.{end}")
        code, _, err = run("reconstruct", *arguments)
        assert (code, made) == (2, ["2.png"])
        assert "got 0_lower.img which exists" in err


END = ("hdr", "img")
"""The suffixes of the two files of a cube."""


def several(photo: Path, count: int) -> list[Path]:
    """*count* photos, no two alike."""
    pixels = np.asarray(Image.open(photo))
    files = [photo.with_name(f"{number}.png") for number in range(count)]
    for number, file in enumerate(files):
        Image.fromarray(pixels ^ np.uint8(number)).save(file)
    return files


def counted(
    monkeypatch: pytest.MonkeyPatch, made: list[str] | None = None, limit: int = 99
) -> list[str]:
    """The names of the photos that are reconstructed from now on; Ctrl-C comes after *limit* of them."""
    names = [] if made is None else made

    def counting(
        self: napari_mst.Reconstructor, photo: napari_mst.Photo, **kwargs: object
    ) -> object:
        if len(names) == limit:
            raise KeyboardInterrupt
        names.append(photo.name)
        return RECONSTRUCT(self, photo, **kwargs)

    monkeypatch.setattr(napari_mst.Reconstructor, "reconstruct", counting)
    return names


def raising(error: BaseException | type[BaseException]) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def assert_is_one_error(err: str, message: str) -> None:
    assert err.startswith(("error: Expected", "error: 1.png: Expected"))
    assert message.lower() in err.lower()
    assert err.strip().count("\n") == 0
    assert len(err) < 320


def test_spectra_of_pixels_are_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cube = SpectralCube(
        np.arange(48, dtype=np.float32).reshape(3, 4, 4), np.array([400.0, 500, 600])
    )
    path = str(write_cube(tmp_path / "cube.hdr", cube))
    assert (
        cli.main(["spectra", path, "--at", "1,2", "--at", "3,0", "-o", str(tmp_path / "a.csv")])
        == cli.DONE
    )
    assert capsys.readouterr().out == f"{tmp_path / 'a.csv'}\n"
    for spectrum, pixel in zip(read_spectra(tmp_path / "a.csv"), [(1, 2), (3, 0)], strict=True):
        np.testing.assert_array_equal(spectrum.values, cube.spectrum(*pixel))
        assert (spectrum.origin.cube, spectrum.origin.row, spectrum.origin.column) == (
            "cube.hdr",
            *pixel,
        )
    assert cli.main(["spectra", path, "--at", "1,1", "--window", "3"]) == cli.DONE
    means = cube.data[:, :3, :3].mean(axis=(1, 2))
    assert [float(row.split("\t")[1]) for row in capsys.readouterr().out.splitlines()[1:]] == list(
        means
    )


def test_spectrum_outside_the_cube_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(
        write_cube(tmp_path / "cube.hdr", SpectralCube(np.ones((2, 3, 4)), np.array([400.0, 500])))
    )
    assert cli.main(["spectra", path, "--at", "3,0"]) == cli.REFUSED
    assert "within 3 rows x 4 columns, got row 3, column 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["spectra", path, "--at", "middle"])


def test_attention_of_a_photo_is_saved_with_its_maps(run: Run, photo: Path, weights: Path) -> None:
    target = photo.with_name("attention.npz")
    code, out, err = run(
        "attention",
        photo,
        "-o",
        target,
        "--map",
        "score",
        "--map",
        "share",
        "--key",
        1,
        "--query",
        2,
    )
    record = napari_mst.read_attention(target)
    model = napari_mst.load_model(weights)
    expected = napari_mst.AttentionExplorer(napari_mst.Reconstructor(model, "cpu"), photo).record()
    assert (code, out) == (0, f"{target}\n")
    assert len(record) == 5
    assert record.provenance == expected.provenance
    np.testing.assert_array_equal(
        record["stages.0.bottleneck"].logits, expected["stages.0.bottleneck"].logits
    )
    with np.load(target) as archive:
        assert archive["maps/0"].shape == archive["maps/1"].shape == (6, 9)
    assert "100%" in err


def test_attention_of_a_region_in_float64(run: Run, photo: Path, weights: Path) -> None:
    target = photo.with_name("attention.npz")
    options = ("--region", "1:5,2:9", "--precision", "float64", "--map", "score")
    assert run("attention", photo, "-o", target, *options)[0] == 0
    reconstructor = napari_mst.Reconstructor(
        napari_mst.load_model(weights), "cpu", precision="float64"
    )
    expected = napari_mst.AttentionExplorer(reconstructor, photo, region=(1, 5, 2, 9)).record()
    record = napari_mst.read_attention(target)
    assert record.provenance == expected.provenance
    np.testing.assert_array_equal(
        record["stages.0.bottleneck"].logits, expected["stages.0.bottleneck"].logits
    )
    with np.load(target) as archive:
        assert archive["maps/0"].shape == (4, 7)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-o", "attention.tif"), "Expected a name that ends in .npz"),
        (
            ("-o", "attention.npz", "--map", "score", "--block", "x"),
            "Expected a block as stages.0.encoder.0",
        ),
        (("-o", "attention.npz", "--map", "score", "--key", "4"), "Expected key 0 to 3"),
    ],
)
def test_attention_that_cannot_be_had_is_refused(
    run: Run,
    photo: Path,
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(photo.parent)
    code, out, err = run("attention", photo, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert not list(photo.parent.glob("attention*"))


def test_evaluate_prints_and_writes_every_method_input_and_scene(
    run: Run, tmp_path: Path, weights: Path
) -> None:
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 9, 9)).astype(np.float32)
    for name in ("first", "second"):
        np.savez(tmp_path / f"{name}.npz", cube=cube, wavelengths=np.arange(400.0, 701, 10))
    table = tmp_path / "scores.csv"
    arguments = (
        "--input",
        "clean",
        "--input",
        "JPEG 75",
        "--model",
        "mstpp-srgb",
        "--device",
        "cpu",
        "--csv",
        table,
    )
    code, out, _ = run("evaluate", tmp_path, *arguments)
    assert code == 0
    table_of_means, bands = out.split("in the 90 % error band, at nm")
    assert table_of_means.count("mstpp-srgb") == table_of_means.count("least squares 3 to 31") == 2
    assert bands.count("mstpp-srgb") == 2
    assert len(table.read_text().splitlines()) == 1 + 2 * (len(BASELINES) + 1) * 3
    code, out, _ = run("evaluate", tmp_path, "--no-baselines", "--per-scene", "--input", "clean")
    assert (code, out.count("second")) == (
        0,
        2 * len([card for card in MODELS.values() if card.file and not card.needs_camera]),
    )


def test_evaluate_refuses_an_unknown_input_and_a_folder_without_cubes(
    run: Run, tmp_path: Path
) -> None:
    code, out, err = run("evaluate", tmp_path)
    assert (code, out) == (2, "")
    assert "Expected cube files" in err
    code, out, err = run("evaluate", tmp_path, "--input", "fog")
    assert (code, out) == (2, "")
    assert "got 'fog'" in err


def test_error_bands_are_written_beside_the_cube(run: Run, photo: Path, tmp_path: Path) -> None:
    target = tmp_path / "cube.hdr"
    arguments = ("-o", target, "--model", "pixelwise-srgb", "--error-bands")
    code, out, _ = run("reconstruct", photo, *arguments)
    assert code == 0
    assert [Path(line).name for line in out.splitlines()] == [
        "cube.hdr",
        "cube_lower.hdr",
        "cube_upper.hdr",
    ]
    lower, cube, upper = (
        napari_mst.read_cube(tmp_path / f"cube{side}.hdr").data for side in ("_lower", "", "_upper")
    )
    assert (lower <= cube).all()
    assert (cube <= upper).all()
    target.unlink()
    target.with_suffix(".img").unlink()
    code, _, err = run("reconstruct", photo, *arguments)
    assert code == 2
    assert "cube_lower.img" in err


def test_error_bands_of_a_model_without_them_are_refused_before_the_run(
    run: Run, photo: Path, tmp_path: Path
) -> None:
    code, _, err = run("reconstruct", photo, "-o", tmp_path / "cube.hdr", "--error-bands")
    assert code == 2
    assert "calibrated error band" in err
    assert not (tmp_path / "cube.hdr").exists()


def test_colour_correction_can_be_switched_off(run: Run, photo: Path) -> None:
    cubes = []
    for flags in ((), ("--no-colour-correction",)):
        target = photo.with_name(f"cube{len(flags)}.npz")
        code, _, _ = run("reconstruct", photo, "-o", target, "--model", "pixelwise-srgb", *flags)
        assert code == 0
        cubes.append(napari_mst.read_cube(target))
    assert cubes[0].provenance.correction
    assert not cubes[1].provenance.correction
    assert (cubes[0].data != cubes[1].data).any()


def test_a_region_and_an_ensemble_are_those_of_the_api(
    run: Run, photo: Path, weights: Path
) -> None:
    code, *_ = run(
        "reconstruct", photo, "--region", "1:5,0:7", "--ensemble", "-o", photo.with_name("cube.hdr")
    )
    reconstructor = napari_mst.Reconstructor(napari_mst.load_model(weights), "cpu")
    expected = reconstructor.reconstruct(photo, region=(1, 5, 0, 7), ensemble=True)
    cube = napari_mst.read_cube(photo.with_name("cube.hdr"))
    assert code == 0
    assert np.array_equal(cube.data, expected.data)
    assert cube.provenance == expected.provenance


@pytest.mark.parametrize(
    ("region", "text"), [("1:5", "like 100:300,0:512"), ("0:7,0:9", "within 6 rows x 9 columns")]
)
def test_a_region_that_is_none_is_refused_in_one_sentence(
    run: Run, photo: Path, capsys: pytest.CaptureFixture[str], region: str, text: str
) -> None:
    try:
        code, _, err = run(
            "reconstruct", photo, "--region", region, "-o", photo.with_name("cube.hdr")
        )
    except SystemExit as refusal:
        code, err = refusal.code, capsys.readouterr().err
    assert (code, text in err) == (2, True)
    assert not photo.with_name("cube.hdr").exists()


def test_16_bits_and_a_budget_are_told_kept_and_shown(run: Run, photo: Path) -> None:
    if "bfloat16" not in choose_device("cpu").precisions:
        pytest.skip("not on this processor")
    target = photo.with_name("cube.hdr")
    options = ("--precision", "bfloat16", "--memory", "0.5")
    code, _, err = run("reconstruct", photo, "-o", target, *options)
    assert code == 0
    assert re.search(
        r"note: photo.png: needs \d+ MB of memory, in bfloat16: off float32 by .* of this photo\n",
        err,
    )
    code, out, _ = run("info", target)
    assert re.search(r"precision +bfloat16\n", out)
    assert re.search(r"precision error +0\.0", out)
    assert re.search(r"assumed +Computed in bfloat16: off float32 by ", out)


@pytest.mark.parametrize("size", ["0", "-1", "nan", "much"])
def test_a_budget_that_is_no_size_is_refused(
    run: Run, photo: Path, size: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("reconstruct", photo, "-o", photo.with_name("cube.hdr"), f"--memory={size}")
    assert f"Expected a size in GB, as 4 or 0.5, got {size!r}." in capsys.readouterr().err


def test_a_photo_beyond_the_budget_is_refused_with_the_numbers(run: Run, photo: Path) -> None:
    code, out, err = run(
        "reconstruct", photo, "-o", photo.with_name("cube.hdr"), "--memory", "0.001"
    )
    assert (code, out) == (2, "")
    assert re.search(
        r"error: Expected \d+ MB of free memory for 6 x 9 pixels on cpu, got 1 MB", err
    )


def test_a_precision_that_the_device_lacks_is_refused(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.engine.device._uses", lambda precision: False)
    code, out, err = run(
        "reconstruct", photo, "-o", photo.with_name("cube.hdr"), "--precision", "float16"
    )
    assert (code, out) == (2, "")
    assert_is_one_error(err, "Expected a precision of cpu (float32, float64), got 'float16'.")
