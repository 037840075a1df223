# The commands. Each does all the set-up; what is there already is not done again.
#
#   make demo        a photo becomes a cube in napari (without a display: files and a screenshot in demo/)
#   make test        every check and every test, but for the slow ones
#   make test-slow   the tests that take long: some minutes to an hour together; CI runs them every night
#
# Another interpreter than python3: make test PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# A virtual display where there is none; macOS and Windows have no DISPLAY and need none.
NO_DISPLAY = [ -z "$$DISPLAY" ] && command -v xvfb-run >/dev/null
VIRTUAL_DISPLAY = xvfb-run --auto-servernum --server-args="-screen 0 1920x1200x24"

.PHONY: demo test tests test-slow checks system clean

demo: .venv/ready
	@if $(NO_DISPLAY); \
	then $(VIRTUAL_DISPLAY) $(BIN)/python -m napari_mst.plugin.demo --out demo; \
	else $(BIN)/python -m napari_mst.plugin.demo --out demo --keep-open; fi

test: checks
	@if $(NO_DISPLAY); then $(VIRTUAL_DISPLAY) $(MAKE) --no-print-directory tests; \
	else $(MAKE) --no-print-directory tests; fi

tests: .venv/ready
	$(BIN)/python -m pytest
	QT_API=pyside6 $(BIN)/python -m pytest tests/plugin

test-slow: .venv/ready
	@if $(NO_DISPLAY); then $(VIRTUAL_DISPLAY) $(BIN)/python -m pytest -m slow; else $(BIN)/python -m pytest -m slow; fi

checks: .venv/ready
	PATH="$(CURDIR)/$(BIN):$$PATH" pre-commit run --all-files

.venv/ready: pyproject.toml constraints.txt | system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Expected Python 3.11 or newer, got " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all,test]"
	@touch $@

system:
	@PYTHON="$(PYTHON)" sh tools/install_system_packages.sh

clean:
	rm -rf .venv demo dist
