// policy.c and policy.h lie beside this file. One step at every period of the policy.
#include "policy.h"

static policy_state state;
static policy_inputs inputs;
static policy_outputs outputs;
static unsigned long due_us;

void setup() {
  policy_init(&state);
  due_us = micros();
}

void loop() {
  if ((long)(micros() - due_us) < 0) return;
  due_us += (unsigned long)(POLICY_PERIOD_S * 1e6);
  for (int i = 0; i < POLICY_OBS_SIZE; i++) {
    inputs.obs[0][i] = (float)analogRead(A0 + i) / 512.0f - 1.0f;
  }
  policy_step(&state, &inputs, &outputs);
  digitalWrite(LED_BUILTIN, outputs.actions[0] ? HIGH : LOW);
}
