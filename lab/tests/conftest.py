"""A way to run a command of the laboratory."""

from collections.abc import Callable

import pytest
from tests.conftest import shared_data as shared_data

from lab.reference_spectra import KNOWN
from lab.retrain import RETRAIN
from lab.training import CALIBRATE
from napari_mst.cli import main

Run = Callable[..., tuple[int, str, str]]
"""Runs a command; gives its exit status, standard output and standard error."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(main, "COMMANDS", [*main.COMMANDS, RETRAIN, CALIBRATE, KNOWN])

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = main.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run_command
