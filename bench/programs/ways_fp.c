/* ways, with frame pointers. */
#pragma GCC optimize("no-omit-frame-pointer")
#include "ways.c"
