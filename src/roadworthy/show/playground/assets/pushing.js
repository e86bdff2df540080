// Pushes by the visitor: hold the mouse or a finger beside the picture's middle, or the arrow keys.
"use strict";

Roadworthy.pushing = (canvas, push) => {
  const aim = (event) => {
    const box = canvas.getBoundingClientRect();
    push(Math.min(1, Math.max(-1, (3 * (event.clientX - box.left - box.width / 2)) / box.width)));
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    aim(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) aim(event);
  });
  for (const name of ["pointerup", "pointercancel", "blur"]) canvas.addEventListener(name, () => push(0));
  const KEYS = { ArrowLeft: -1, ArrowRight: 1 };
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    push(KEYS[event.key]);
  });
  canvas.addEventListener("keyup", (event) => event.key in KEYS && push(0));
};
