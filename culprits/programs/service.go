// A service over HTTP, in Go. The driver's scene loads it and injects the ailment.
package main

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		steps(300000)
		fmt.Fprintln(answer, time.Now())
	}))
}
