// An HTTP server whose handlers sleep for 2 ms, and eight clients in the same process, for 3 s.
package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Millisecond)
		answer.Write(make([]byte, 1000))
	}))
	end := time.Now().Add(3 * time.Second)
	var clients sync.WaitGroup
	for client := 0; client < 8; client++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for time.Now().Before(end) {
				got, err := http.Get("http://" + listener.Addr().String())
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, got.Body)
				got.Body.Close()
			}
		}()
	}
	clients.Wait()
}
