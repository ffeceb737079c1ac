// The benchmarks of `chanter bench` in Go: peer BENCH VARIANT N, one JSON sample on standard output.
// The number of processors comes from GOMAXPROCS.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type sample struct {
	Ops            uint64             `json:"ops"`
	Nanos          float64            `json:"nanos"`
	BytesPerThread *float64           `json:"bytes_per_thread"`
	Detail         map[string]float64 `json:"detail"`
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: peer BENCH VARIANT N")
	}
	n, err := strconv.ParseUint(os.Args[3], 10, 64)
	if err != nil {
		fail("N: %v", err)
	}
	benches := map[string]func(variant string, n uint64) sample{
		"host":         spawn,
		"pingpong":     func(_ string, n uint64) sample { return pingpong(1, n) },
		"par-pingpong": func(_ string, n uint64) sample { return pingpong(8, n) },
		"choose":       rows["busy-8"].bench,
		"choose-both":  chooseBoth,
		"send":         func(_ string, n uint64) sample { return send(0, n) },
		"recv":         func(_ string, n uint64) sample { return send(0, n) },
		"timer":        losingTimer,
		"mailbox":      mailbox,
		"blocked":      blocked,
	}
	for name, row := range rows {
		benches[name] = row.bench
	}
	bench, known := benches[os.Args[1]]
	if !known {
		fail("no bench %q", os.Args[1])
	}
	if err := json.NewEncoder(os.Stdout).Encode(bench(os.Args[2], n)); err != nil {
		fail("%v", err)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func expect(what string, got, want uint64) {
	if got != want {
		fail("%s is %d, not %d", what, got, want)
	}
}

func sumBelow(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return n * (n - 1) / 2
}

func timed(ops uint64, elapsed time.Duration) sample {
	return sample{Ops: ops, Nanos: float64(elapsed.Nanoseconds()), Detail: map[string]float64{}}
}

// spawn starts a goroutine and joins it through a channel, one after the other.
func spawn(_ string, n uint64) sample {
	clock := time.Now()
	var sum uint64
	for i := uint64(0); i < n; i++ {
		done := make(chan uint64, 1)
		go func() { done <- i }()
		sum += <-done
	}
	elapsed := time.Since(clock)
	expect("sum of results", sum, sumBelow(n))
	return timed(n, elapsed)
}

// pingpong counts messages: two per call.
func pingpong(pairs, n uint64) sample {
	calls := n / 2 / pairs
	sums := make(chan uint64)
	clock := time.Now()
	for p := uint64(0); p < pairs; p++ {
		ping, pong := make(chan uint64), make(chan uint64)
		go func() {
			for v := range ping {
				pong <- v + 1
			}
		}()
		go func() {
			var sum uint64
			for v := uint64(0); v < calls; v++ {
				ping <- v
				sum += <-pong
			}
			close(ping)
			sums <- sum
		}()
	}
	var sum uint64
	for p := uint64(0); p < pairs; p++ {
		sum += <-sums
	}
	elapsed := time.Since(clock)
	expect("sum of answers", sum, pairs*(sumBelow(calls)+calls))
	return timed(pairs*calls*2, elapsed)
}

// chooseBoth has two goroutines that each choose between a send and a receive.
func chooseBoth(_ string, n uint64) sample {
	left, right := make(chan uint64), make(chan uint64)
	type tally struct{ sent, got uint64 }
	side := func(out chan<- uint64, in <-chan uint64) <-chan tally {
		result := make(chan tally, 1)
		go func() {
			var t tally
			for v := uint64(0); v < n; v++ {
				select {
				case out <- v:
					t.sent += v
				case w := <-in:
					t.got += w
				}
			}
			result <- t
		}()
		return result
	}
	clock := time.Now()
	ls, rs := side(left, right), side(right, left)
	l, r := <-ls, <-rs
	elapsed := time.Since(clock)
	expect("what the right got", r.got, l.sent)
	expect("what the left got", l.got, r.sent)
	expect("sum of all messages", l.sent+r.sent, sumBelow(n))
	return timed(n, elapsed)
}

// mailbox is the nearest thing to an unbounded channel: a buffer for 1024 messages, or for all.
func mailbox(variant string, n uint64) sample {
	if variant == "buffer of n" {
		return send(n, n)
	}
	return send(1024, n)
}

// send has one producer and one consumer.
func send(buffer, n uint64) sample {
	c := make(chan uint64, buffer)
	result := make(chan uint64)
	clock := time.Now()
	go func() {
		var sum uint64
		for v := range c {
			sum += v
		}
		result <- sum
	}()
	go func() {
		for v := uint64(0); v < n; v++ {
			c <- v
		}
		close(c)
	}()
	sum := <-result
	elapsed := time.Since(clock)
	expect("sum received", sum, sumBelow(n))
	return timed(n, elapsed)
}

func resident() uint64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail("%v", err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		fail("%v", err)
	}
	return pages * uint64(os.Getpagesize())
}

// blocked has n goroutines that each wait on a channel of their own.
func blocked(_ string, n uint64) sample {
	var started, woken atomic.Uint64
	var all sync.WaitGroup
	all.Add(int(n))
	before := resident()
	clock := time.Now()
	senders := make([]chan uint64, 0, n)
	for i := uint64(0); i < n; i++ {
		c := make(chan uint64)
		go func() {
			started.Add(1)
			woken.Add(<-c)
			all.Done()
		}()
		senders = append(senders, c)
	}
	for started.Load() < n {
		runtime.Gosched()
	}
	created := time.Since(clock)
	after := resident()
	clock = time.Now()
	for _, c := range senders {
		c <- 1
	}
	all.Wait()
	woke := time.Since(clock)
	expect("threads woken", woken.Load(), n)
	s := timed(n, created+woke)
	bytes := float64(after-before) / float64(n)
	s.BytesPerThread = &bytes
	s.Detail["create_ns"] = float64(created.Nanoseconds()) / float64(n)
	s.Detail["wake_ns"] = float64(woke.Nanoseconds()) / float64(n)
	return s
}
