"""`napari-mst reconstruct`: several photos into one folder."""

import threading
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from tests.cli.conftest import END, Run, assert_is_one_error, contents, counted, several

import napari_mst
from napari_mst.base.progress import ProgressLike
from napari_mst.cube import SpectralCube
from napari_mst.reconstruction.pipeline import PreparedPhoto


class TestBatch:
    """Several photos into one folder."""

    @pytest.mark.parametrize("damage", [b"", b"GIF"], ids=["088-empty-file", "088-not-an-image"])
    def test_bad_input(self, run: Run, photo: Path, damage: bytes) -> None:
        """The others are written, the status is 1, and the report names the one that failed."""
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
        """The second run keeps what the first has finished, and makes the rest."""
        photos, out = several(photo, 4), photo.with_name("out")
        # Its values are plainly linear light, which only its pixels show.
        photos[1] = photos[1].with_suffix(".tif")
        light = np.geomspace(0.01, 3, 162, dtype=np.float32).reshape(6, 9, 3)
        tifffile.imwrite(photos[1], light, photometric="rgb")
        out.mkdir()
        made = counted(monkeypatch, limit=2)
        arguments = [*photos, "-o", out, *options.split()]
        assert run("reconstruct", *arguments)[0] == 130
        assert made == ["0.png", "1.tif"]
        first = contents(out)
        counted(monkeypatch, made)
        code, printed, err = run("reconstruct", *arguments)
        assert (code, made) == (0, ["0.png", "1.tif", "2.png", "3.png"])
        assert "2 of 4 cubes are of this run, and stay" in err
        assert printed.splitlines() == [str(out / f"{number}.hdr") for number in range(4)]
        assert first.items() <= contents(out).items()
        assert all(
            napari_mst.read_cube(out / f"{number}.hdr").provenance.source == f"{number}.png"
            for number in (0, 3)
        )

    @pytest.mark.parametrize(
        "change",
        ["photo", "--linear", "--ensemble"],
        ids=["086-photo", "086-options", "086-ensemble"],
    )
    def test_bad_input_changed(
        self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        """A cube of other photos or options is replaced only if told to."""
        photos, out = several(photo, 3), photo.with_name("out")
        out.mkdir()
        options = [*photos, "-o", out]
        assert run("reconstruct", *options)[0] == 0
        if change == "photo":
            Image.fromarray(np.zeros((6, 9, 3), np.uint8)).save(photos[1])
        else:
            options.append(change)
        made, before = counted(monkeypatch), contents(out)
        code, _, err = run("reconstruct", *options)
        assert (code, made, contents(out)) == (2, [], before)
        assert "which exists" in err
        assert run("reconstruct", *options, "--overwrite")[0] == 0
        assert made == (["0.png", "1.png", "2.png"] if change.startswith("--") else ["1.png"])

    @pytest.mark.parametrize(
        ("name", "left", "option"),
        [
            ("1.img", -1, ""),
            pytest.param("1.img", 0.5, "--workers=1", marks=pytest.mark.slow),
            ("1.img", 0, ""),
            ("1.tif", 0.5, "--format=tiff"),
            ("1.tif", 0, "--format=tiff"),
            ("1.npz", 0.5, "--format=npz"),
        ],
        ids=["086-zeros", "086-workers", "086-empty", "086-tiff", "086-no-tiff", "086-npz"],
    )
    def test_bad_input_damage(
        self, run: Run, photo: Path, name: str, left: float, option: str
    ) -> None:
        """A damaged cube is named, kept beside the new one, and made again; the batch goes on."""
        photos, out = several(photo, 3), photo.with_name("out")
        options = ["-o", out, *filter(None, [option])]
        out.mkdir()
        # Processes of workers take seconds to start.
        begun = [each for each in options if each != "--workers=1"]
        assert run("reconstruct", *photos[:2], *begun)[0] == 0
        good = contents(out)
        size = len(good[name])
        bad = bytes(size) if left < 0 else good[name][: int(left * size)]
        (out / name).write_bytes(bad)
        code, printed, err = run("reconstruct", *photos, *options)
        assert code == 0
        assert "1.png: its cube is damaged, and made again beside it (.damaged). Expected" in err
        assert "2 of 3 cubes" not in err
        assert len(printed.splitlines()) == 3
        now = contents(out)
        assert good.items() <= now.items()
        assert now[f"{name}.damaged"] == bad
        assert f"2{name[1:]}" in now

    def test_bad_input_seal(self, run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """086-lost-seal: a cube that nothing vouches for does not count as done."""
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
        """The other run makes the first photo all the while that this one makes the rest."""
        photos, out = several(photo, 4), photo.with_name("out")
        has_begun, may_end, codes = threading.Event(), threading.Event(), list[int]()
        made = counted(monkeypatch)
        count = PreparedPhoto.reconstruct

        def held(prepared: PreparedPhoto, progress: ProgressLike) -> SpectralCube:
            has_begun.set()
            is_of_the_other = threading.current_thread() is other
            if is_of_the_other:
                may_end.wait(60)
            cube = count(prepared, progress)
            if len(made) == 3:
                may_end.set()
            return cube

        monkeypatch.setattr(PreparedPhoto, "reconstruct", held)
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
        """Left: a claim, the temporary file of a save, and a pair that still lacks its header."""
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
        """A band is made anew from the cube that is there; lower and upper are never confused."""
        photos, out = several(photo, 3), photo.with_name("out")
        arguments = [*photos, "-o", out, "--model", "pixelwise-srgb", "--intervals"]
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
