// The report is complete without this script: it adds links to the sections, a readout under the
// pointer, and opens what is folded before the page is printed.
"use strict";

function listSections() {
  const nav = document.getElementById("contents");
  for (const section of document.querySelectorAll("main > section")) {
    const link = document.createElement("a");
    link.href = "#" + section.id;
    link.textContent = section.querySelector("h2").textContent;
    nav.append(link);
  }
}

// The points of a line as [x, y] in the units of the picture.
function pointsOf(path) {
  const numbers = path.getAttribute("d").match(/-?[\d.]+/g) || [];
  const points = [];
  for (let i = 0; i + 1 < numbers.length; i += 2) points.push([+numbers[i], +numbers[i + 1]]);
  return points;
}

function scaleOf(chart, from, to, log) {
  const [low, high] = log
    ? [Math.log10(chart.dataset[from]), Math.log10(chart.dataset[to])]
    : [+chart.dataset[from], +chart.dataset[to]];
  return (part) => (log ? 10 ** (low + part * (high - low)) : low + part * (high - low));
}

function addReadout(chart) {
  const box = chart.viewBox.baseVal;
  const [left, right, top, bottom] = [56, 10, 10, 30];
  const inner = box.width - left - right;
  const tall = box.height - top - bottom;
  const x = scaleOf(chart, "x0", "x1", false);
  const y = scaleOf(chart, "y0", "y1", chart.dataset.log === "1");
  const readout = document.createElement("div");
  readout.className = "readout";
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", top);
  cursor.setAttribute("y2", box.height - bottom);
  cursor.setAttribute("visibility", "hidden");
  chart.append(cursor);
  chart.after(readout);
  const lines = [...chart.querySelectorAll("path.line")].map((path) => ({
    name: path.dataset.name,
    points: pointsOf(path),
  }));
  chart.addEventListener("pointermove", (event) => {
    const at = ((event.clientX - chart.getBoundingClientRect().left) / chart.clientWidth) * box.width;
    const words = [];
    let place = null;
    for (const { name, points } of lines) {
      if (!points.length) continue;
      const near = points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
      place = near[0];
      words.push(`${name} ${y(1 - (near[1] - top) / tall).toPrecision(4)}`);
    }
    if (place === null) return;
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    cursor.setAttribute("visibility", "visible");
    readout.textContent = `step ${Math.round(x((place - left) / inner))}: ${words.join(", ")}`;
  });
  chart.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    readout.textContent = "";
  });
}

listSections();
document.querySelectorAll("svg.hover").forEach(addReadout);
addEventListener("beforeprint", () => {
  document.querySelectorAll("details.episode").forEach((each) => (each.open = true));
});
