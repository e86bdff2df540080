# Two commands are all a new machine needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Frameworks (TorchRL, ale-py) come with the second of these alone.
READY := $(VENV)/.ready
READY_ALL := $(VENV)/.ready-all
# torch comes first and pinned: an unpinned one would bring gigabytes of CUDA libraries.
TORCH := $(shell grep '^torch==' constraints.txt)
# Without what it asks for: torchvision has no build for the CPU.
RSL_RL := $(shell grep '^rsl-rl-lib==' constraints.txt)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Two workers on two cores: a thread that waits for work must not spin beside them.
PYTEST := OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2

.PHONY: demo quick test test-rest test-long test-all check bench docs format clean

demo: $(READY)
	$(BIN)/roadworthy demo --out demo-bundle

# A minute: the parts that need few exports, and a policy of each main kind.
quick: $(READY)
	$(PYTEST) -m 'quick and not slow and not framework'

# Every claim, and every policy of the registry exported and verified.
test: $(READY)
	$(PYTEST) -m 'not slow and not framework'

# What `make test` leaves out, but for the long sampling. CI runs it after `make test`.
test-rest: $(READY_ALL)
	$(PYTEST) -m '(slow or framework) and not long'

# Sampling that no push waits for: more seeds, many closed loops in simulators.
test-long: $(READY_ALL)
	$(PYTEST) -m 'long'

# Everything: every claim over every case and every target, every framework, every example.
test-all: $(READY_ALL)
	$(PYTEST)

check: $(READY_ALL)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	for folder in examples/*/; do $(BIN)/mypy $$folder*.py || exit 1; done

bench: $(READY_ALL)
	$(BIN)/python benchmarks/step_latency.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/export_time.py
	$(BIN)/python benchmarks/checkpoint_export.py
	$(BIN)/python benchmarks/verification.py
	$(BIN)/python benchmarks/operator_sweep.py
	$(BIN)/python benchmarks/people.py
	$(BIN)/python benchmarks/torchrl_rollouts.py --aoti

docs: $(READY)
	$(BIN)/python -m roadworthy.doctor.write_docs docs
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
	$(INSTALL) --no-deps '$(RSL_RL)'
	touch $(READY_ALL)

clean:
	rm -rf $(VENV) demo-bundle demo-bundle-sb3 build
