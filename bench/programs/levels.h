/* level_0(DEPTH): DEPTH frames, and AT_THE_DEEPEST_LEVEL(), which the program defines before it includes this. Eight
 * functions calling each other in turn, so that neighbouring frames differ in return address and frame size. */
typedef void level(int depth);
static level level_0, level_1, level_2, level_3, level_4, level_5, level_6, level_7;
#define LEVEL(name, next, words)                        \
    static NOINLINE void name(int depth) {              \
        volatile long local[words];                     \
        local[0] = depth;                               \
        if (local[0] <= 1) AT_THE_DEEPEST_LEVEL();      \
        else next(depth - 1);                           \
        local[words - 1] = depth;                       \
        KEEP_FRAME();                                   \
    }
LEVEL(level_0, level_1, 2)
LEVEL(level_1, level_2, 4)
LEVEL(level_2, level_3, 3)
LEVEL(level_3, level_4, 8)
LEVEL(level_4, level_5, 1)
LEVEL(level_5, level_6, 6)
LEVEL(level_6, level_7, 2)
LEVEL(level_7, level_0, 5)
