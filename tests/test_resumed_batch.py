"""A batch that goes on where it stopped keeps only cubes that are proven to be its own."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from napari_mst.cli import main as cli
from napari_mst.cli.arguments import DONE, REFUSED
from napari_mst.formats import read_cube


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    files = [tmp_path / f"{number}.png" for number in range(2)]
    for number, file in enumerate(files):
        Image.fromarray(
            np.random.default_rng(number).integers(0, 256, (6, 9, 3), dtype=np.uint8)
        ).save(file)
    return [str(file) for file in files]


def test_a_cube_that_lost_its_seal_does_not_stay(
    photos: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its history is still that of this run, but nothing vouches for its numbers."""
    out = tmp_path / "out"
    out.mkdir()
    command = [
        "reconstruct",
        *photos,
        "-o",
        str(out),
        "--model",
        "pixelwise-srgb",
        "--device",
        "cpu",
    ]
    assert cli.main(command) == DONE
    assert cli.main(command) == DONE
    assert "2 of 2 cubes are of this run, and stay" in capsys.readouterr().err
    header, numbers = out / "1.hdr", out / "1.img"
    sealed, intact = header.read_text(), numbers.read_bytes()
    header.write_text("".join(sealed.splitlines(keepends=True)[:-1]))
    numbers.write_bytes(bytes(4) + intact[4:])
    assert read_cube(header).provenance.source == "1.png"
    assert cli.main(command) == REFUSED
    assert "which exists" in capsys.readouterr().err
    assert cli.main([*command, "--overwrite"]) == DONE
    assert "1 of 2 cubes are of this run, and stay" in capsys.readouterr().err
    assert (header.read_text(), numbers.read_bytes()) == (sealed, intact)
