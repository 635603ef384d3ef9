// sync.Mutex: one of four, drawn, is held by a goroutine that computes meanwhile. Mutex profiles would show it; the program does not.
package main

import (
	"fmt"
	"sync"
	"time"
)

func main() {
	var locks [4]sync.Mutex
	bad, keep := draw(0, 3), time.Duration(draw(15, 30))*time.Millisecond
	for number := range locks {
		go func() {
			for {
				locks[number].Lock()
				if number == bad {
					work(keep)
				}
				locks[number].Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	begin, lost, times := time.Now(), time.Duration(0), 0
	for time.Since(begin) < 2500*time.Millisecond {
		for number := range locks {
			at := time.Now()
			locks[number].Lock()
			locks[number].Unlock()
			if number == bad {
				lost += time.Since(at)
				times++
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	fmt.Printf("{\"ran_ns\": %d, \"lost_ns\": %d, \"times\": %d, \"queued_ns\": %d, \"lock\": \"%p\"}\n", time.Since(begin), lost, times, queued(), &locks[bad])
}
