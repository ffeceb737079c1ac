// The rows of `chanter bench choice`: one goroutine makes all choices, by a select statement with that many cases or
// by reflect.Select.
package main

import (
	"reflect"
	"time"
)

// Goroutines that feed receive branches; with more branches than this, each serves several.
const mostFeeders = 64

type row struct {
	branches, sends int
	// Only the branch in the middle is fed.
	one bool
	// The select statements of that size; without them, reflect.Select alone.
	statement func(*chooser)
}

var rows = map[string]row{
	"busy-2":    {branches: 2, statement: receives2},
	"busy-8":    {branches: 8, statement: receives8},
	"busy-64":   {branches: 64, statement: receives64},
	"busy-1024": {branches: 1024},
	"one-2":     {branches: 2, one: true, statement: receives2},
	"one-8":     {branches: 8, one: true, statement: receives8},
	"one-64":    {branches: 64, one: true, statement: receives64},
	"one-1024":  {branches: 1024, one: true},
	"mixed-2":   {branches: 2, sends: 1, statement: mixed2},
	"mixed-8":   {branches: 8, sends: 4, statement: mixed8},
	"mixed-64":  {branches: 64, sends: 32, statement: mixed64},
}

// chooser is the one goroutine that chooses. A send branch offers the number of messages that it has sent.
type chooser struct {
	receives, sends []chan uint64
	sent            []uint64
	choices         uint64
	received        uint64
}

func (r row) bench(variant string, n uint64) sample {
	choose := r.statement
	if variant == "reflect.Select" {
		choose = reflected
	} else if choose == nil {
		fail("no select statement has %d cases here", r.branches)
	}
	receives := r.branches - r.sends
	first, end := 0, receives
	if r.one {
		first, end = r.branches/2, r.branches/2+1
	}
	busy := uint64(end - first + r.sends)
	each := max(n/busy, 1)
	c := &chooser{
		receives: make([]chan uint64, receives),
		sends:    make([]chan uint64, r.sends),
		sent:     make([]uint64, r.sends),
		choices:  each * busy,
	}
	done, sums := make(chan bool), make(chan uint64, r.sends)
	clock := time.Now()
	for i := range c.receives {
		c.receives[i] = make(chan uint64)
	}
	share := (end - first + mostFeeders - 1) / mostFeeders
	for ; first < end; first += share {
		mine := c.receives[first:min(first+share, end)]
		go func() {
			for v := uint64(0); v < each; v++ {
				for _, out := range mine {
					out <- v
				}
			}
		}()
	}
	for i := range c.sends {
		in := make(chan uint64)
		c.sends[i] = in
		go func() {
			var sum uint64
			for v := uint64(0); v < each; v++ {
				sum += <-in
			}
			sums <- sum
		}()
	}
	go func() {
		choose(c)
		done <- true
	}()
	<-done
	elapsed := time.Since(clock)
	var consumed uint64
	for range c.sends {
		consumed += <-sums
	}
	expect("sum received", c.received, (busy-uint64(r.sends))*sumBelow(each))
	expect("sum sent", consumed, uint64(r.sends)*sumBelow(each))
	return timed(c.choices, elapsed)
}

// reflected builds its cases once; only a send's message changes.
func reflected(c *chooser) {
	var cases []reflect.SelectCase
	for _, in := range c.receives {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(in)})
	}
	for i, out := range c.sends {
		message := reflect.ValueOf(c.sent[i])
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectSend, Chan: reflect.ValueOf(out), Send: message})
	}
	for i := uint64(0); i < c.choices; i++ {
		chosen, value, _ := reflect.Select(cases)
		if at := chosen - len(c.receives); at >= 0 {
			c.sent[at]++
			cases[chosen].Send = reflect.ValueOf(c.sent[at])
		} else {
			c.received += value.Uint()
		}
	}
}

// losingTimer receives by a choice with a timer that never fires.
func losingTimer(_ string, n uint64) sample {
	c := make(chan uint64)
	result := make(chan uint64)
	clock := time.Now()
	go func() {
		var sum uint64
		for i := uint64(0); i < n; i++ {
			select {
			case v := <-c:
				sum += v
			case <-time.After(time.Second):
				i--
			}
		}
		result <- sum
	}()
	go func() {
		for v := uint64(0); v < n; v++ {
			c <- v
		}
	}()
	sum := <-result
	elapsed := time.Since(clock)
	expect("sum received", sum, sumBelow(n))
	return timed(n, elapsed)
}

