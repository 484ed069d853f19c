/* ways random|outer [BATCHES]: what one malloc+free pair costs where no two in a row come by the same way.
 *
 * random: each pair comes by one of 256 ways taken at random, 20 calls through pointers to 16 functions. outer: each by one of
 * 8 calls, taken at random, and the same 29 below it. Batches of 50 pairs are timed. */
#include "ways.h"
