package main

import (
	"fmt"
	"time"
)

// Lives long enough to be looked at: the command looks for programs that are not recorded every 50 ms.
func main() {
	time.Sleep(300 * time.Millisecond)
	fmt.Println("alone")
}
