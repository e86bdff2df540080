// Numbers of every dtype that a port may have, as typed arrays.
"use strict";
window.Roadworthy = window.Roadworthy || {};

Roadworthy.arrays = (() => {
  const KINDS = {
    float16: Uint16Array, float32: Float32Array, float64: Float64Array,
    int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
    uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
    bool: Uint8Array,
  };

  const size = (shape) => shape.reduce((product, dim) => product * dim, 1);

  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  function halfToNumber(bits) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  // To the nearest, ties to even, as NumPy rounds.
  function numberToHalf(value) {
    if (Number.isNaN(value)) return 0x7e00;
    const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    const size = Math.abs(value);
    if (size >= 65520) return sign | 0x7c00;
    const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -30)));
    const unit = 2 ** (exponent - 10);
    let steps = Math.floor(size / unit);
    const rest = size / unit - steps;
    if (rest > 0.5 || (rest === 0.5 && steps % 2)) steps += 1;
    return sign | (exponent === -14 && steps < 1024 ? steps : ((exponent + 15) << 10) + steps - 1024);
  }

  // A dtype's array from plain numbers, and back.
  function cast(dtype, numbers) {
    const made = new KINDS[dtype](numbers.length);
    for (let i = 0; i < numbers.length; i++) {
      if (dtype === "float16") made[i] = numberToHalf(Number(numbers[i]));
      else if (dtype.endsWith("64") && dtype !== "float64") made[i] = BigInt(numbers[i]);
      else made[i] = Number(numbers[i]);
    }
    return made;
  }

  function numbers(dtype, values) {
    return Array.from(values, dtype === "float16" ? halfToNumber : Number);
  }

  // {dtype, shape, base64} of the bundle, as {dtype, shape, data}.
  function decode({ dtype, shape, base64 }) {
    return { dtype, shape, data: new KINDS[dtype](bytesOf(base64).buffer) };
  }

  // Memory of a WebAssembly module as an array, and how many bytes an element takes there.
  const view = (dtype, buffer, start, count) => new KINDS[dtype](buffer, start, count);
  const width = (dtype) => KINDS[dtype].BYTES_PER_ELEMENT;

  // One step of an array whose first axis is the steps.
  function at(array, step) {
    const each = size(array.shape.slice(1));
    return array.data.subarray(step * each, (step + 1) * each);
  }

  return { at, bytesOf, cast, decode, numbers, size, view, width };
})();
