# Everything happens in .venv; installing is skipped while pyproject.toml is unchanged.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread for each worker; bytecode is kept, since many tests start a process of their own.
ONE := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# Tests of parts by themselves: no commands, whole trainings, browsers or other people's models.
UNITS := tests/attention tests/checkpoint tests/data tests/decoding tests/metrics tests/models tests/test_config.py \
	tests/test_checkpoint.py tests/test_cost.py tests/test_quantize.py
# of which some take long: GPU kernels run in numpy, memory that is measured in processes of their own
UNITS += --ignore tests/attention/kernels --ignore tests/data/test_memory.py
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends

.PHONY: demo test quick check faults serve-faults soak cluster slow gpu real-text sweep docs pictures browser chromium curl systemd format clean

demo: $(VENV)/.installed ## train a small French-English translator and show what it learned
	$(BIN)/regard demo

test: $(VENV)/.installed-test chromium curl systemd ## the whole suite on two cores
	$(ONE) $(BIN)/python -m pytest -q -n 2 --dist worksteal

quick: $(VENV)/.installed-test ## unit tests only, two minutes on two idle cores
	$(ONE) $(BIN)/python -m pytest -q -n 2 --dist worksteal $(UNITS)

check: $(VENV)/.installed-dev chromium curl systemd ## formatting, lint, types, the import contract, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(ONE) $(BIN)/python -m pytest -q -n 2 --dist worksteal

faults: $(VENV)/.installed-test ## the long fault-injection runs: kills, full disks, huge files
	$(ONE) $(BIN)/python -m pytest -q -m faults

serve-faults: $(VENV)/.installed-test ## the long runs against the server: many kills, slow clients, 500 sentences
	$(ONE) $(BIN)/python -m pytest -q -m faults tests/serve

soak: $(VENV)/.installed-test ## 20,000 requests of all kinds to one server, some of whose clients go away
	$(ONE) $(BIN)/python -m tests.serve.soak $(or $(REQUESTS),20000)

slow: $(VENV)/.installed-test ## trainings and parities beyond those of the suite
	$(ONE) $(BIN)/python -m pytest -q -m slow -n 2 --dist worksteal

cluster: $(VENV)/.installed-cluster ## long files and replicas on a Ray of this machine, whose processes are killed
	$(ONE) $(BIN)/python -m pytest -q -m cluster tests/cluster

# Nothing is installed: torch, the dependencies of Regard and pytest must be there; skips say what else is missing.
gpu: ## the tests that need a CUDA device, by $(PYTHON) itself
	@$(PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
		|| { echo "no CUDA device here: these tests would all be skipped" >&2; exit 1; }
	$(ONE) $(PYTHON) -m pytest -q -rs -m cuda

# FOLDER has text files, one text in each line; DEVICE is cpu or cuda.
real-text: ## every text file of FOLDER through the translator in the box, both ways, in one process
	$(PYTHON) -m benchmarks.real_text $(or $(FOLDER),data/real) --device $(or $(DEVICE),cpu)

sweep: $(VENV)/.installed-test ## record what every command says to every kind of file (tests/first_use/sweep.tsv)
	$(ONE) $(BIN)/python -m tests.first_use.sweep --write

docs: $(VENV)/.installed-docs ## the documentation as a site that opens from a disk: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# RUN is a run of docs/tour.md, for the screen of training; its picture is left as it is without one.
pictures: $(VENV)/.installed-test chromium ## take the pictures of docs/explorer.md and draw those of docs/commands/lab.md anew
	$(BIN)/python scripts/make_explorer_pictures.py $(if $(wildcard $(or $(RUN),runs/a)),--run $(or $(RUN),runs/a))
	$(BIN)/python scripts/make_lab_pictures.py

browser: $(VENV)/.installed-test chromium ## the tests of the pages and the explorer alone, in a browser
	$(ONE) $(BIN)/python -m pytest -q tests/browser

# One without windows opens a page in a third of the time; not every Debian has it.
chromium: ## a browser for the page's tests, installed where possible; without one they are skipped
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| command -v google-chrome >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
		&& { $(INSTALL) chromium-headless-shell fonts-liberation || $(INSTALL) chromium fonts-liberation; }; } \
		|| echo "no Chromium: the browser tests are skipped (apt install chromium)"

curl: ## for the examples of docs/serve.md, installed where possible; without it they are skipped
	@command -v curl >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && $(INSTALL) curl; } \
		|| echo "no curl: its examples are skipped (apt install curl)"

systemd: ## for the check of deploy/regard.service, installed where possible; without it that is skipped
	@command -v systemd-analyze >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && $(INSTALL) systemd; } \
		|| echo "no systemd-analyze: the unit is not checked (apt install systemd)"

format: $(VENV)/.installed-dev ## rewrite the code in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what these commands made, the virtual environment included
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-cluster: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e '.[test,ray]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e '.[dev]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Regard needs Python 3.11 or newer: name one with 'make PYTHON=python3.12 ...'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make a virtual environment: install it first (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
