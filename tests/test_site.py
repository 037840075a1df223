"""The page that runs the network in a browser gives the numbers of Python (`make docs`)."""

import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import napari_mst as nm
from napari_mst.base.errors import PhotoError

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
PATIENCE = 120


class Server(SimpleHTTPRequestHandler):
    """Serves modules and WebAssembly as what they are, without a log."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    missing: str = ""
    headers_of_all: tuple[tuple[str, str], ...] = ()

    def log_message(self, *_: object) -> None:
        pass

    def end_headers(self) -> None:
        for header in self.headers_of_all:
            self.send_header(*header)
        super().end_headers()

    def do_GET(self) -> None:
        if self.missing and self.path.endswith(self.missing):
            self.send_error(404)
        else:
            super().do_GET()


ISOLATED = (
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
)
"""With these headers a browser lets threads share memory."""


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    return tmp_path


@contextmanager
def opened(
    downloads: Path, missing: str = "", headers: tuple[tuple[str, str], ...] = ()
) -> Iterator[Any]:
    """A browser that has opened the page from a server without the file *missing*."""
    if not (SITE / "try" / "tables.json").exists():
        pytest.skip("the site is not built: make docs")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--window-size=1280,1000"):
        options.add_argument(flag)
    wishes = {
        "download.default_directory": str(downloads),
        "profile.default_content_setting_values.automatic_downloads": 1,  # a cube is two files
    }
    options.add_experimental_option("prefs", wishes)
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium and driver:
        options.binary_location = chromium
    service = webdriver.ChromeService(driver) if driver else None
    handler = type("Serving", (Server,), {"missing": missing, "headers_of_all": headers})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.get(f"http://127.0.0.1:{server.server_port}/try/index.html")
            yield browser
        finally:
            browser.quit()
            server.shutdown()


@pytest.fixture
def page(downloads: Path) -> Iterator[Any]:
    """A browser that has opened the page, and whose photo has been computed."""
    with opened(downloads) as browser:
        wait(browser, lambda: "Nothing left this computer" in text(browser, "status"))
        yield browser


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def wait(browser: Any, condition: Any) -> None:
    waiting = pytest.importorskip("selenium.webdriver.support.ui")
    waiting.WebDriverWait(browser, PATIENCE).until(lambda _: condition())


def click(browser: Any, row: int, column: int, height: int, width: int) -> None:
    """Click the middle of a pixel of the photo."""
    chains = pytest.importorskip("selenium.webdriver.common.action_chains")
    canvas = browser.find_element("id", "picture")
    across, down = canvas.size["width"] / width, canvas.size["height"] / height
    place = round((column + 0.5 - width / 2) * across), round((row + 0.5 - height / 2) * down)
    chains.ActionChains(browser).move_to_element_with_offset(canvas, *place).click().perform()


def expected(photo: Any = ROOT / "sample_data" / "coffee.jpg") -> nm.SpectralCube:
    """The cube of the network alone: the page neither denoises nor corrects colours."""
    model = nm.load_model("mstpp-photo")
    alone = nm.Reconstructor(model, "cpu", denoise="off", correct_colour=False)
    return alone.reconstruct(photo)


def saved_cube(page: Any, photo: Path, downloads: Path) -> nm.SpectralCube:
    """The cube that the page saves of *photo*, which has another width than the last one."""
    with Image.open(photo) as image:
        area = image.size[0] * image.size[1]
    page.find_element("id", "file").send_keys(str(photo))
    wait(page, lambda: "Computing" in text(page, "status") or str(area) in sizes(page))
    wait(page, lambda: "Nothing left" in text(page, "status") and str(area) in sizes(page))
    page.find_element("id", "envi").click()
    files = [downloads / name for name in ("cube.hdr", "cube.img")]
    wait(page, lambda: all(file.exists() for file in files))
    wait(page, lambda: files[1].stat().st_size == area * 31 * 4)
    return nm.read_cube(files[0])


def sizes(page: Any) -> str:
    """The number of pixels that the line below the photo tells."""
    rows, _, columns = text(page, "status").partition(" pixels")[0].partition(" x ")
    return str(int(rows) * int(columns)) if columns.isdigit() else ""


def test_the_browser_gives_the_spectra_of_python_on_the_screen_and_in_its_files(
    page: Any, downloads: Path
) -> None:
    cube = expected()
    _, height, width = cube.shape
    for number, (row, column) in enumerate([(200, 300), (60, 520)], start=1):
        click(page, row, column, height, width)
        wait(
            page, lambda count=number: len(page.find_elements("css selector", "#kept li")) == count
        )
    page.find_element("id", "csv").click()
    page.find_element("id", "envi").click()
    files = [downloads / name for name in ("spectra.csv", "cube.hdr", "cube.img")]
    wait(page, lambda: all(file.exists() for file in files))
    wait(page, lambda: files[2].stat().st_size == cube.data.size * 4)

    saved = nm.read_cube(files[1])
    assert_allclose(saved.data, cube.data, atol=1e-4)
    assert_array_equal(saved.wavelengths, cube.wavelengths)
    places = [line.split() for line in files[0].read_text().splitlines()[0].split(",")[1:]]
    spectra = np.loadtxt(files[0], delimiter=",", skiprows=1)
    for place, curve in zip(places, spectra.T[1:], strict=True):
        assert_allclose(curve, cube.spectrum(int(place[1]), int(place[3])).values, atol=1e-4)


def test_the_band_in_the_browser_is_that_of_python(page: Any) -> None:
    cube = expected()
    band = nm.interval_of(cube, 200, 300)
    assert band
    script = """
        const done = arguments[arguments.length - 1];
        const { sides } = await import("./network.js");
        const tables = await (await fetch("tables.json")).json();
        done(await sides(arguments[0], tables.models[0], tables));
    """
    shown = page.execute_async_script(script, cube.spectrum(200, 300).values.tolist())
    assert_allclose(shown["lower"], band[0], atol=1e-4)
    assert_allclose(shown["upper"], band[1], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "contents", "said"),
    [
        ("photo.jpg", b"no image", "no image that a browser can read"),
        ("photo.heic", b"\0\0\0\x18ftypheic" + bytes(400), "Safari does"),
    ],
)
def test_a_file_that_no_browser_but_safari_reads_is_refused_in_a_sentence(
    name: str, contents: bytes, said: str, page: Any, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(contents)
    page.find_element("id", "file").send_keys(str(file))
    wait(page, lambda: said in text(page, "status"))


def turned(photo: Image.Image) -> Image.Exif:
    exif = photo.getexif()
    exif[274] = 6  # as phones that were held upright
    return exif


def display_p3(folder: Path) -> Path:
    codes = np.random.default_rng(0).integers(40, 220, (6, 9, 3)).astype(np.uint8)
    photo = Image.fromarray(codes.repeat(8, 0).repeat(8, 1))
    white, primaries = (0.3127, 0.3290), (0.68, 0.32, 0.265, 0.69, 0.15, 0.06)
    icc = bytes(imagecodecs.cms_profile("rgb", whitepoint=white, primaries=primaries, gamma=2.2))
    photo.save(folder / "p3.jpg", exif=turned(photo), icc_profile=icc, quality=100, subsampling=0)
    return folder / "p3.jpg"


def adobe_by_exif(folder: Path) -> Path:
    codes = np.random.default_rng(1).integers(40, 220, (6, 10, 3)).astype(np.uint8)
    photo = Image.fromarray(codes.repeat(8, 0).repeat(8, 1))
    exif = turned(photo)
    exif.get_ifd(0x8769)[0xA001] = 65535
    exif.get_ifd(0x8769)[0xA005] = {1: "R03"}
    photo.save(folder / "adobe.jpg", exif=exif, quality=100, subsampling=0)
    return folder / "adobe.jpg"


def wide_png(folder: Path) -> Path:
    """Every combination of 16 codes a channel, most of them outside sRGB, as cICP says."""
    steps = np.arange(0, 256, 17, dtype=np.uint8)
    codes = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(64, 64, 3)
    return coded_png(folder, codes, bytes([12, 13, 0, 1]))


def coded_png(folder: Path, codes: Any, coding: bytes) -> Path:
    path = folder / "coded.png"
    Image.fromarray(codes).save(path)
    stored, chunk = path.read_bytes(), b"cICP" + coding
    check = zlib.crc32(chunk).to_bytes(4)
    path.write_bytes(stored[:33] + len(coding).to_bytes(4) + chunk + check + stored[33:])
    return path


@pytest.mark.parametrize("make", [display_p3, adobe_by_exif, wide_png])
def test_a_photo_of_a_phone_or_camera_gives_the_cube_of_python(
    make: Callable[[Path], Path], page: Any, downloads: Path, tmp_path: Path
) -> None:
    path = make(tmp_path)
    assert "converted from" in " ".join(expected(path).provenance.assumptions)
    saved = saved_cube(page, path, downloads)
    script = """
        const done = arguments[arguments.length - 1];
        const { data } = document.getElementById("picture").getContext("2d").getImageData(
            0, 0, arguments[0], arguments[1]);
        done(Array.from(data));
    """
    page.execute_script("document.querySelector('[name=view][value=photo]').click()")
    _, rows, columns = saved.shape
    seen = page.execute_async_script(script, columns, rows)
    codes = np.array(seen, np.uint8).reshape(rows, columns, 4)[..., :3]
    # Two programs may round a colour to neighbouring codes.
    off = np.abs(codes - np.moveaxis(nm.Photo.read(path).pixels, 0, -1).astype(int))
    assert off.max() <= 1
    assert off.mean() < 0.05
    assert_allclose(saved.data, expected(codes).data, atol=1e-4)


def test_a_photo_of_a_high_dynamic_range_is_refused_in_a_sentence(
    page: Any, tmp_path: Path
) -> None:
    path = coded_png(tmp_path, np.full((8, 8, 3), 90, np.uint8), bytes([9, 16, 0, 1]))
    with pytest.raises(PhotoError, match="standard range"):
        nm.Photo.read(path)
    page.find_element("id", "file").send_keys(str(path))
    wait(page, lambda: "Export it in standard range" in text(page, "status"))


def test_transparent_pixels_are_unknown(page: Any, downloads: Path, tmp_path: Path) -> None:
    codes = np.full((20, 30, 4), (180, 120, 60, 255), np.uint8)
    codes[5:10, 7:20] = 0
    Image.fromarray(codes).save(tmp_path / "hole.png")
    data = saved_cube(page, tmp_path / "hole.png", downloads).data
    assert_array_equal(np.isnan(data), np.broadcast_to(codes[..., 3] == 0, data.shape))
    click(page, 7, 12, 20, 30)
    wait(page, lambda: "transparent, so its spectrum is unknown" in text(page, "readout"))
    assert not page.find_elements("css selector", "#kept li")


def test_threads_of_a_page_that_is_isolated_give_the_same_numbers(downloads: Path) -> None:
    with opened(downloads, headers=ISOLATED) as page:
        wait(page, lambda: "Nothing left this computer" in text(page, "status"))
        assert page.execute_script("return crossOriginIsolated")
        targets = page.execute_cdp_cmd("Target.getTargets", {})["targetInfos"]
        of_network = next(each["targetId"] for each in targets if "worker.js" in each["url"])
        threads = 1 + sum(each.get("parentId") == of_network for each in targets)
        assert threads == min(4, page.execute_script("return navigator.hardwareConcurrency"))
        page.find_element("id", "envi").click()
        cube = expected()
        files = [downloads / name for name in ("cube.hdr", "cube.img")]
        wait(page, lambda: all(file.exists() for file in files))
        wait(page, lambda: files[1].stat().st_size == cube.data.size * 4)
    assert_allclose(nm.read_cube(files[0]).data, cube.data, atol=1e-4)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("ort.wasm.bundle.min.mjs", "The network did not load"),
        ("ort-wasm-simd-threaded.wasm", "The network did not load"),
        ("worker.js", "The network did not load"),
        ("mstpp-photo.onnx", "The network did not load"),
        ("tables.json", "The page did not load as a whole"),
        ("network.js", "The page did not load as a whole"),
    ],
)
def test_the_page_says_when_a_part_of_it_does_not_load(
    missing: str, said: str, downloads: Path
) -> None:
    with opened(downloads, missing) as browser:
        wait(browser, lambda: said in text(browser, "status"))
