// A policy in a module without imports: it can compute, and nothing else.
export async function load(bytes) {
  const module = await WebAssembly.compile(bytes);
  if (WebAssembly.Module.imports(module).length) throw new Error("the module asks for imports");
  const { exports } = await WebAssembly.instantiate(module, {});
  exports._initialize();
  exports.page_reset();
  const obs = new Float32Array(exports.memory.buffer, exports.page_obs(), 4);
  return {
    reset: () => exports.page_reset(),
    act(values) {
      obs.set(values);
      return exports.page_step();
    },
  };
}
