// Garbage collections that the program asks for itself, as some do "to save memory", stop its work again and again.
package main

import (
	"fmt"
	"runtime"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func main() {
	live := tree(19 + draw(0, 1))
	begin, lost, times := time.Now(), time.Duration(0), 0
	for time.Since(begin) < 2500*time.Millisecond {
		work(time.Duration(draw(8, 16)) * time.Millisecond)
		at := time.Now()
		runtime.GC()
		lost += time.Since(at)
		times++
	}
	runtime.KeepAlive(live)
	fmt.Printf("{\"ran_ns\": %d, \"lost_ns\": %d, \"times\": %d, \"queued_ns\": %d}\n", time.Since(begin), lost, times, queued())
}
