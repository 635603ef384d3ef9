// A program with a turn every few milliseconds, each on time.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	seed, _ := strconv.ParseUint(os.Getenv("CULPRIT_SEED"), 10, 64)
	period := time.Duration(8+seed%7) * time.Millisecond
	begin, turns, latest := time.Now(), 0, time.Duration(0)
	ticker := time.NewTicker(period)
	for time.Since(begin) < 2500*time.Millisecond {
		due := <-ticker.C
		latest = max(latest, time.Since(due))
		turns++
	}
	fmt.Printf("{\"ran_ns\": %d, \"lost_ns\": 0, \"times\": %d, \"latest_ns\": %d}\n", time.Since(begin), turns, latest)
}
