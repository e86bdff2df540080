# Two commands are all a new machine needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Frameworks (TorchRL, ale-py) come with the second of these alone.
READY := $(VENV)/.ready
READY_ALL := $(VENV)/.ready-all
# torch comes first and pinned: an unpinned one would bring gigabytes of CUDA libraries.
TORCH := $(shell grep '^torch==' constraints.txt)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Two workers on two cores: a thread that waits for work must not spin beside them.
PYTEST := OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2

SHIPPED := src/roadworthy/show/playground/vendor

.PHONY: demo quick test durations test-rest test-long test-all chromium vendor check bench boards docs format clean

demo: $(READY)
	$(BIN)/roadworthy demo --out demo-bundle

# A minute: the parts that need few exports, and a policy of each main kind.
quick: $(READY)
	$(PYTEST) -m 'quick and not slow and not framework'

# Every claim, and every policy of the registry exported and verified.
test: $(READY)
	$(PYTEST) -m 'not slow and not framework'

# How long a case of each test takes, on idle cores: tests/tiers.py reads what this writes.
durations: $(READY)
	$(PYTEST) -m 'not slow and not framework' -o junit_duration_report=call --junit-xml=build/durations.xml
	$(BIN)/python -m tests.durations build/durations.xml

# An eighth of what `make test` leaves out (tests/tiers.py). CI runs it after `make test`.
test-rest: $(READY_ALL) chromium
	$(PYTEST) -m '(slow or framework) and not long'

# What no push waits for: the other cases, more seeds, many closed loops in simulators.
test-long: $(READY_ALL)
	$(PYTEST) -m 'long'

# Everything: every claim over every case and every target, every framework, every example.
test-all: $(READY_ALL) chromium
	$(PYTEST)

# Reports and the playground are tested in a real browser; .ci/run installs it.
chromium:
	@command -v chromium >/dev/null || \
	  { echo 'no chromium: apt-get install -y --no-install-recommends chromium'; exit 1; }

# What the playground ships, from npm by its lock file. Only for another version of it.
vendor: $(READY)
	npm ci --ignore-scripts --prefix $(SHIPPED)
	$(BIN)/python -m roadworthy.show.playground.vendor_files $(SHIPPED)/node_modules/onnxruntime-web
	rm -r $(SHIPPED)/node_modules

check: $(READY_ALL)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	for folder in examples/*/; do $(BIN)/mypy $$folder*.py || exit 1; done

bench: $(READY_ALL)
	$(BIN)/python benchmarks/step_latency.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/flight_recorder.py
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/export_time.py
	$(BIN)/python benchmarks/checkpoint_export.py
	$(BIN)/python benchmarks/verification.py
	$(BIN)/python benchmarks/operator_sweep.py
	$(BIN)/python benchmarks/c_speed.py
	$(BIN)/python benchmarks/c_math.py
	$(BIN)/python benchmarks/people.py
	$(BIN)/python benchmarks/torchrl_rollouts.py --aoti

# The policy as C on every processor that qemu has here; it says what to install for the others.
boards: $(READY)
	$(BIN)/python boards/run.py

docs: $(READY)
	$(BIN)/python -m roadworthy.rules.write_docs docs
	$(BIN)/python docs/write_api.py docs/api.md

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '$(TORCH)'
	$(INSTALL) -e '.[dev]'
	touch $(READY)

$(READY_ALL): $(READY)
	$(INSTALL) -e '.[dev-all]'
	# mjlab brings it: without a build for the CPU its import fails, and TorchRL's with it.
	$(BIN)/python -m pip uninstall --quiet --disable-pip-version-check --yes torchvision
	touch $(READY_ALL)

clean:
	rm -rf $(VENV) demo-bundle demo-bundle-sb3 demo-bundle.html build
