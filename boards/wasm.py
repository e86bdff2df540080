"""Says what a module without imports digests, in wasmtime's sandbox: python wasm.py digest.wasm."""

from __future__ import annotations

import sys

import wasmtime

FUEL, MEMORY = 10**10, 64 * 2**20

config = wasmtime.Config()
config.consume_fuel = True
engine = wasmtime.Engine(config)
store = wasmtime.Store(engine)
store.set_limits(memory_size=MEMORY)
store.set_fuel(FUEL)
module = wasmtime.Module.from_file(engine, sys.argv[1])
if list(module.imports):
    raise SystemExit("the module asks for imports")
exports = wasmtime.Instance(store, module, []).exports(store)
exports["_initialize"](store)
start = exports["digest"](store)
print(exports["memory"].read(store, start, start + 16).decode())
