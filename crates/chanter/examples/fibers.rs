//! Blocking code at any depth: a recursive parser that knows nothing of `async` reads its characters
//! from a channel. Each parser runs on a fiber, so while it waits for the next character, deep in its
//! recursion, the virtual processor runs the others.

use chanter::fiber;
use chanter::prelude::*;

/// An expression like `(1+(2*3))`, one character at a time.
struct Parser {
    input: Receiver<char>,
}

impl Parser {
    /// Waits for the next character: this suspends the fiber, however deep in the recursion.
    fn next(&self) -> char {
        self.input.recv().sync_blocking().unwrap_or(' ')
    }

    fn expression(&self) -> u64 {
        match self.next() {
            '(' => {
                let left = self.expression();
                let operator = self.next();
                let right = self.expression();
                assert_eq!(self.next(), ')');
                if operator == '+' { left + right } else { left * right }
            }
            digit => u64::from(digit.to_digit(10).expect("a digit")),
        }
    }
}

fn main() -> std::io::Result<()> {
    const DEPTH: usize = 50;
    const PARSERS: usize = 100;
    let machine = Machine::builder().vps(1).build()?;
    machine.block_on(async {
        // ((((1+1)+1)+1)…: the value is the number of ones.
        let text: Vec<char> =
            "(".repeat(DEPTH).chars().chain("1".chars()).chain("+1)".repeat(DEPTH).chars()).collect();
        let (inputs, parsers): (Vec<_>, Vec<_>) = (0..PARSERS)
            .map(|n| {
                let (tx, input) = channel();
                let parser = fiber::Builder::new().name(format!("parser {n}")).stack_size(128 << 10);
                (tx, parser.spawn(move || Parser { input }.expression()))
            })
            .unzip();
        // All of them advance together, a character at a time, on one processor.
        for character in text {
            for tx in &inputs {
                tx.send(character).await.expect("the parser waits for it");
            }
        }
        for parser in parsers {
            assert_eq!(parser.await.expect("no parser panicked"), DEPTH as u64 + 1);
        }
    });
    let stats = machine.stats();
    println!(
        "{} parsers on {} stacks, {} turns",
        stats.fibers_created, stats.stacks_allocated, stats.dispatched
    );
    assert_eq!(stats.stacks_allocated, PARSERS as u64);
    Ok(())
}
