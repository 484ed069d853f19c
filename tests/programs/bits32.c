// A program of 32 bits that needs nothing but its loader; ends with status 7.
void _start(void) { __asm__ volatile("int $0x80" : : "a"(1), "b"(7)); }
