"""The command line as a whole: its table, its exit statuses, Ctrl-C and streams that fail."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path

import pytest
from tests.cli.conftest import Run, assert_is_one_error, raising, several

from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress
from napari_mst.cli.arguments import DONE, REFUSED, UNWRITTEN, Command, add_arguments
from napari_mst.cli.main import COMMANDS, main, parser_of
from napari_mst.reconstruction.pipeline import PreparedPhoto


def test_control_c_ends_with_130_and_leaves_no_cube(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreparedPhoto, "reconstruct", raising(KeyboardInterrupt))
    code, _, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    assert code == 130
    assert err.endswith("cancelled\n")
    assert [file.name for file in photo.parent.iterdir()] == ["photo.png"]


def test_every_command_has_one_line_of_help_and_a_help_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    described = [line for line in lines if line.startswith("    ")]
    assert len(described) == len(COMMANDS)  # one line each, at 80 columns
    for command in COMMANDS:
        assert any(line.split()[:1] == [command.name] for line in lines)
        with pytest.raises(SystemExit, match="0"):
            main([command.name, "--help"])
        assert f"usage: napari-mst {command.name} " in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_example_of_a_help_is_a_command_that_parses(command: Command) -> None:
    parser = parser_of([command])
    heading, *lines = command.epilog.partition("\n\n")[0].splitlines()
    assert heading == "examples:"
    for line in lines:
        program, *words = shlex.split(line.partition(" >")[0])
        assert (program, words[0]) == ("napari-mst", command.name)
        parser.parse_args(words)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_argument_has_words_in_the_help(command: Command) -> None:
    parser = ArgumentParser()
    add_arguments(parser, command.load())
    assert not [each.dest for each in parser._actions if not each.help]


def test_a_mistyped_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["recnstruct", "photo.jpg"])
    assert "got 'recnstruct'. Did you mean reconstruct?" in capsys.readouterr().err


def test_help_and_a_mistyped_command_wait_for_no_library() -> None:
    code = (
        "import contextlib, sys; from napari_mst.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print(sorted({'numpy', 'torch', 'napari'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_bash_completes_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == DONE
    script = capsys.readouterr().out
    assert "reconstruct" in script
    assert "--intervals" in script


def test_facts_are_printed_as_json_for_programs(
    run: Run, tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("reconstruct", photo)  # without -o, the cube gets the name of the photo, here
    cube = tmp_path / "photo.hdr"
    assert json.loads(run("info", cube, "--json")[1])["shape"] == "4 bands x 6 rows x 9 columns"
    compared = json.loads(run("compare", cube, cube, "--json")[1])
    assert (compared["RMSE"], compared["PSNR"], len(compared["by_band"])) == (0, None, 4)


@pytest.mark.usefixtures("control_c")
def test_control_c_is_asked_for_by_the_run_and_raised_in_the_middle_of_nothing(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, went_on = signal.getsignal(signal.SIGINT), []

    def pressed(_: PreparedPhoto, progress: Progress) -> None:
        signal.raise_signal(signal.SIGINT)
        went_on.append(progress.is_cancelled is not None and progress.is_cancelled())
        raise Cancelled("The reconstruction was cancelled.")

    monkeypatch.setattr(PreparedPhoto, "reconstruct", pressed)
    code, _, err = run("reconstruct", photo, *several(photo, 2), "-o", photo.parent)
    assert (code, went_on) == (130, [True])  # none of the photos to come is begun
    assert err.endswith("cancelled\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_kernels_are_compiled_in_a_thread_of_their_own_so_that_control_c_is_heard(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    askers: list[threading.Thread] = []

    def is_ready() -> bool:
        askers.append(threading.current_thread())
        return False

    monkeypatch.setattr("napari_mst.engine.fast_paths.native.is_ready", is_ready)
    assert run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))[0] == 0
    assert askers[0] is not threading.main_thread()


@pytest.mark.parametrize("command", ["models", "cameras"])
def test_output_that_nobody_reads_ends_the_command_quietly(command: str) -> None:
    """As with `head`, which closes its end: neither the command nor Python leaves a traceback."""
    code = (
        "import sys; sys.stdin.read(); from napari_mst.cli.main import main; "
        f"sys.exit(main([{command!r}]))"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    ("command", "stream"),
    [
        ("--help", "stdout"),
        ("models", "stdout"),
        ("models", "stderr"),
        ("info no-such-file", "stderr"),
        pytest.param("--help", "stderr", marks=pytest.mark.slow),
        pytest.param("info no-such-file", "stdout", marks=pytest.mark.slow),
    ],
)
def test_output_that_cannot_be_written_is_said_in_one_line(command: str, stream: str) -> None:
    arguments = command.split()
    is_refused = arguments[0] == "info"
    is_hit = stream == ("stderr" if is_refused else "stdout")
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "napari_mst", *arguments],
            stdout=full if stream == "stdout" else subprocess.PIPE,
            stderr=full if stream == "stderr" else subprocess.PIPE,
            env=buffered,
            text=True,
            check=False,
        )
    expected = REFUSED if is_refused else DONE
    assert done.returncode == (UNWRITTEN if is_hit else expected)
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
