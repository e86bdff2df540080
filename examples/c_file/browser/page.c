/* What the page calls: addresses of the ports, and one step. */
#include "policy.h"

static policy_state state;
static policy_inputs inputs;
static policy_outputs outputs;

#define SHOWN __attribute__((visibility("default"), used))

SHOWN void page_reset(void);
SHOWN float *page_obs(void);
SHOWN int page_step(void);

void page_reset(void)
{
    policy_init(&state);
}

float *page_obs(void)
{
    return inputs.obs[0];
}

int page_step(void)
{
    policy_step(&state, &inputs, &outputs);
    return (int)outputs.actions[0];
}
