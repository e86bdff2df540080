// A live plot of the outputs, and memory as a field of colours.
"use strict";

Roadworthy.plots = (() => {
  const COLOURS = ["original", "artifact", "third", "fourth", "fifth", "sixth"];
  const LENGTH = 240;

  // The last values of a few lines over steps.
  class Strip {
    constructor(canvas, names) {
      this.canvas = canvas;
      this.names = names.slice(0, COLOURS.length);
      this.clear();
    }

    clear() {
      this.lines = this.names.map(() => []);
    }

    add(values) {
      this.lines.forEach((line, i) => {
        line.push(values[i]);
        if (line.length > LENGTH) line.shift();
      });
    }

    draw() {
      const { prepared, stroke, colour } = Roadworthy.scenes;
      const { pen, width, height } = prepared(this.canvas);
      const [left, right, top, bottom] = [64, 8, 8, 8];
      const all = this.lines.flat().filter(Number.isFinite);
      let [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
      const ticks = low === high ? [low] : [low, (low + high) / 2, high];
      const room = 0.08 * (high - low) || 0.5;
      [low, high] = [low - room, high + room];
      const x = (i) => left + ((width - left - right) * i) / (LENGTH - 1);
      const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "right";
      for (const value of ticks) {
        stroke(pen, [[left, y(value)], [width - right, y(value)]], colour("grid"), 1);
        pen.fillStyle = colour("quiet");
        pen.fillText(Number(value.toPrecision(3)).toString(), left - 6, y(value) + 4);
      }
      this.lines.forEach((line, i) => {
        const points = line.map((value, at) => [x(at), y(value)]).filter(([, at]) => Number.isFinite(at));
        stroke(pen, points, colour(COLOURS[i]), 1.8);
      });
    }
  }

  // The number of rows near the ideal that leaves no gap in the last one, where there is such.
  function evenRows(count, ideal) {
    const near = [0, 1, -1, 2, 3].map((by) => Math.round(ideal) + by).filter((rows) => rows > 0);
    return near.find((rows) => count % rows === 0) || near[0] || 1;
  }

  // One cell for each element, blue below zero and orange above.
  function field(canvas, numbers) {
    const { prepared, colour } = Roadworthy.scenes;
    const { pen, width, height } = prepared(canvas);
    const rows = evenRows(numbers.length, Math.sqrt((numbers.length * height) / width));
    const columns = Math.ceil(numbers.length / rows);
    const [wide, tall] = [width / columns, height / rows];
    const most = Math.max(1e-9, ...numbers.map(Math.abs).filter(Number.isFinite));
    numbers.forEach((value, i) => {
      pen.globalAlpha = Math.min(1, Math.abs(value) / most);
      pen.fillStyle = colour(value < 0 ? "original" : "artifact");
      pen.fillRect((i % columns) * wide, Math.floor(i / columns) * tall, wide - 1, tall - 1);
    });
    pen.globalAlpha = 1;
  }

  return { COLOURS, Strip, field };
})();
