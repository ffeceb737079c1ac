//! Random programs, small and well-formed, that shrink well.
//!
//! A strategy draws a [`Sketch`]: statements that name channels by number. [`Sketch::program`] makes a term of it.
//! Numbers are taken modulo the number of channels in scope. So every sketch, shrunk or not, is a program without
//! free variables or ill-typed messages.
//!
//! There are two types of channels: channels of integers, and *carriers*, over which channels of integers are sent.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::term::{self, Constant, Event, Exp, var};

/// A program in outline.
#[derive(Clone)]
pub struct Sketch {
    channels: usize,
    carriers: usize,
    block: Block,
}

type Block = Vec<Statement>;

#[derive(Clone, Debug)]
enum Statement {
    Send(usize, Message),
    Receive(usize),
    SendChannel(usize, usize),
    ReceiveChannel(usize),
    Choose(Vec<Leaf>),
    Log,
    NewChannel,
    Inflate,
    Spawn(Kind, Block),
    Repeat(usize, Block),
}

#[derive(Clone, Debug)]
enum Kind {
    Host,
    Parasite,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Constant(i64),
    /// The last received value.
    Last,
}

#[derive(Clone, Debug)]
enum Leaf {
    Send(usize, Message),
    Receive(usize),
    Always(i64),
    Never,
    Nested(Vec<Leaf>),
    Wrapped(Box<Leaf>, i64),
}

/// Programs with a few threads and a few operations each.
pub fn programs() -> impl Strategy<Value = Sketch> {
    sketches(3, 2)
}

/// Smaller ones, for searches that take every rule.
pub fn tiny_programs() -> impl Strategy<Value = Sketch> {
    sketches(2, 1)
}

fn sketches(statements: usize, depth: usize) -> impl Strategy<Value = Sketch> {
    let main = prop_oneof![6 => spawning(statements, depth), 1 => block(statements, depth)];
    (prop_oneof![2 => Just(1_usize), 1 => Just(2)], 0..=1_usize, main)
        .prop_map(|(channels, carriers, block)| Sketch { channels, carriers, block })
}

/// Some threads are spawned, then something is done.
fn spawning(statements: usize, depth: usize) -> impl Strategy<Value = Block> {
    let spawns = vec(spawn(statements, depth), 1..=statements);
    (spawns, block(statements, depth)).prop_map(|(spawns, rest)| spawns.into_iter().chain(rest).collect())
}

fn spawn(statements: usize, depth: usize) -> impl Strategy<Value = Statement> {
    let kind = prop_oneof![Just(Kind::Host), Just(Kind::Parasite)];
    (kind, block(statements, depth.saturating_sub(1))).prop_map(|(kind, block)| Statement::Spawn(kind, block))
}

fn block(statements: usize, depth: usize) -> BoxedStrategy<Block> {
    vec(statement(statements, depth), 1..=statements).boxed()
}

fn statement(statements: usize, depth: usize) -> BoxedStrategy<Statement> {
    let flat = prop_oneof![
        6 => (0..3_usize, message()).prop_map(|(channel, value)| Statement::Send(channel, value)),
        6 => (0..3_usize).prop_map(Statement::Receive),
        1 => (0..2_usize, 0..3_usize).prop_map(|(carrier, channel)| Statement::SendChannel(carrier, channel)),
        1 => (0..2_usize).prop_map(Statement::ReceiveChannel),
        8 => vec(leaf(), 1..=3).prop_map(Statement::Choose),
        2 => Just(Statement::Log),
        1 => Just(Statement::NewChannel),
        1 => Just(Statement::Inflate),
    ];
    if depth == 0 {
        return flat.boxed();
    }
    let repeat = (2..=3_usize, block(1, 0)).prop_map(|(count, block)| Statement::Repeat(count, block));
    prop_oneof![10 => flat, 3 => spawn(statements, depth), 1 => repeat].boxed()
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![3 => (0..4_i64).prop_map(Message::Constant), 1 => Just(Message::Last)]
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let flat = prop_oneof![
        5 => (0..3_usize, message()).prop_map(|(channel, value)| Leaf::Send(channel, value)),
        5 => (0..3_usize).prop_map(Leaf::Receive),
        1 => (10..12_i64).prop_map(Leaf::Always),
        1 => Just(Leaf::Never),
    ];
    flat.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..=2).prop_map(Leaf::Nested),
            1 => (inner, 20..22_i64).prop_map(|(leaf, result)| Leaf::Wrapped(Box::new(leaf), result)),
        ]
    })
}

/// The variables in scope, by type.
#[derive(Clone, Default)]
struct Scope {
    channels: Vec<String>,
    carriers: Vec<String>,
    last: Option<String>,
    bound: usize,
}

impl Scope {
    fn fresh(&mut self) -> String {
        self.bound += 1;
        format!("x{}", self.bound)
    }

    fn channel(&self, number: usize) -> Exp {
        var(&self.channels[number % self.channels.len()])
    }

