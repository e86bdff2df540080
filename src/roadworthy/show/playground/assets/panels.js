// The panels beside the picture: sliders for the inputs, bars for the outputs, fields for memory.
// Names come from the bundle and are only ever set as text.
"use strict";

Roadworthy.panels = (() => {
  function make(kind, text = "", attributes = {}) {
    const made = document.createElement(kind);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const short = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(4));

  // A slider for every element; `values` are what the policy is given.
  function inputs(place, sliders, changed) {
    const rows = sliders.map((slider, i) => {
      const id = `input-${i}`;
      const label = make("label", slider.name, { for: id });
      if (slider.unit) label.append(make("span", ` ${slider.unit}`, { class: "quiet" }));
      const range = make("input", "", {
        id, type: "range", min: slider.low, max: slider.high,
        step: slider.integer ? 1 : (slider.high - slider.low) / 1000, value: slider.start,
      });
      const shown = make("output", short(slider.start), { for: id });
      range.addEventListener("input", () => {
        shown.textContent = short(Number(range.value));
        changed();
      });
      const row = make("div", "", { class: "slider", title: `${slider.low} to ${slider.high}` });
      row.append(label, range, shown);
      place.append(row);
      return { range, shown };
    });
    return {
      values: () => rows.map(({ range }) => Number(range.value)),
      show(numbers) {
        numbers.forEach((value, i) => {
          if (!rows[i]) return;
          rows[i].range.value = value;
          rows[i].shown.textContent = short(value);
        });
      },
      enable(on) {
        rows.forEach(({ range }) => (range.disabled = !on));
      },
      reset() {
        this.show(sliders.map((slider) => slider.start));
      },
    };
  }

  // Ports with too many elements for sliders: what they are given is said.
  function held(place, bundle) {
    const moved = new Set(bundle.sliders.map((slider) => slider.port));
    for (const port of bundle.signature.inputs) {
      if (moved.has(port.name) || !(port.name in bundle.first)) continue;
      const shape = port.shape.join(" × ");
      const words = `${port.name}, ${port.dtype} ${shape}: the first recorded step is fed`;
      place.append(make("p", words, { class: "quiet held" }));
    }
  }

  // A row for every element of an output: name, value, and a key where it is drawn as a line.
  function outputs(place, elements) {
    const cells = elements.map(({ name, unit }, i) => {
      const row = make("div", "", { class: "value" });
      const drawn = i < Roadworthy.plots.COLOURS.length;
      const key = make("span", "", { class: drawn ? `key line-${i}` : "key" });
      const shown = make("output", "–");
      row.append(key, make("span", unit ? `${name} (${unit})` : name), shown);
      place.append(row);
      return shown;
    });
    return (numbers, words) => {
      cells.forEach((cell, i) => {
        cell.textContent = words && words[i] !== undefined ? `${words[i]}` : short(numbers[i]);
      });
    };
  }

  function memories(place, signature) {
    const fields = signature.memory.map((memory) => {
      const shape = memory.shape.join(" × ");
      const figure = make("figure");
      const label = `memory ${memory.name}`;
      const canvas = make("canvas", "", { class: "field", role: "img", "aria-label": label });
      figure.append(make("figcaption", `${memory.name}, ${memory.dtype} ${shape}`), canvas);
      place.append(figure);
      return { name: memory.name, canvas };
    });
    return (memory) => {
      for (const { name, canvas } of fields) {
        const { dtype, data } = memory[name];
        Roadworthy.plots.field(canvas, Roadworthy.arrays.numbers(dtype, data.subarray(0, 4096)));
      }
    };
  }

  return { held, inputs, make, memories, outputs, short };
})();