func receives2(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case v := <-c.receives[1]:
			c.received += v
		}
	}
}

func mixed2(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case c.sends[0] <- c.sent[0]:
			c.sent[0]++
		}
	}
}

func receives8(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case v := <-c.receives[1]:
			c.received += v
		case v := <-c.receives[2]:
			c.received += v
		case v := <-c.receives[3]:
			c.received += v
		case v := <-c.receives[4]:
			c.received += v
		case v := <-c.receives[5]:
			c.received += v
		case v := <-c.receives[6]:
			c.received += v
		case v := <-c.receives[7]:
			c.received += v
		}
	}
}

func mixed8(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case v := <-c.receives[1]:
			c.received += v
		case v := <-c.receives[2]:
			c.received += v
		case v := <-c.receives[3]:
			c.received += v
		case c.sends[0] <- c.sent[0]:
			c.sent[0]++
		case c.sends[1] <- c.sent[1]:
			c.sent[1]++
		case c.sends[2] <- c.sent[2]:
			c.sent[2]++
		case c.sends[3] <- c.sent[3]:
			c.sent[3]++
		}
	}
}

func receives64(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case v := <-c.receives[1]:
			c.received += v
		case v := <-c.receives[2]:
			c.received += v
		case v := <-c.receives[3]:
			c.received += v
		case v := <-c.receives[4]:
			c.received += v
		case v := <-c.receives[5]:
			c.received += v
		case v := <-c.receives[6]:
			c.received += v
		case v := <-c.receives[7]:
			c.received += v
		case v := <-c.receives[8]:
			c.received += v
		case v := <-c.receives[9]:
			c.received += v
		case v := <-c.receives[10]:
			c.received += v
		case v := <-c.receives[11]:
			c.received += v
		case v := <-c.receives[12]:
			c.received += v
		case v := <-c.receives[13]:
			c.received += v
		case v := <-c.receives[14]:
			c.received += v
		case v := <-c.receives[15]:
			c.received += v
		case v := <-c.receives[16]:
			c.received += v
		case v := <-c.receives[17]:
			c.received += v
		case v := <-c.receives[18]:
			c.received += v
		case v := <-c.receives[19]:
			c.received += v
		case v := <-c.receives[20]:
			c.received += v
		case v := <-c.receives[21]:
			c.received += v
		case v := <-c.receives[22]:
			c.received += v
		case v := <-c.receives[23]:
			c.received += v
		case v := <-c.receives[24]:
			c.received += v
		case v := <-c.receives[25]:
			c.received += v
		case v := <-c.receives[26]:
			c.received += v
		case v := <-c.receives[27]:
			c.received += v
		case v := <-c.receives[28]:
			c.received += v
		case v := <-c.receives[29]:
			c.received += v
		case v := <-c.receives[30]:
			c.received += v
		case v := <-c.receives[31]:
			c.received += v
		case v := <-c.receives[32]:
			c.received += v
		case v := <-c.receives[33]:
			c.received += v
		case v := <-c.receives[34]:
			c.received += v
		case v := <-c.receives[35]:
			c.received += v
		case v := <-c.receives[36]:
			c.received += v
		case v := <-c.receives[37]:
			c.received += v
		case v := <-c.receives[38]:
			c.received += v
		case v := <-c.receives[39]:
			c.received += v
		case v := <-c.receives[40]:
			c.received += v
		case v := <-c.receives[41]:
			c.received += v
		case v := <-c.receives[42]:
			c.received += v
		case v := <-c.receives[43]:
			c.received += v
		case v := <-c.receives[44]:
			c.received += v
		case v := <-c.receives[45]:
			c.received += v
		case v := <-c.receives[46]:
			c.received += v
		case v := <-c.receives[47]:
			c.received += v
		case v := <-c.receives[48]:
			c.received += v
		case v := <-c.receives[49]:
			c.received += v
		case v := <-c.receives[50]:
			c.received += v
		case v := <-c.receives[51]:
			c.received += v
		case v := <-c.receives[52]:
			c.received += v
		case v := <-c.receives[53]:
			c.received += v
		case v := <-c.receives[54]:
			c.received += v
		case v := <-c.receives[55]:
			c.received += v
		case v := <-c.receives[56]:
			c.received += v
		case v := <-c.receives[57]:
			c.received += v
		case v := <-c.receives[58]:
			c.received += v
		case v := <-c.receives[59]:
			c.received += v
		case v := <-c.receives[60]:
			c.received += v
		case v := <-c.receives[61]:
			c.received += v
		case v := <-c.receives[62]:
			c.received += v
		case v := <-c.receives[63]:
			c.received += v
		}
	}
}

