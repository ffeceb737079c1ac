//! Values, environments and names (figure 6).

use std::fmt;
use std::sync::Arc;

use crate::term::{Constant, Exp, Var};

/// The name of a computation: which spawn of which spawn it is. The program itself is `t`, its
/// second spawn `t.1`.
///
/// The paper asks for fresh names only. These are fresh, and do not depend on the order of the computations' steps.
/// So states that differ only in history are equal, and the runtime gives the same names.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Vec<u16>);

impl Name {
    /// The name of this computation's spawn number `index`.
    pub fn child(&self, index: u16) -> Self {
        let mut path = self.0.clone();
        path.push(index);
        Self(path)
    }

    pub(crate) fn path(&self) -> &[u16] {
        &self.0
    }
}

/// The name of a channel, `c`: which of the channels that its maker made.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName {
    /// Its maker.
    pub maker: Name,
    /// How many its maker had made before.
    pub index: u16,
}

/// A value, `v`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Unit or an integer.
    Constant(Constant),
    /// A channel.
    Channel(ChannelName),
    /// `(λx.e, r)`
    Closure(Option<Var>, Exp, Env),
}

impl Value {
    /// The value unit.
    pub const UNIT: Self = Self::Constant(Constant::Unit);
}

/// An environment, `r`: a persistent list, so that it is shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Environment<V>(Option<Arc<Binding<V>>>);

/// An environment of the machine.
pub type Env = Environment<Value>;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Binding<V> {
    var: Var,
    value: V,
    outer: Environment<V>,
}

impl<V> Default for Environment<V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<V: Clone> Environment<V> {
    /// `r[x ↦ v]`; without a variable, `r`.
    pub fn with(&self, x: Option<&Var>, value: V) -> Self {
        match x {
            Some(x) => Self(Some(Arc::new(Binding { var: x.clone(), value, outer: self.clone() }))),
            None => self.clone(),
        }
    }

    /// `r(x)`
    pub fn get(&self, x: &Var) -> Option<V> {
        let mut at = self.0.as_deref()?;
        loop {
            if at.var == *x {
                return Some(at.value.clone());
            }
            at = at.outer.0.as_deref()?;
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("t")?;
        self.0.iter().try_for_each(|index| write!(f, ".{index}"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.maker, self.index)
    }
}

impl fmt::Debug for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
