// More threads than the quota of the cgroup can feed: each turn hands parts to eight of them, and is over when the last part is.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// figure reads one figure of cpu.stat.
func figure(key string) int64 {
	file, err := os.Open(os.Getenv("CULPRIT_CGROUP") + "/cpu.stat")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var value int64
		if strings.HasPrefix(lines.Text(), key+" ") {
			fmt.Sscanf(lines.Text()[len(key):], "%d", &value)
			return value
		}
	}
	return -1
}

func main() {
	if err := os.WriteFile(os.Getenv("CULPRIT_CGROUP")+"/cgroup.procs", []byte("0\n"), 0); err != nil {
		panic(err)
	}
	runtime.GOMAXPROCS(8)
	parts := uint64(draw(3, 6)) * 1000000
	// What a part costs without company: the fastest of some.
	alone := time.Hour
	for try := 0; try < 5; try++ {
		begin := time.Now()
		steps(parts)
		alone = min(alone, time.Since(begin))
	}
	often, begin, lost, turns := figure("nr_throttled"), time.Now(), time.Duration(0), 0
	for ; time.Since(begin) < 3*time.Second; turns++ {
		at := time.Now()
		var all sync.WaitGroup
		for part := 0; part < 8; part++ {
			all.Add(1)
			go func() { steps(parts); all.Done() }()
		}
		all.Wait()
		lost += time.Since(at) - 8*alone/time.Duration(runtime.NumCPU())
	}
	fmt.Printf("{\"ran_ns\": %d, \"lost_ns\": %d, \"times\": %d, \"turns\": %d, \"queued_ns\": %d, \"cgroup\": \"%s\"}\n",
		time.Since(begin), lost, figure("nr_throttled")-often, turns, queued(), os.Getenv("CULPRIT_CGROUP"))
}
