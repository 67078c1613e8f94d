/* The start of a program on a Cortex-M4 without an operating system: runs the golden rows of a C
   file and tells the emulator, by ARM's semihosting, whether they agree. */

#include <stdint.h>

int NAME_test(void);
void start(void);

extern char stack_top[];
__attribute__((section(".vectors"), used)) static void *const vectors[] = {
    stack_top,
    (void *)(uintptr_t)start,
};

void start(void) {
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: let floating point be used */
    {
        int wrong = NAME_test();
        register uint32_t operation __asm__("r0") = 0x18; /* SYS_EXIT */
        register uint32_t reason __asm__("r1") = wrong ? 0x20023u : 0x20026u;
        __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
    }
    for (;;) {
    }
}
