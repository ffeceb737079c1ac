// The peer programs in Go: peer --list, or peer PROGRAM SIZE PROCESSORS.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// A program does its work once and tells how long the work took and what came out.
type program struct {
	name string
	run  func(size uint64) (time.Duration, uint64)
}

var programs = []program{
	{"spawn", spawn},
	{"ping-pong", pingPong},
	{"parallel-ping-pong", parallelPingPong},
	{"send", send},
	{"choose", choose},
	{"sieve", sieve},
	{"fib-channel", fibChannel},
	{"fib-join", fibJoin},
	{"tak-join", takJoin},
	{"mergesort", mergesort},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--list" {
		for _, p := range programs {
			fmt.Println(p.name)
		}
		return
	}
	if len(os.Args) != 4 {
		refuse("usage: peer --list | peer PROGRAM SIZE PROCESSORS")
	}
	size, err := strconv.ParseUint(os.Args[2], 10, 32)
	if err != nil {
		refuse("SIZE: %v", err)
	}
	processors, err := strconv.Atoi(os.Args[3])
	if err != nil || processors < 1 {
		refuse("PROCESSORS: %q", os.Args[3])
	}
	runtime.GOMAXPROCS(processors)
	for _, p := range programs {
		if p.name == os.Args[1] {
			p.run(smaller(size))
			elapsed, answer := p.run(size)
			fmt.Printf("{\"seconds\": %.9f, \"answer\": \"%d\"}\n", elapsed.Seconds(), answer)
			return
		}
	}
	refuse("no program %q", os.Args[1])
}

// smaller is the size for warmth: a tenth of the work, or a few levels of recursion less.
func smaller(size uint64) uint64 {
	switch {
	case size >= 100:
		return size / 10
	case size > 3:
		return size - 3
	}
	return 0
}

func refuse(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(64)
}
