"""Photos and cubes on object storage: servers of S3 (moto) and HTTP on this computer."""

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from tests.cluster_of_tests import cluster_of_two

from napari_mst import read_cube, reconstruct, reconstruct_many
from napari_mst.base.errors import ClusterError, PhotoError, SaveError
from napari_mst.batch.batch import staged
from napari_mst.batch.jobs import BatchJob
from napari_mst.batch.storage import named, url_of
from napari_mst.cli.main import main

pytest.importorskip("s3fs")
pytest.importorskip("flask_cors")

# Sockets of the server and of dask close a moment after them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore"),
]

MODEL = "pixelwise-srgb"
BUCKET = "s3://photos"


@pytest.fixture(scope="module")
def storage() -> Iterator[Any]:
    """An S3 server with a bucket, as fsspec opens it."""
    from fsspec import filesystem
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "any")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3 = filesystem("s3", use_listings_cache=False)
        s3.mkdir("photos")
        yield s3
    server.stop()


@pytest.fixture
def photos(storage: Any, tmp_path: Path) -> Iterator[Path]:
    """A folder of two photos; the same are in the bucket, which holds nothing else."""
    codes = np.random.default_rng(0).integers(0, 256, (2, 40, 60, 3), dtype=np.uint8)
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    for name, values in zip(("a.png", "more/b.png"), codes, strict=True):
        Image.fromarray(values).save(folder / name)
        storage.put_file(str(folder / name), f"photos/in/{name}")
    storage.pipe("photos/in/.hidden.png", b"")
    yield folder
    storage.rm(storage.find("photos"))


def objects(storage: Any, folder: str = "photos/out") -> list[str]:
    return sorted(name.removeprefix(f"{folder}/") for name in storage.find(folder))


def stamps(storage: Any) -> dict[str, object]:
    found = storage.find("photos/out", detail=True)
    return {name: info["LastModified"] for name, info in found.items()}


def test_a_path_carries_a_url_and_no_other_path_does() -> None:
    for url in ("s3://bucket/a b/c.png", "https://host:80/x.jpg", "gs://b/k", "memory://x/y"):
        assert url_of(Path(url)) == url
        assert named(Path(url) / "z").endswith("/z")
    for path in ("a/b.png", "/s3/x", "C:/photos/x.png", "./s3:x"):
        assert url_of(Path(path)) == ""


@pytest.mark.parametrize(
    ("suffix", "files"), [(".hdr", ["hdr", "img"]), (".tif", ["tif"]), (".zarr", ["zarr"])]
)
def test_cubes_on_object_storage_are_those_of_files_and_stay(
    storage: Any, photos: Path, tmp_path: Path, suffix: str, files: list[str]
) -> None:
    ended = reconstruct_many(f"{BUCKET}/in", f"{BUCKET}/out", model=MODEL, suffix=suffix)
    assert [each.error for each in ended] == [None, None]
    written = stamps(storage)
    assert {name.split("/")[0] for name in objects(storage)} == {
        *(f"a.{end}" for end in files),
        "more",
    }
    storage.get("photos/out/", str(tmp_path / "out"), recursive=True)
    for name in ("a", "more/b"):
        cube = read_cube(tmp_path / "out" / f"{name}{suffix}", verify=True)
        assert (cube.data == reconstruct(photos / f"{name}.png", MODEL).data).all()
    ended = reconstruct_many(photos, f"{BUCKET}/out", model=MODEL, suffix=suffix)
    assert [each.error for each in ended] == [None, None]
    assert stamps(storage) == written


def test_a_cube_that_was_cut_short_is_made_again_and_that_of_another_photo_stays(
    storage: Any, photos: Path
) -> None:
    def made(overwrite: bool = False) -> str:
        (ended,) = reconstruct_many(
            f"{BUCKET}/in/*.png", f"{BUCKET}/out", model=MODEL, overwrite=overwrite
        )
        return str(ended.error or "")

    assert made() == ""
    whole = storage.cat("photos/out/a.img")
    storage.pipe("photos/out/a.img", whole[:-5])
    storage.rm("photos/out/a.hdr")
    assert made() == ""
    assert storage.cat("photos/out/a.img") == whole
    assert objects(storage) == ["a.hdr", "a.img", "a.img.damaged"]
    storage.put_file(str(photos / "more" / "b.png"), "photos/in/a.png")
    assert "which exists" in made()
    assert storage.cat("photos/out/a.img") == whole
    assert made(overwrite=True) == ""
    assert storage.cat("photos/out/a.img") != whole


