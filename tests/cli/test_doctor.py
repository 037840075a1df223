"""`napari-mst doctor`."""

import pytest

from napari_mst.cli import inspection
from napari_mst.cli.arguments import DONE, REFUSED
from napari_mst.cli.main import main
from napari_mst.models import seal


def lines_of(told: str) -> dict[str, str]:
    """The report by its names."""
    rows = [line.partition("  ") for line in told.splitlines()]
    return {name: text.strip() for name, _, text in rows if name}


def test_the_report_names_versions_device_models_and_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["doctor"])
    told = capsys.readouterr().out
    lines = lines_of(told)
    assert lines["device"].startswith(("cpu", "cuda", "mps"))
    assert "mstpp-srgb" in lines["models"]
    assert "needs" in lines["12 megapixels"]
    assert {"napari-mst", "torch", "numpy", "python", "kernels", "processor"} <= set(lines)
    has_faults = "  ! " in told
    assert status == (REFUSED if has_faults else DONE)
    assert ("no fault was found" in told) is not has_faults


def test_changed_weights_and_a_missing_display_are_faults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("napari")
    monkeypatch.setitem(seal.BUNDLED, "mstpp-srgb.safetensors", "0" * 64)
    monkeypatch.setenv("QT_QPA_PLATFORM", "none-of-that-name")
    assert main(["doctor"]) == REFUSED
    told = capsys.readouterr().out
    assert "changed ones" in lines_of(told)["models"]
    assert "Qt ended" in lines_of(told)["window"]
    assert "faults (!): " in told


@pytest.mark.skipif("sys.platform != 'linux'", reason="elsewhere no variable names the display")
def test_a_server_without_a_display_has_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("napari")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    *_, window = inspection._window()
    assert (window.name, window.advice) == ("window", "")
    assert "no display" in window.text


def test_a_display_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("napari")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    monkeypatch.setenv("DISPLAY", ":4321")
    *_, window = inspection._window()
    assert "qt." in window.text
    assert window.advice


@pytest.mark.skipif("sys.version_info >= (3, 12)", reason="None is not counted any more")
def test_a_pyside_that_loses_references_is_a_fault() -> None:
    assert "PySide6!=6.12.0" in inspection._advice_on(["PySide6 6.12.0"])
    assert not inspection._advice_on(["PySide6 6.11.3"])


def test_kernels_alone_are_compiled_for_a_container(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--compile"]) == DONE
    lines = lines_of(capsys.readouterr().out)
    assert lines.keys() == {"kernels", "processor", "no fault was found"}
