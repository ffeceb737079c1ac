// Goroutines that talk: spawn, ping-pong, send, choose, sieve. Sums modulo 2^32 are kept in a uint32.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

func spawn(n uint64) (time.Duration, uint64) {
	const batch = 1000
	values := make([]uint64, batch)
	var sum uint64
	clock := time.Now()
	for start := uint64(0); start < n; start += batch {
		end := start + batch
		if end > n {
			end = n
		}
		var all sync.WaitGroup
		all.Add(int(end - start))
		for i := start; i < end; i++ {
			go func(i uint64) {
				values[i-start] = i * i % 1000003
				all.Done()
			}(i)
		}
		all.Wait()
		for _, value := range values[:end-start] {
			sum += value
		}
	}
	return time.Since(clock), sum
}

func pingPong(n uint64) (time.Duration, uint64) {
	clock := time.Now()
	sum := pair(n)
	return time.Since(clock), uint64(sum)
}

func parallelPingPong(n uint64) (time.Duration, uint64) {
	const pairs = 100
	sums := make(chan uint32, pairs)
	clock := time.Now()
	for p := 0; p < pairs; p++ {
		go func() { sums <- pair(n / pairs) }()
	}
	var sum uint32
	for p := 0; p < pairs; p++ {
		sum += <-sums
	}
	return time.Since(clock), uint64(sum)
}

// pair makes the calls of one pair: the partner is a new goroutine.
func pair(trips uint64) (sum uint32) {
	ping, pong := make(chan uint64), make(chan uint64)
	go func() {
		for x := range ping {
			pong <- x + 1
		}
	}()
	for x := uint64(0); x < trips; x++ {
		ping <- x
		sum += uint32(<-pong)
	}
	close(ping)
	return sum
}

func send(n uint64) (time.Duration, uint64) {
	mailbox := make(chan uint64, 100)
	clock := time.Now()
	go func() {
		for x := uint64(0); x < n; x++ {
			mailbox <- x
		}
		close(mailbox)
	}()
	var sum uint32
	for x := range mailbox {
		sum += uint32(x)
	}
	return time.Since(clock), uint64(sum)
}

func choose(n uint64) (time.Duration, uint64) {
	const producers = 8
	var c [producers]chan uint64
	clock := time.Now()
	for p := range c {
		c[p] = make(chan uint64)
		go func(out chan<- uint64) {
			for x := uint64(0); x < n/producers; x++ {
				out <- x
			}
		}(c[p])
	}
	var sum uint32
	for left := n / producers * producers; left > 0; left-- {
		var x uint64
		select {
		case x = <-c[0]:
		case x = <-c[1]:
		case x = <-c[2]:
		case x = <-c[3]:
		case x = <-c[4]:
		case x = <-c[5]:
		case x = <-c[6]:
		case x = <-c[7]:
		}
		sum += uint32(x)
	}
	return time.Since(clock), uint64(sum)
}

func sieve(primes uint64) (time.Duration, uint64) {
	var enough atomic.Bool
	in := make(chan uint64)
	clock := time.Now()
	go func(out chan<- uint64) {
		for x := uint64(2); !enough.Load(); x++ {
			out <- x
		}
		close(out)
	}(in)
	var prime uint64
	for left := primes; left > 0; left-- {
		prime = <-in
		out := make(chan uint64)
		go filter(prime, in, out)
		in = out
	}
	elapsed := time.Since(clock)
	// What is still under way runs out at the end of the pipeline, so that all its goroutines end.
	enough.Store(true)
	for range in {
	}
	return elapsed, prime
}

func filter(prime uint64, in <-chan uint64, out chan<- uint64) {
	for x := range in {
		if x%prime != 0 {
			out <- x
		}
	}
	close(out)
}
