# Two commands are all a new machine needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# torch comes first and pinned: an unpinned one would bring gigabytes of CUDA libraries.
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: demo test check bench docs format clean

demo: $(READY)
	$(BIN)/roadworthy demo --out demo-bundle

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	for folder in examples/*/; do $(BIN)/mypy $$folder*.py || exit 1; done

bench: $(READY)
	$(BIN)/python benchmarks/step_latency.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/export_time.py
	$(BIN)/python benchmarks/verification.py
	$(BIN)/python benchmarks/torchrl_rollouts.py --aoti

docs: $(READY)
	$(BIN)/python -m roadworthy.doctor.write_docs docs
	$(BIN)/python docs/write_api.py docs/api.md

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) demo-bundle build
