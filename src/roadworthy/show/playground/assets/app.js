// The page: load, replay the golden steps, then let the visitor play.
"use strict";

(async () => {
  const { bundle, arrays, panels, plots } = Roadworthy;
  const { signature } = bundle;
  const byId = (id) => document.getElementById(id);
  const began = performance.now();
  const policy = new Roadworthy.Policy(signature, Roadworthy.engines[bundle.engine], bundle.dims);
  const Env = bundle.env ? Roadworthy.envs[bundle.env] : null;
  const env = Env ? new Env() : null;
  const random = Roadworthy.random(1);
  const action = signature.outputs.find((port) => port.name === bundle.action);
  const state = { running: false, busy: false, push: 0, steps: 0, total: 0, episodes: 0 };

  // Which element of which output each line and each value is.
  const elements = bundle.outputs.flatMap((output) =>
    output.elements.map((name, i) => ({ name, unit: output.unit, port: output.name, i })),
  );
  const strip = new plots.Strip(byId("plot"), elements.map((each) => each.name));
  panels.held(byId("inputs"), bundle);
  const sliders = panels.inputs(byId("inputs"), bundle.sliders, () => !state.running && step());
  const showOutputs = panels.outputs(byId("outputs"), elements);
  const showMemory = panels.memories(byId("memory"), signature);

  // What the policy is given: sliders in every row, and the first recorded step where there are none.
  function handMade() {
    const given = {};
    for (const port of signature.inputs) {
      if (port.noise) continue;
      const rest = bundle.first[port.name];
      const row = rest ? arrays.numbers(rest.dtype, arrays.decode(rest).data) : [];
      const set = sliders.values();
      bundle.sliders.forEach((slider, i) => {
        if (slider.port === port.name) row[slider.element] = set[i];
      });
      const rows = port.shape.includes("batch") ? policy.rows : policy.fixedRows() || 1;
      const whole = arrays.size(policy.shape(port)) === row.length ? row : Array(rows).fill(row).flat();
      given[port.name] = arrays.cast(port.dtype, whole);
    }
    return given;
  }

  function fromEnvironment() {
    const seen = env.observe();
    sliders.show(seen);
    const { dtype } = signature.inputs.find((port) => port.name === bundle.observed);
    return { [bundle.observed]: arrays.cast(dtype, seen) };
  }

  const driven = () => env !== null && byId("by-env").checked;

  async function step() {
    if (state.busy) return;
    state.busy = true;
    const outputs = await policy.step(driven() ? fromEnvironment() : handMade());
    state.steps += 1;
    const flat = elements.map(({ port, i }) => {
      const { dtype, data } = outputs[port];
      return arrays.numbers(dtype, data.subarray(i, i + 1))[0];
    });
    strip.add(flat);
    showOutputs(flat, meanings(flat));
    showMemory(policy.memory);
    if (driven()) act(outputs);
    draw();
    state.busy = false;
  }

  // The words of the action table beside the numbers that they stand for.
  function meanings(flat) {
    if (!bundle.words) return null;
    return flat.map((value, i) => (elements[i].port === action.name ? bundle.words[value] : undefined));
  }

  function act(outputs) {
    const chosen = arrays.numbers(action.dtype, outputs[action.name].data)[0];
    const { reward, ended } = env.step(bundle.codes ? bundle.codes[chosen] : chosen, state.push);
    state.total += reward;
    if (ended || state.steps >= Env.maxSteps) {
      state.episodes += 1;
      const earned = `return ${panels.short(state.total)} in ${state.steps} steps`;
      byId("last").textContent = `episode ${state.episodes}: ${earned}`;
      begin();
    }
  }

  function begin() {
    policy.reset();
    state.steps = state.total = 0;
    if (env) env.reset(random.uniform);
  }

  function draw() {
    strip.draw();
    if (env) Roadworthy.scenes.draw(byId("scene"), bundle.env, env.state, state.push);
    const earned = driven() ? `, return ${panels.short(state.total)}` : "";
    byId("counter").textContent = `step ${state.steps}${earned}`;
  }

  function run(on) {
    state.running = on;
    byId("run").textContent = on ? "Pause" : "Run";
    byId("run").setAttribute("aria-pressed", on);
    if (on) requestAnimationFrame(tick);
  }

  // Steps at the policy's own pace, as well as the screen allows.
  let due = 0;
  async function tick(now) {
    if (!state.running) return;
    const period = 1000 * (driven() ? Env.period : signature.period_s || 0.05);
    if (now >= due) {
      due = Math.max(due + period, now - period);
      await step();
    }
    requestAnimationFrame(tick);
  }

  function listen() {
    byId("step").addEventListener("click", () => (run(false), step()));
    byId("run").addEventListener("click", () => run(!state.running));
    byId("reset").addEventListener("click", () => {
      begin();
      strip.clear();
      if (!driven()) sliders.reset();
      draw();
    });
    for (const name of ["by-env", "by-hand"]) {
      byId(name).addEventListener("change", () => {
        sliders.enable(!driven());
        begin();
        draw();
      });
    }
    if (env) Roadworthy.pushing(byId("scene"), (push) => (state.push = push));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    addEventListener("resize", draw);
  }

  function say(verdict, words) {
    byId("verdict").textContent = verdict;
    byId("verdict").className = `verdict ${verdict}`;
    byId("said").textContent = words;
  }

  try {
    await policy.engine.open(bundle);
    const found = await Roadworthy.replay(policy, bundle.trace);
    const { worst, failed } = found;
    const share = `${(100 * worst.share).toPrecision(2)} % of what is allowed`;
    const far = worst.gap
      ? `at most ${worst.gap.toExponential(1)} off, ${share}`
      : "equal to the last bit";
    say(
      found.passed ? "passed" : "failed",
      found.passed
        ? `${found.steps} recorded steps of the original, replayed in this browser: ${far}.`
        : `${failed.port} at step ${failed.step}: recorded ${failed.one}, here ${failed.other}.`,
    );
    byId("environment").hidden = !env;
    byId("no-memory").hidden = signature.memory.length > 0;
    sliders.enable(!driven());
    begin();
    listen();
    await step();
    Roadworthy.policy = policy;
    Roadworthy.readyAfterMs = performance.now() - began;
    document.body.dataset.ready = "1";
  } catch (error) {
    say("failed", `The policy does not run here: ${error.message || error}`);
    throw error;
  }
})();
