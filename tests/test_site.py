"""The page that runs the network in a browser gives the numbers of Python (`make docs`)."""

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_mst as nm

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

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def page(downloads: Path) -> Iterator[Any]:
    """A browser that has opened the page, and whose photo has been computed."""
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
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.get(f"http://127.0.0.1:{server.server_port}/try/index.html")
            wait(browser, lambda: "Nothing left this computer" in text(browser, "status"))
            yield browser
        finally:
            browser.quit()
            server.shutdown()


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


def expected() -> nm.SpectralCube:
    """The cube of the network alone: the page neither denoises nor corrects colours."""
    model = nm.load_model("pixelwise-srgb")
    alone = nm.Reconstructor(model, "cpu", denoise="off", correct_colour=False)
    return alone.reconstruct(ROOT / "sample_data" / "coffee.jpg")


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
    np.testing.assert_allclose(saved.data, cube.data, atol=1e-4)
    np.testing.assert_array_equal(saved.wavelengths, cube.wavelengths)
    places = [line.split() for line in files[0].read_text().splitlines()[0].split(",")[1:]]
    spectra = np.loadtxt(files[0], delimiter=",", skiprows=1)
    for place, curve in zip(places, spectra.T[1:], strict=True):
        np.testing.assert_allclose(
            curve, cube.spectrum(int(place[1]), int(place[3])).values, atol=1e-4
        )


def test_the_band_in_the_browser_is_that_of_python(page: Any) -> None:
    cube = expected()
    band = nm.spectrum_band(cube, 200, 300)
    assert band
    script = """
        const done = arguments[arguments.length - 1];
        const { sides } = await import("./network.js");
        const tables = await (await fetch("tables.json")).json();
        done(await sides(arguments[0], tables.models[0], tables));
    """
    shown = page.execute_async_script(script, cube.spectrum(200, 300).values.tolist())
    np.testing.assert_allclose(shown["lower"], band[0], atol=1e-4)
    np.testing.assert_allclose(shown["upper"], band[1], atol=1e-4)


def test_a_file_that_is_no_image_is_refused_in_a_sentence(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    file.write_text("no image")
    page.find_element("id", "file").send_keys(str(file))
    wait(page, lambda: "no image that a browser can read" in text(page, "status"))
