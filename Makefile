# The commands. Each does all the set-up; what is there already is not done again.
#
#   make demo        a photo becomes a cube in napari (without a display: files and a screenshot in demo/)
#   make test        every check and every test, but for the slow ones (make checks, make tests: one of both)
#   make test-slow   the tests that take long, and all of the window's under the other binding of Qt: some minutes to an
#                    hour together; CI runs them every night
#   make docs        the code of README and docs, and the site in build/site, which a browser tries; CI runs it every night
#   make pictures    every picture of README and of the site, anew
#
# Another interpreter than python3: make test PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Images of containers often set it; each of the many processes of the tests would then compile every module anew.
export PYTHONDONTWRITEBYTECODE =
# pytest rewrites all modules of every package that brings a plugin, even all of napari: only the plugins that we use.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD = 1
export PYTEST_PLUGINS = xdist.plugin,pytestqt.plugin,napari.utils._testsupport,_hypothesis_pytestplugin

# A virtual display where there is none; macOS and Windows have no DISPLAY and need none.
NO_DISPLAY = [ -z "$$DISPLAY" ] && command -v xvfb-run >/dev/null
XVFB = xvfb-run --auto-servernum --server-args="-screen 0 1920x1200x24"
DISPLAYED = $(shell if $(NO_DISPLAY); then echo '$(XVFB)'; fi)

# Tests on several cores; some of them take half a gigabyte, so not on all that a large machine has.
# Each process has one thread: several on each core would only wait for one another.
PYTEST = $(BIN)/python -m pytest --numprocesses=logical --maxprocesses=4 --dist=worksteal

.PHONY: demo test tests tests-pyqt6 tests-pyside6 test-slow docs pictures checks kernels system clean

demo: .venv/ready
	@# Settings of its own: napari writes the size of the window that it closes into them.
	NAPARI_CONFIG=demo/settings/napari.yaml $(DISPLAYED) $(BIN)/python tools/demo.py --out demo $(if $(DISPLAYED),,--keep-open)
	@echo "Next: a cube of a photo of yours: .venv/bin/napari-mst reconstruct PHOTO -o cube.hdr; the window: .venv/bin/napari"

# mypy keeps one core busy for a minute; the tests under the other binding of Qt are one process beside it.
test: .venv/ready
	@echo "make test, 1 of 2: the checks, and beside them the window under PySide6"
	@$(MAKE) --no-print-directory --jobs=2 checks tests-pyside6
	@echo "make test, 2 of 2: all tests but the slow ones, the window under PyQt6"
	@$(MAKE) --no-print-directory tests-pyqt6
	@echo "make test: all passed. Next: make demo shows what it does, CONTRIBUTING.md how to change it."

tests: tests-pyside6 tests-pyqt6

tests-pyqt6: .venv/ready
	OMP_NUM_THREADS=1 $(DISPLAYED) $(PYTEST)

tests-pyside6: .venv/ready kernels
	OMP_NUM_THREADS=1 QT_API=pyside6 $(DISPLAYED) $(BIN)/python -m pytest tests/plugin/test_window.py tests/plugin/test_workspace_dock.py

# Compiled once here, rather than by each process of the tests at the same time.
kernels: .venv/ready
	-@$(BIN)/napari-mst doctor --compile

test-slow: .venv/ready
	$(DISPLAYED) $(BIN)/python -m pytest -m slow
	OMP_NUM_THREADS=1 QT_API=pyside6 $(DISPLAYED) $(PYTEST) tests/plugin

docs: .venv/docs
	PYTHONPATH=. $(BIN)/python site/build.py build/site
	$(BIN)/python -m pytest -m docs

pictures: .venv/docs
	@command -v pngquant >/dev/null || sh tools/install_system_packages.sh pngquant
	@command -v ffmpeg >/dev/null || sh tools/install_system_packages.sh ffmpeg
	$(BIN)/python -m tools.pictures
	NAPARI_CONFIG=build/napari.yaml $(DISPLAYED) $(BIN)/python -m tools.window_pictures

checks: .venv/ready
	@# pre-commit asks git for the files; those of a source distribution were checked before.
	@if [ -e .git ]; then PATH="$(CURDIR)/$(BIN):$$PATH" pre-commit run --all-files; \
	else echo "note: no git repository here: no checks, only tests"; fi

.venv/ready: pyproject.toml constraints.txt | system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Expected Python 3.11 or newer, got " + sys.version)'
	@echo "Making .venv: 200 packages, 3 GB, some minutes once; pip says which one it is at."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --no-input --progress-bar off --no-compile --constraint constraints.txt --editable ".[all,test]"
	@# pip would compile on one core. A few files of other packages are for other Pythons: not our errors.
	@$(BIN)/python -m compileall -q -j 0 .venv/lib src >/dev/null 2>&1 || true
	@touch $@

.venv/docs: .venv/ready
	@command -v npm >/dev/null || sh tools/install_system_packages.sh npm
	@command -v chromium google-chrome >/dev/null || sh tools/install_system_packages.sh chromium chromium-driver
	@$(BIN)/python -m pip install --no-input --progress-bar off --constraint constraints.txt --editable ".[docs]"
	@touch $@

system:
	@PYTHON="$(PYTHON)" sh tools/install_system_packages.sh

clean:
	rm -rf .venv demo dist
