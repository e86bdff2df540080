// The classic control environments of Gymnasium, by their published equations. `push` is the
// visitor's: from -1 to 1, added to what the policy does.
"use strict";

Roadworthy.envs = (() => {
  const clip = (value, low, high) => Math.min(Math.max(value, low), high);
  const wrapped = (angle) => {
    while (angle > Math.PI) angle -= 2 * Math.PI;
    while (angle < -Math.PI) angle += 2 * Math.PI;
    return angle;
  };

  class CartPole {
    static period = 0.02;
    static maxSteps = 500;

    reset(random) {
      this.state = [0, 0, 0, 0].map(() => 0.1 * random() - 0.05);
    }

    observe() {
      return this.state;
    }

    step(action, push = 0) {
      let [x, speed, angle, turning] = this.state;
      const force = (action === 1 ? 10 : -10) + 12 * push;
      const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
      const part = (force + 0.05 * turning * turning * sin) / 1.1;
      const turn = (9.8 * sin - cos * part) / (0.5 * (4 / 3 - (0.1 * cos * cos) / 1.1));
      const accelerate = part - (0.05 * turn * cos) / 1.1;
      x += 0.02 * speed;
      speed += 0.02 * accelerate;
      angle += 0.02 * turning;
      turning += 0.02 * turn;
      this.state = [x, speed, angle, turning];
      const ended = Math.abs(x) > 2.4 || Math.abs(angle) > (12 * 2 * Math.PI) / 360;
      return { reward: 1, ended };
    }
  }

  class HiddenVelocityCartPole extends CartPole {
    observe() {
      return [this.state[0], this.state[2]];
    }
  }

  class Pendulum {
    static period = 0.05;
    static maxSteps = 200;

    reset(random) {
      this.state = [(2 * random() - 1) * Math.PI, 2 * random() - 1];
    }

    observe() {
      const [angle, turning] = this.state;
      return [Math.cos(angle), Math.sin(angle), turning];
    }

    step(action, push = 0) {
      let [angle, turning] = this.state;
      const torque = clip(action, -2, 2);
      const off = ((((angle + Math.PI) % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI)) - Math.PI;
      const reward = -(off * off + 0.1 * turning * turning + 0.001 * torque * torque);
      // Gymnasium's action is a float32, and so is three times it.
      const turn = 15 * Math.sin(angle) + Math.fround(3 * torque) + 9 * push;
      turning = clip(turning + turn * 0.05, -8, 8);
      this.state = [angle + turning * 0.05, turning];
      return { reward, ended: false };
    }
  }

  class MountainCar {
    static period = 1 / 30;
    static maxSteps = 200;

    reset(random) {
      this.state = [-0.6 + 0.2 * random(), 0];
    }

    observe() {
      return this.state;
    }

    step(action, push = 0) {
      let [x, speed] = this.state;
      speed += (action - 1) * 0.001 + Math.cos(3 * x) * -0.0025 + 0.002 * push;
      speed = clip(speed, -0.07, 0.07);
      x = clip(x + speed, -1.2, 0.6);
      if (x === -1.2 && speed < 0) speed = 0;
      this.state = [x, speed];
      return { reward: -1, ended: x >= 0.5 && speed >= 0 };
    }
  }

  class Acrobot {
    static period = 1 / 15; // it is a fifth of a second, shown faster
    static maxSteps = 500;

    reset(random) {
      this.state = [0, 0, 0, 0].map(() => Math.fround(0.2 * random() - 0.1));
    }

    observe() {
      const [first, second, turning, bending] = this.state;
      return [Math.cos(first), Math.sin(first), Math.cos(second), Math.sin(second), turning, bending];
    }

    step(action, push = 0) {
      const torque = action - 1 + 2 * push;
      const next = this.integrated(this.state, torque, 0.2);
      this.state = [
        wrapped(next[0]),
        wrapped(next[1]),
        clip(next[2], -4 * Math.PI, 4 * Math.PI),
        clip(next[3], -9 * Math.PI, 9 * Math.PI),
      ];
      const [first, second] = this.state;
      const ended = -Math.cos(first) - Math.cos(second + first) > 1;
      return { reward: ended ? 0 : -1, ended };
    }

    // Runge and Kutta, one step.
    integrated(state, torque, dt) {
      const moved = (slope, by) => state.map((value, i) => value + by * slope[i]);
      const k1 = this.slope(state, torque);
      const k2 = this.slope(moved(k1, dt / 2), torque);
      const k3 = this.slope(moved(k2, dt / 2), torque);
      const k4 = this.slope(moved(k3, dt), torque);
      return state.map((value, i) => value + (dt / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
    }

    // Masses, lengths and inertias are 1, the centres are in the middle of the links.
    slope([first, second, turning, bending], torque) {
      const [g, half] = [9.8, Math.PI / 2];
      const d1 = 0.25 + (1 + 0.25 + Math.cos(second)) + 2;
      const d2 = 0.25 + 0.5 * Math.cos(second) + 1;
      const phi2 = 0.5 * g * Math.cos(first + second - half);
      const phi1 =
        -0.5 * bending * bending * Math.sin(second) -
        bending * turning * Math.sin(second) +
        1.5 * g * Math.cos(first - half) +
        phi2;
      const bend =
        (torque + (d2 / d1) * phi1 - 0.5 * turning * turning * Math.sin(second) - phi2) /
        (0.25 + 1 - (d2 * d2) / d1);
      const turn = -(d2 * bend + phi1) / d1;
      return [turning, bending, turn, bend];
    }
  }

  return { CartPole, HiddenVelocityCartPole, Pendulum, MountainCar, Acrobot };
})();
