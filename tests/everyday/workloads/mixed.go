package main

/*
#include <stdlib.h>
static void *take(size_t size) { return malloc(size); }
*/
import "C"
import (
	"fmt"
	"time"
)

func main() {
	kept := make([][]byte, 0)
	// Long enough to be looked at from outside.
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		kept = nil
		for i := 0; i < 200; i++ {
			kept = append(kept, make([]byte, 10000))
			C.free(C.take(C.size_t(1000 + i)))
		}
	}
	C.take(12345)
	fmt.Println(len(kept))
}
