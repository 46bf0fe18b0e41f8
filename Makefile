# Everything a newcomer needs: `make demo` shows the program at work, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test browser oldest soak lint format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "blogdit needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(STAMP)
	bash examples/demo.sh $(BIN)/blogdit

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2

# Chromium, for the tests of the page. Without it they are skipped, but not in CI.
browser:
	command -v chromium || { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core; }

# The integrations with the oldest versions that their extras allow.
oldest: $(STAMP)
	files=$$($(BIN)/python tests/oldest.py build/oldest) && \
	PYTHONPATH=$(CURDIR)/build/oldest $(BIN)/python -m pytest -n 2 $$files

# Half an hour of random instances under kills, full disks and worse; not part of CI.
soak: $(STAMP)
	$(BIN)/python benchmarks/soak.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
