// The policy compiled to WebAssembly: a module that imports nothing. `policy_run(places, rows)`
// takes one list of addresses: inputs, outputs, work area, weights. The page lays them out behind
// the module's own data, each at a multiple of a cache line.
"use strict";

Roadworthy.engines.wasm = (() => {
  const LINE = 64;
  const PAGE = 65536;
  const { arrays } = Roadworthy;
  let exports = null;
  let compiled = null;
  let constants = null;
  let laid = null;

  async function open(bundle) {
    compiled = bundle.compiled;
    const { instance } = await WebAssembly.instantiate(arrays.bytesOf(compiled.module), {});
    exports = instance.exports;
    exports._initialize();
    constants = compiled.constants.map(arrays.decode);
  }

  // Places for another number of rows, and the weights in theirs.
  function layOut(rows) {
    const shapeOf = (port) => port.shape.map((dim) => (dim === "batch" ? rows : dim));
    const ports = [...compiled.inputs, ...compiled.outputs];
    const shapes = ports.map(shapeOf);
    const kinds = [
      ...ports.map((port, i) => [port.dtype, arrays.size(shapes[i])]),
      ["uint8", exports.policy_work_size()],
      ...constants.map(({ dtype, data }) => [dtype, data.length]),
    ];
    let end = exports.__heap_base.value;
    const places = kinds.map(([dtype, count]) => {
      const start = Math.ceil(end / LINE) * LINE;
      end = start + count * arrays.width(dtype);
      return start;
    });
    const list = Math.ceil(end / LINE) * LINE;
    const missing = list + 4 * places.length - exports.memory.buffer.byteLength;
    if (missing > 0) exports.memory.grow(Math.ceil(missing / PAGE));
    // Growing gives another buffer: views are made from here on.
    const { buffer } = exports.memory;
    new Uint32Array(buffer, list, places.length).set(places);
    const views = kinds.map(([dtype, count], i) => arrays.view(dtype, buffer, places[i], count));
    constants.forEach(({ data }, i) => views[ports.length + 1 + i].set(data));
    const named = new Map(ports.map((port, i) => [port.name, { view: views[i], shape: shapes[i], dtype: port.dtype }]));
    return { rows, list, named };
  }

  function rowsOf(feeds) {
    const port = compiled.inputs.find(({ shape }) => shape.includes("batch"));
    return port ? feeds[port.name].shape[port.shape.indexOf("batch")] : 1;
  }

  async function run(feeds, wanted) {
    const rows = rowsOf(feeds);
    if (laid === null || laid.rows !== rows) laid = layOut(rows);
    for (const { name } of compiled.inputs) laid.named.get(name).view.set(feeds[name].data);
    exports.policy_run(laid.list, rows);
    const found = {};
    for (const name of wanted) {
      const { dtype, shape, view } = laid.named.get(name);
      found[name] = { dtype, shape: [...shape], data: view.slice() };
    }
    return found;
  }

  return { open, run };
})();
