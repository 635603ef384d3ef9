package main

import (
	"fmt"
	"sync"
	"time"
)

func main() {
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 200; i++ {
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}
	all.Wait()
	fmt.Println("1600 sleeps")
}
