// Pictures of the environments on a canvas, in the colours of the page.
"use strict";

Roadworthy.scenes = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // A canvas as sharp as the screen, measured in the units of the style sheet.
  function prepared(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.lineCap = pen.lineJoin = "round";
    return { pen, width, height };
  }

  function stroke(pen, points, style, thick) {
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.strokeStyle = style;
    pen.lineWidth = thick;
    pen.stroke();
  }

  function disc(pen, x, y, radius, style) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fillStyle = style;
    pen.fill();
  }

  // The visitor's push, as an arrow from where it acts.
  function arrow(pen, x, y, push) {
    if (!push) return;
    const tip = x + 70 * push;
    const back = Math.sign(push) * 7;
    stroke(pen, [[x, y], [tip, y]], colour("ink"), 2);
    stroke(pen, [[tip - back, y - 5], [tip, y], [tip - back, y + 5]], colour("ink"), 2);
  }

  function cartPole({ pen, width, height }, [x, , angle], push) {
    const scale = width / 5.4;
    const ground = height * 0.72;
    const cart = width / 2 + x * scale;
    const [left, right] = [width / 2 - 2.4 * scale, width / 2 + 2.4 * scale];
    stroke(pen, [[left, ground + 13], [right, ground + 13]], colour("rule"), 2);
    pen.fillStyle = colour("original");
    pen.beginPath();
    pen.roundRect(cart - 26, ground - 13, 52, 22, 4);
    pen.fill();
    const long = Math.min(scale * 1.2, ground - 26);
    const tip = [cart + Math.sin(angle) * long, ground - 6 - Math.cos(angle) * long];
    stroke(pen, [[cart, ground - 6], tip], colour("artifact"), 7);
    disc(pen, cart, ground - 6, 4, colour("panel"));
    arrow(pen, cart, ground + 28, push);
    return [cart, ground];
  }

  function pendulum({ pen, width, height }, [angle], push) {
    const [cx, cy] = [width / 2, height / 2];
    const long = Math.min(width, height) * 0.38;
    const tip = [cx + Math.sin(angle) * long, cy - Math.cos(angle) * long];
    stroke(pen, [[cx, cy], tip], colour("artifact"), 9);
    disc(pen, cx, cy, 6, colour("original"));
    disc(pen, ...tip, 8, colour("artifact"));
    arrow(pen, ...tip, push);
    return [cx, cy];
  }

  function mountainCar({ pen, width, height }, [x], push) {
    const across = (value) => ((value + 1.2) / 1.8) * (width - 40) + 20;
    const up = (value) => height - 40 - (Math.sin(3 * value) * 0.45 + 0.45) * (height - 90);
    const hill = [];
    for (let value = -1.2; value <= 0.6; value += 0.02) hill.push([across(value), up(value)]);
    stroke(pen, hill, colour("limit"), 2);
    stroke(pen, [[across(0.5), up(0.5)], [across(0.5), up(0.5) - 34]], colour("passed"), 2);
    pen.fillStyle = colour("passed");
    pen.fillRect(across(0.5), up(0.5) - 34, 18, 11);
    disc(pen, across(x), up(x) - 10, 10, colour("artifact"));
    arrow(pen, across(x), up(x) - 30, push);
    return [across(x), up(x)];
  }

  function acrobot({ pen, width, height }, [first, second], push) {
    const [cx, cy] = [width / 2, height * 0.52];
    const long = Math.min(width, height) * 0.21;
    const elbow = [cx + Math.sin(first) * long, cy + Math.cos(first) * long];
    const both = first + second;
    const tip = [elbow[0] + Math.sin(both) * long, elbow[1] + Math.cos(both) * long];
    stroke(pen, [[0, cy - long], [width, cy - long]], colour("rule"), 1);
    stroke(pen, [[cx, cy], elbow], colour("original"), 8);
    stroke(pen, [elbow, tip], colour("artifact"), 8);
    disc(pen, cx, cy, 5, colour("ink"));
    disc(pen, ...elbow, 5, colour("ink"));
    arrow(pen, ...tip, push);
    return [cx, cy];
  }

  const SCENES = {
    CartPole: cartPole,
    HiddenVelocityCartPole: cartPole,
    Pendulum: pendulum,
    MountainCar: mountainCar,
    Acrobot: acrobot,
  };

  // Draws the state, and returns where a push acts.
  function draw(canvas, name, state, push) {
    return SCENES[name](prepared(canvas), state, push);
  }

  return { colour, draw, prepared, stroke };
})();
