// Goroutines that fork and join: by a channel (fib-channel), or by a WaitGroup.
package main

import (
	"sync"
	"time"
)

// fork starts work in a goroutine of its own; the result is for its join.
func fork(work func()) *sync.WaitGroup {
	var join sync.WaitGroup
	join.Add(1)
	go func() {
		work()
		join.Done()
	}()
	return &join
}

func fibChannel(n uint64) (time.Duration, uint64) {
	clock := time.Now()
	value := fibByChannel(n)
	return time.Since(clock), value
}

func fibByChannel(n uint64) uint64 {
	if n < 2 {
		return n
	}
	// With a place for the one value, the goroutine need not wait for its receiver.
	c := make(chan uint64, 1)
	go func() { c <- fibByChannel(n - 1) }()
	b := fibByChannel(n - 2)
	return <-c + b
}

func fibJoin(n uint64) (time.Duration, uint64) {
	clock := time.Now()
	value := fib(n)
	return time.Since(clock), value
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	var a uint64
	join := fork(func() { a = fib(n - 1) })
	b := fib(n - 2)
	join.Wait()
	return a + b
}

func takJoin(n uint64) (time.Duration, uint64) {
	x := int64(n)
	clock := time.Now()
	value := tak(x, 2*x/3, x/3)
	return time.Since(clock), uint64(value)
}

func tak(x, y, z int64) int64 {
	if y >= x {
		return z
	}
	var a, b int64
	first := fork(func() { a = tak(x-1, y, z) })
	second := fork(func() { b = tak(y-1, z, x) })
	c := tak(z-1, x, y)
	first.Wait()
	second.Wait()
	return tak(a, b, c)
}

func mergesort(n uint64) (time.Duration, uint64) {
	numbers := make([]uint32, n)
	x := uint64(1)
	for i := range numbers {
		x = (x*1103515245 + 12345) % (1 << 31)
		numbers[i] = uint32(x)
	}
	clock := time.Now()
	sort(numbers, make([]uint32, n))
	elapsed := time.Since(clock)
	var sum uint64
	for i, x := range numbers {
		sum = (sum + uint64(i+1)*uint64(x)) % 1000000007
	}
	return elapsed, sum
}

// sort sorts a with the help of spare, which is as long; it forks for its first half while a is long.
func sort(a, spare []uint32) {
	if len(a) < 2 {
		return
	}
	half := len(a) / 2
	if len(a) > 1024 {
		join := fork(func() { sort(a[:half], spare[:half]) })
		sort(a[half:], spare[half:])
		join.Wait()
	} else {
		sort(a[:half], spare[:half])
		sort(a[half:], spare[half:])
	}
	merge(a, half, spare[:half])
}

// merge merges a[:half] and a[half:], both sorted, into a.
func merge(a []uint32, half int, left []uint32) {
	copy(left, a[:half])
	i, j, k := 0, half, 0
	for i < len(left) && j < len(a) {
		if left[i] <= a[j] {
			a[k] = left[i]
			i++
		} else {
			a[k] = a[j]
			j++
		}
		k++
	}
	copy(a[k:], left[i:])
}