func mixed64(c *chooser) {
	for i := uint64(0); i < c.choices; i++ {
		select {
		case v := <-c.receives[0]:
			c.received += v
		case v := <-c.receives[1]:
			c.received += v
		case v := <-c.receives[2]:
			c.received += v
		case v := <-c.receives[3]:
			c.received += v
		case v := <-c.receives[4]:
			c.received += v
		case v := <-c.receives[5]:
			c.received += v
		case v := <-c.receives[6]:
			c.received += v
		case v := <-c.receives[7]:
			c.received += v
		case v := <-c.receives[8]:
			c.received += v
		case v := <-c.receives[9]:
			c.received += v
		case v := <-c.receives[10]:
			c.received += v
		case v := <-c.receives[11]:
			c.received += v
		case v := <-c.receives[12]:
			c.received += v
		case v := <-c.receives[13]:
			c.received += v
		case v := <-c.receives[14]:
			c.received += v
		case v := <-c.receives[15]:
			c.received += v
		case v := <-c.receives[16]:
			c.received += v
		case v := <-c.receives[17]:
			c.received += v
		case v := <-c.receives[18]:
			c.received += v
		case v := <-c.receives[19]:
			c.received += v
		case v := <-c.receives[20]:
			c.received += v
		case v := <-c.receives[21]:
			c.received += v
		case v := <-c.receives[22]:
			c.received += v
		case v := <-c.receives[23]:
			c.received += v
		case v := <-c.receives[24]:
			c.received += v
		case v := <-c.receives[25]:
			c.received += v
		case v := <-c.receives[26]:
			c.received += v
		case v := <-c.receives[27]:
			c.received += v
		case v := <-c.receives[28]:
			c.received += v
		case v := <-c.receives[29]:
			c.received += v
		case v := <-c.receives[30]:
			c.received += v
		case v := <-c.receives[31]:
			c.received += v
		case c.sends[0] <- c.sent[0]:
			c.sent[0]++
		case c.sends[1] <- c.sent[1]:
			c.sent[1]++
		case c.sends[2] <- c.sent[2]:
			c.sent[2]++
		case c.sends[3] <- c.sent[3]:
			c.sent[3]++
		case c.sends[4] <- c.sent[4]:
			c.sent[4]++
		case c.sends[5] <- c.sent[5]:
			c.sent[5]++
		case c.sends[6] <- c.sent[6]:
			c.sent[6]++
		case c.sends[7] <- c.sent[7]:
			c.sent[7]++
		case c.sends[8] <- c.sent[8]:
			c.sent[8]++
		case c.sends[9] <- c.sent[9]:
			c.sent[9]++
		case c.sends[10] <- c.sent[10]:
			c.sent[10]++
		case c.sends[11] <- c.sent[11]:
			c.sent[11]++
		case c.sends[12] <- c.sent[12]:
			c.sent[12]++
		case c.sends[13] <- c.sent[13]:
			c.sent[13]++
		case c.sends[14] <- c.sent[14]:
			c.sent[14]++
		case c.sends[15] <- c.sent[15]:
			c.sent[15]++
		case c.sends[16] <- c.sent[16]:
			c.sent[16]++
		case c.sends[17] <- c.sent[17]:
			c.sent[17]++
		case c.sends[18] <- c.sent[18]:
			c.sent[18]++
		case c.sends[19] <- c.sent[19]:
			c.sent[19]++
		case c.sends[20] <- c.sent[20]:
			c.sent[20]++
		case c.sends[21] <- c.sent[21]:
			c.sent[21]++
		case c.sends[22] <- c.sent[22]:
			c.sent[22]++
		case c.sends[23] <- c.sent[23]:
			c.sent[23]++
		case c.sends[24] <- c.sent[24]:
			c.sent[24]++
		case c.sends[25] <- c.sent[25]:
			c.sent[25]++
		case c.sends[26] <- c.sent[26]:
			c.sent[26]++
		case c.sends[27] <- c.sent[27]:
			c.sent[27]++
		case c.sends[28] <- c.sent[28]:
			c.sent[28]++
		case c.sends[29] <- c.sent[29]:
			c.sent[29]++
		case c.sends[30] <- c.sent[30]:
			c.sent[30]++
		case c.sends[31] <- c.sent[31]:
			c.sent[31]++
		}
	}
}
