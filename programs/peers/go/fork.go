// Goroutines that fork and join: by a channel (fib-channel), or by a WaitGroup.
package main

import (
	"slices"
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
	sort(numbers, slices.Clone(numbers))
	elapsed := time.Since(clock)
	var sum uint64
	for i, x := range numbers {
		sum = (sum + uint64(i+1)*uint64(x)) % 1000000007
	}
	return elapsed, sum
}

// sort sorts a; spare holds the same numbers, and anything afterwards. It forks while a is long.
func sort(a, spare []uint32) {
	if len(a) < 2 {
		return
	}
	half := len(a) / 2
	if len(a) > 1024 {
		join := fork(func() { sort(spare[:half], a[:half]) })
		sort(spare[half:], a[half:])
		join.Wait()
	} else {
		sort(spare[:half], a[:half])
		sort(spare[half:], a[half:])
	}
	merge(spare[:half], spare[half:], a)
}

// merge merges left and right, both sorted, into a. It forks while a is very long.
func merge(left, right, a []uint32) {
	if len(a) > 1<<14 {
		var i, j int
		if len(left) >= len(right) {
			i = len(left) / 2
			j, _ = slices.BinarySearch(right, left[i])
		} else {
			j = len(right) / 2
			i, _ = slices.BinarySearch(left, right[j]+1)
		}
		join := fork(func() { merge(left[:i], right[:j], a[:i+j]) })
		merge(left[i:], right[j:], a[i+j:])
		join.Wait()
		return
	}
	i, j, k := 0, 0, 0
	for i < len(left) && j < len(right) {
		if left[i] <= right[j] {
			a[k] = left[i]
			i++
		} else {
			a[k] = right[j]
			j++
		}
		k++
	}
	k += copy(a[k:], left[i:])
	copy(a[k:], right[j:])
}
