// The golden steps of the original through the policy in this browser, and the verdict.
"use strict";

Roadworthy.replay = async (policy, trace) => {
  const { at, decode, numbers } = Roadworthy.arrays;
  const inputs = Object.entries(trace.inputs).map(([name, array]) => [name, decode(array)]);
  const outputs = Object.entries(trace.outputs).map(([name, array]) => [name, decode(array)]);
  const allowed = Object.fromEntries(
    Object.entries(trace.allowed).map(([name, array]) => [name, decode(array)]),
  );
  const resets = decode(trace.resets);
  const worst = { share: 0, gap: 0, port: "", step: 0 };
  let failed = null;
  policy.makeRoom(trace.rows);
  for (let step = 0; step < trace.steps; step++) {
    const mask = Array.from(at(resets, step), Boolean);
    if (mask.some(Boolean)) policy.reset(mask);
    const feeds = Object.fromEntries(inputs.map(([name, array]) => [name, at(array, step)]));
    const got = await policy.step(feeds, trace.rows);
    for (const [name, array] of outputs) {
      const truth = numbers(array.dtype, at(array, step));
      const values = numbers(got[name].dtype, got[name].data);
      const limits = allowed[name] ? at(allowed[name], step) : null;
      const fixed = fixedLimit(array.dtype, truth);
      truth.forEach((one, i) => {
        const other = values[i];
        const gap = one === other || (Number.isNaN(one) && Number.isNaN(other)) ? 0 : Math.abs(one - other);
        const limit = limits ? power(limits[i]) : fixed;
        const share = gap === 0 ? 0 : Number.isNaN(gap) ? Infinity : gap / limit;
        if (share > worst.share) Object.assign(worst, { share, gap, port: name, step });
        if (share > 1 && failed === null) failed = { port: name, step, one, other };
      });
    }
  }
  policy.makeRoom(policy.fixedRows() || 1);
  return { passed: failed === null && trace.steps > 0, steps: trace.steps, worst, failed };

  // Tolerances are stored as powers of two; the ends of the range are nothing and anything.
  function power(exponent) {
    return exponent === -128 ? 0 : exponent === 127 ? Infinity : 2 ** exponent;
  }

  // Where rounding was not measured: a few units in the last place, whole numbers exactly.
  function fixedLimit(dtype, truth) {
    const part = { float16: [4e-3, 2e-3], float32: [1e-5, 1e-5], float64: [1e-9, 1e-9] }[dtype] || [0, 0];
    const largest = Math.max(0, ...truth.filter(Number.isFinite).map(Math.abs));
    return part[1] + part[0] * largest;
  }
};
