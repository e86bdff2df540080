/* The least that a Cortex-M needs before main, and the two calls to the host that a test makes. */
#include <stdint.h>

extern uint32_t stack_top, data_start, data_end, data_load, bss_start, bss_end;
int main(void);

static void host(int call, const void *argument)
{
    register int r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void say(const char *text);
void reset_handler(void);

void say(const char *text)
{
    host(0x04, text);
}

void reset_handler(void)
{
    uint32_t *from = &data_load, *to;
    uint32_t leave[2];
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* the floating-point unit, on */
    __asm__ volatile("dsb\n\tisb");
    for (to = &data_start; to < &data_end;) {
        *to++ = *from++;
    }
    for (to = &bss_start; to < &bss_end;) {
        *to++ = 0;
    }
    leave[0] = 0x20026;
    leave[1] = (uint32_t)main();
    host(0x20, leave);
    for (;;) {
    }
}

static void fault_handler(void)
{
    uint32_t leave[2] = {0x20026, 99};
    host(0x20, leave);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const struct {
    const void *stack;
    void (*handlers[6])(void);
} vectors = {
    &stack_top,
    {reset_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler},
};
