// What runs the policy. An engine is an object with two methods, and the page knows no more of it:
//
//   await engine.open(bundle)          get ready; bundle.js holds what the engine needs
//   await engine.run(feeds, wanted)    name → {dtype, shape, data} in, the same out
//
// The bundle says which one it is for. Here is onnxruntime-web; wasm.js is the policy itself.
"use strict";

Roadworthy.engines = {};

Roadworthy.engines.onnx = (() => {
  let session = null;

  // Everything is inside scripts: a page that was opened from disk may not fetch files.
  async function runtime() {
    const { wasm, mjs } = Roadworthy.runtime;
    const packed = Roadworthy.arrays.bytesOf(wasm);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    ort.env.wasm.wasmBinary = await new Response(stream).arrayBuffer();
    const script = new Blob([mjs], { type: "text/javascript" });
    ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(script) };
    ort.env.wasm.numThreads = 1;
  }

  async function open(bundle) {
    await runtime();
    session = await ort.InferenceSession.create(Roadworthy.arrays.bytesOf(bundle.model), {
      executionProviders: ["wasm"],
      graphOptimizationLevel: "all",
    });
  }

  // Newer browsers have an array for halves, and the runtime insists on it there.
  function halves(data) {
    return typeof Float16Array === "undefined" ? data : new Float16Array(data.slice().buffer);
  }

  async function run(feeds, wanted) {
    const tensors = {};
    for (const [name, { dtype, shape, data }] of Object.entries(feeds)) {
      tensors[name] = new ort.Tensor(dtype, dtype === "float16" ? halves(data) : data, shape);
    }
    const results = await session.run(tensors, wanted);
    const found = {};
    for (const name of wanted) {
      const { type, dims, data } = results[name];
      const plain = type === "float16" ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
      found[name] = { dtype: type, shape: [...dims], data: plain };
    }
    return found;
  }

  return { open, run };
})();