def test_the_command_line_takes_urls_and_prints_them(
    storage: Any, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", MODEL, "--device", "cpu"]
    assert main(["reconstruct", f"{BUCKET}/in", "-o", f"{BUCKET}/out", *options]) == 0
    printed, _ = capsys.readouterr()
    assert printed.splitlines() == [f"{BUCKET}/out/a.hdr", f"{BUCKET}/out/more/b.hdr"]
    one = tmp_path / "one.tif"
    assert main(["reconstruct", f"{BUCKET}/in/a.png", "-o", str(one), *options]) == 0
    assert (read_cube(one).data == reconstruct(photos / "a.png", MODEL).data).all()


class Website(SimpleHTTPRequestHandler):
    """Serves files, and notes what was asked for."""

    asked: ClassVar[list[str]] = []

    def log_message(self, *_: Any) -> None:
        Website.asked.append(self.path)


@pytest.fixture
def website(photos: Path) -> Iterator[str]:
    """The address under which a server of this computer lists the photos."""
    handler = partial(Website, directory=str(photos.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_photos_of_a_website_are_read_by_name_folder_and_pattern(
    website: str, photos: Path, tmp_path: Path
) -> None:
    for where, names in (("in/a.png", ["a"]), ("in", ["a", "more/b"]), ("in/*.png", ["a"])):
        Website.asked.clear()
        out = tmp_path / "out" / where.replace("*", "all")
        ended = reconstruct_many(f"{website}/{where}", out, model=MODEL)
        assert [each.error for each in ended] == [None] * len(names)
        assert Website.asked.count("/in/a.png") <= 2  # whether it is there, and its bytes
        for name in names:
            cube = read_cube(out / f"{name}.hdr", verify=True)
            assert (cube.data == reconstruct(photos / f"{name}.png", MODEL).data).all()
    for lost in ("in/lost.png", "lost/*.png"):
        with pytest.raises(PhotoError, match=rf"^Expected .*{re.escape(f'{website}/{lost}')}"):
            reconstruct_many(f"{website}/{lost}", tmp_path / "lost", model=MODEL)
    (ended_there,) = reconstruct_many(photos / "a.png", f"{website}/out", model=MODEL)
    assert isinstance(ended_there.error, SaveError)


def take_away_storage() -> None:
    """Have this worker connect to a server that is not there."""
    from s3fs import S3FileSystem

    os.environ |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    S3FileSystem.clear_instance_cache()


@pytest.mark.slow
def test_workers_read_and_write_object_storage(storage: Any, photos: Path) -> None:
    with cluster_of_two() as client:
        ended = reconstruct_many(f"{BUCKET}/in", f"{BUCKET}/out", client, model=MODEL)
        assert [each.error for each in ended] == [None, None]
        assert objects(storage) == ["a.hdr", "a.img", "more/b.hdr", "more/b.img"]
        client.run(take_away_storage)
        with pytest.raises(ClusterError, match="Expected every worker to see s3://photos/new"):
            reconstruct_many(f"{BUCKET}/in", f"{BUCKET}/new", client, model=MODEL)
    assert objects(storage, "photos/new") == []


@pytest.mark.parametrize(
    ("photo", "folder", "error"),
    [
        ("s3://nowhere/in", f"{BUCKET}/out", PhotoError),
        (f"{BUCKET}/in/lost.png", f"{BUCKET}/out", PhotoError),
        (f"{BUCKET}/in/*.gif", f"{BUCKET}/out", PhotoError),
        ("rubbish://x/a.png", f"{BUCKET}/out", PhotoError),
    ],
    ids=["no-bucket", "no-photo", "no-match", "no-such-storage"],
)
def test_bad_places(photos: Path, photo: str, folder: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^Expected .{1,280}$"):
        reconstruct_many(photo, folder, model=MODEL)


def test_a_cube_that_cannot_be_uploaded_is_an_error_of_its_photo(
    storage: Any, photos: Path, tmp_path: Path
) -> None:
    (ended,) = reconstruct_many(photos / "a.png", "s3://nowhere/out", model=MODEL)
    assert isinstance(ended.error, SaveError)
    job = BatchJob(photos / "a.png", Path("s3://nowhere/out/a.hdr"), "a.png")
    with pytest.raises(SaveError), staged(job, str(tmp_path)) as here:
        here.target.write_bytes(b"a cube")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert replace(here, target=job.target) == job
