// The policy: named values in, named values out, memory kept inside. The same rules as
// roadworthy.Policy: memory starts at its initial value, single rows can be reset, the clock of a
// policy of two rates counts ticks, and noise that is left out is drawn.
"use strict";

Roadworthy.Policy = class {
  constructor(signature, engine, dims, seed = 0) {
    this.signature = signature;
    this.engine = engine;
    this.dims = dims; // sizes of the symbolic dimensions other than the batch
    this.rows = 0;
    this.wanted = [...signature.outputs, ...signature.memory.map((each) => ({ name: each.output }))]
      .map((each) => each.name);
    this.restart(seed);
    this.makeRoom(this.fixedRows() || 1);
  }

  fixedRows() {
    const symbols = this.signature.inputs.flatMap((port) => port.shape);
    return symbols.includes("batch") ? null : this.signature.inputs[0].shape[0] || 1;
  }

  shape(port, rows = this.rows) {
    return port.shape.map((dim) => (dim === "batch" ? rows : typeof dim === "string" ? this.dims[dim] : dim));
  }

  makeRoom(rows) {
    this.rows = rows;
    this.tick = 0;
    this.memory = {};
    for (const each of this.signature.memory) this.memory[each.name] = this.fresh(each, rows);
  }

  // The initial value in each row: one number for all, or the numbers of one row.
  fresh(memory, rows) {
    const { size, cast } = Roadworthy.arrays;
    const shape = this.shape(memory, rows);
    const axis = memory.shape.indexOf("batch");
    const initial = [memory.initial].flat(Infinity).map(Number);
    const inner = axis < 0 ? size(shape) : size(shape.slice(axis + 1));
    const count = axis < 0 ? 1 : rows;
    const numbers = [];
    for (let i = 0; i < size(shape); i++) {
      const outer = Math.floor(i / (inner * count));
      numbers.push(initial.length === 1 ? initial[0] : initial[outer * inner + (i % inner)]);
    }
    return { dtype: memory.dtype, shape, data: cast(memory.dtype, numbers) };
  }

  // All rows, or those where the mask is true.
  reset(mask = null) {
    if (mask === null || mask.every(Boolean)) {
      this.makeRoom(this.rows);
      return;
    }
    for (const each of this.signature.memory) {
      const axis = each.shape.indexOf("batch");
      if (axis < 0) continue; // the number of rows is fixed: all or none
      const start = this.fresh(each, this.rows);
      const held = this.memory[each.name];
      const data = held.data.slice();
      const inner = Roadworthy.arrays.size(held.shape.slice(axis + 1));
      for (let i = 0; i < data.length; i++) {
        if (mask[Math.floor(i / inner) % this.rows]) data[i] = start.data[i];
      }
      this.memory[each.name] = { ...held, data };
    }
  }

  // Noise from the beginning; one stream for each row.
  restart(seed) {
    this.seed = seed;
    this.streams = [];
  }

  // `inputs`: port → typed array of all rows. What comes back is alike, with dtype and shape.
  async step(inputs, rows = this.rows) {
    if (rows !== this.rows) this.makeRoom(rows);
    const { signature } = this;
    const feeds = {};
    for (const port of signature.inputs) {
      const data = inputs[port.name] || this.draw(port);
      feeds[port.name] = { dtype: port.dtype, shape: this.shape(port), data };
    }
    for (const each of signature.memory) feeds[each.input] = this.memory[each.name];
    if (signature.clock) {
      feeds[signature.clock] = { dtype: "int32", shape: [], data: Int32Array.of(this.tick) };
    }
    const results = await this.engine.run(feeds, this.wanted);
    for (const each of signature.memory) this.memory[each.name] = results[each.output];
    if (signature.clock) this.tick = (this.tick + 1) % signature.decimation;
    return Object.fromEntries(signature.outputs.map((port) => [port.name, results[port.name]]));
  }

  draw(port) {
    if (!port.noise) throw new Error(`missing input ${port.name}`);
    const shape = this.shape(port);
    const each = Roadworthy.arrays.size(shape.slice(1));
    const numbers = [];
    for (let row = 0; row < shape[0]; row++) {
      this.streams[row] = this.streams[row] || Roadworthy.random(this.seed * 7919 + row);
      const stream = this.streams[row];
      const next = port.noise === "normal" ? stream.normal : stream.uniform;
      for (let i = 0; i < each; i++) numbers.push(next());
    }
    return Roadworthy.arrays.cast(port.dtype, numbers);
  }
};

// Seeded draws. They are not NumPy's: a playground repeats itself, not a Python run.
Roadworthy.random = (seed) => {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    return radius * Math.cos(2 * Math.PI * uniform());
  };
  return { uniform, normal };
};
