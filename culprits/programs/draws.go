// What the Go culprits have in common: draws of the seed, and work. It is built together with each of them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

var state, _ = strconv.ParseUint(os.Getenv("CULPRIT_SEED"), 10, 64)

// draw is the next draw, between both bounds (splitmix64).
func draw(low, high uint64) int {
	state += 0x9e3779b97f4a7c15
	mixed := state
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb
	return int(low + (mixed^(mixed>>31))%(high-low+1))
}

// queued is how long the thread of the program that ran most waited for its CPU, in ns.
func queued() int64 {
	var most, wait int64
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		var ran, waited int64
		if fmt.Sscan(string(text), &ran, &waited); ran > most {
			most, wait = ran, waited
		}
	}
	return wait
}

var sink uint64

// work computes for some time, by the wall clock.
func work(wanted time.Duration) {
	for begin := time.Now(); time.Since(begin) < wanted; {
		steps(20000)
	}
}

// steps computes a fixed amount.
func steps(count uint64) {
	sum := uint64(1)
	for step := uint64(0); step < count; step++ {
		sum = sum*step + 1
	}
	sink += sum
}
