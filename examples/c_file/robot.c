/* A control loop on bare C: cc -O3 -Icartpole/c robot.c cartpole/c/policy.c -lm && ./a.out */
#include "policy.h"

#include <math.h>
#include <stdio.h>

/* On a robot: read sensors, write motors, wait for the timer. Here: a cart with a pole. */
static float plant[4] = {0.0f, 0.0f, 0.05f, 0.0f};

static void read_sensors(float *obs)
{
    int i;
    for (i = 0; i < 4; i++) {
        obs[i] = plant[i];
    }
}

static void write_motor(int64_t action)
{
    const float force = action ? 10.0f : -10.0f, dt = (float)POLICY_PERIOD_S;
    const float c = cosf(plant[2]), s = sinf(plant[2]);
    const float push = (force + 0.05f * plant[3] * plant[3] * s) / 1.1f;
    const float turn = (9.8f * s - c * push) / (0.5f * (4.0f / 3.0f - 0.1f * c * c / 1.1f));
    plant[0] += dt * plant[1];
    plant[1] += dt * (push - 0.05f * turn * c / 1.1f);
    plant[2] += dt * plant[3];
    plant[3] += dt * turn;
}

int main(void)
{
    static policy_state state; /* static: its size is known, and the stack stays small */
    static policy_inputs inputs;
    static policy_outputs outputs;
    int tick;
    policy_init(&state);
    for (tick = 0; tick < 500; tick++) {
        read_sensors(inputs.obs[0]);
        policy_step(&state, &inputs, &outputs);
        write_motor(outputs.actions[0]);
    }
    printf("after %d ticks of %g s the pole is %.3f rad off\n", tick, POLICY_PERIOD_S,
        (double)plant[2]);
    return fabsf(plant[2]) > 0.2f;
}