    fn carrier(&self, number: usize) -> Option<Exp> {
        let number = number.checked_rem(self.carriers.len())?;
        Some(var(&self.carriers[number]))
    }

    fn message(&self, message: Message) -> Exp {
        match (message, &self.last) {
            (Message::Constant(value), _) => term::int(value),
            (Message::Last, Some(last)) => var(last),
            (Message::Last, None) => term::int(-1),
        }
    }

    fn event(&self, leaf: &Leaf) -> Event {
        match leaf {
            Leaf::Send(channel, value) => Event::Send(self.channel(*channel), self.message(*value)),
            Leaf::Receive(channel) => Event::Receive(self.channel(*channel)),
            Leaf::Always(value) => Event::Always(term::int(*value)),
            Leaf::Never => Event::Never,
            Leaf::Nested(leaves) => Event::Choose(leaves.iter().map(|leaf| self.event(leaf)).collect()),
            Leaf::Wrapped(leaf, result) => self.event(leaf).wrap(Constant::Int(*result)),
        }
    }

    /// The block as a term; its bindings are in scope to its end.
    fn block(self, statements: &[Statement]) -> Exp {
        let Some((first, rest)) = statements.split_first() else { return term::unit() };
        let bind = |mut scope: Self, value: Exp, declare: fn(&mut Self, String)| {
            let x = scope.fresh();
            declare(&mut scope, x.clone());
            term::bind(&x, value, scope.block(rest))
        };
        let step = match first {
            Statement::Receive(channel) => {
                let received = term::receive(self.channel(*channel));
                return bind(self, received, |scope, x| scope.last = Some(x));
            }
            Statement::Choose(leaves) => {
                let chosen = term::choose(leaves.iter().map(|leaf| self.event(leaf)));
                return bind(self, chosen, |scope, x| scope.last = Some(x));
            }
            Statement::NewChannel => {
                return bind(self, term::channel(), |scope, x| scope.channels.insert(0, x));
            }
            Statement::ReceiveChannel(carrier) => {
                if let Some(carrier) = self.carrier(*carrier) {
                    return bind(self, term::receive(carrier), |scope, x| scope.channels.insert(0, x));
                }
                term::unit()
            }
            Statement::SendChannel(carrier, channel) => match self.carrier(*carrier) {
                Some(carrier) => term::send(carrier, self.channel(*channel)),
                None => term::unit(),
            },
            Statement::Send(channel, value) => term::send(self.channel(*channel), self.message(*value)),
            Statement::Log => term::log(self.message(Message::Last)),
            Statement::Inflate => term::inflate(term::unit()),
            Statement::Spawn(Kind::Host, block) => term::spawn(self.clone().block(block)),
            Statement::Spawn(Kind::Parasite, block) => term::spawn_parasite(self.clone().block(block)),
            Statement::Repeat(count, block) => term::repeat(*count, self.clone().block(block)),
        };
        if rest.is_empty() { step } else { term::seq([step, self.block(rest)]) }
    }
}

impl Sketch {
    /// The program.
    pub fn program(&self) -> Exp {
        let scope = Scope {
            channels: (0..self.channels).map(|number| format!("c{number}")).collect(),
            carriers: (0..self.carriers).map(|number| format!("k{number}")).collect(),
            ..Scope::default()
        };
        let names: Vec<String> = scope.channels.iter().chain(&scope.carriers).cloned().collect();
        let body = scope.block(&self.block);
        names.into_iter().rev().fold(body, |body, name| term::bind(&name, term::channel(), body))
    }

    /// The same program with hosts and parasites in each other's places.
    #[must_use]
    pub fn with_kinds_exchanged(&self) -> Self {
        self.rewritten(&|statement| match statement {
            Statement::Spawn(Kind::Host, block) => vec![Statement::Spawn(Kind::Parasite, block)],
            Statement::Spawn(Kind::Parasite, block) => vec![Statement::Spawn(Kind::Host, block)],
            other => vec![other],
        })
    }

    /// The same program, with an `inflate` before every statement.
    #[must_use]
    pub fn with_inflation(&self) -> Self {
        self.rewritten(&|statement| vec![Statement::Inflate, statement])
    }

    fn rewritten(&self, rewrite: &dyn Fn(Statement) -> Block) -> Self {
        fn block(statements: &[Statement], rewrite: &dyn Fn(Statement) -> Block) -> Block {
            let inside = |statement: &Statement| match statement {
                Statement::Spawn(kind, inner) => Statement::Spawn(kind.clone(), block(inner, rewrite)),
                Statement::Repeat(count, inner) => Statement::Repeat(*count, block(inner, rewrite)),
                other => other.clone(),
            };
            statements.iter().flat_map(|statement| rewrite(inside(statement))).collect()
        }
        Self { block: block(&self.block, rewrite), ..*self }
    }
}

/// Shows the program.
impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.program(), f)
    }
}
