//! The functions of a source file, by their lines.

use crate::source::{self, Kind, Token};

/// A function: its first and last line, the line of its `fn`, and its name with the name of its type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) first: usize,
    pub(crate) begin: usize,
    pub(crate) last: usize,
    pub(crate) name: String,
}

/// The functions of `text`, in order of their first lines.
pub(crate) fn functions(text: &str) -> Vec<Named> {
    let code: Vec<Token> = source::tokens(text).into_iter().filter(|token| !token.is_comment()).collect();
    let mut found = Vec::new();
    // Each open `impl` or `trait`: the index where it ends, and its type.
    let mut open: Vec<(usize, String)> = Vec::new();
    for (at, token) in code.iter().enumerate() {
        open.retain(|(end, _)| at < *end);
        // `impl` in a signature is no block: it follows `->`, `(`, `,`, `:` or the like.
        let begins =
            at == 0 || [";", "}", "{", "]", "unsafe", "pub", ")"].iter().any(|text| code[at - 1].is(text));
        if (token.is("impl") || token.is("trait")) && begins {
            let brace = (at..code.len()).find(|&i| code[i].is("{") || code[i].is(";"));
            if let Some(brace) = brace.filter(|&i| code[i].is("{")) {
                open.push((source::group(&code, brace), subject(&code[at + 1..brace])));
            }
        }
        let name = code.get(at + 1).filter(|name| token.is("fn") && name.kind == Kind::Ident);
        if let (Some(name), Some(end)) = (name, source::body(&code, at)) {
            let name = match open.last() {
                Some((_, of)) => format!("{of}::{}", name.text),
                None => name.text.to_owned(),
            };
            found.push(Named { first: begin(&code, at), begin: token.line, last: code[end - 1].last, name });
        }
    }
    found
}

/// The line on which the words before `fn` begin: `pub(crate) const unsafe`.
fn begin(code: &[Token], at: usize) -> usize {
    let is_before = |token: &Token| {
        ["pub", "const", "unsafe", "async", "extern", "crate", "super", "in", "(", ")"]
            .iter()
            .any(|text| token.is(text))
            || token.text.starts_with('"')
    };
    code[..at].iter().rev().take_while(|token| is_before(token)).last().unwrap_or(&code[at]).line
}

/// The type of an `impl` or a `trait`: the last name of the path after `for`, or of the only one.
fn subject(header: &[Token]) -> String {
    let mut depth = 0;
    let mut name = String::new();
    for (at, token) in header.iter().enumerate() {
        let is_arrow = at > 0 && token.is(">") && (header[at - 1].is("-") || header[at - 1].is("="));
        depth += i32::from(token.is("<")) - i32::from(token.is(">") && !is_arrow);
        if depth != 0 {
            continue;
        }
        if token.is("where") || (token.is(":") && !name.is_empty()) {
            break;
        }
        if token.is("for") {
            name.clear();
        } else if token.kind == Kind::Ident && !["dyn", "mut", "const"].contains(&token.text) {
            name = token.text.to_owned();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_with_their_types() {
        let text = "\
pub(crate) async fn free() {
    let c = || 1;
}
impl<T: Fn() -> u8> Trait<T> for a::Sender<T>
where
    T: Send,
{
    #[inline]
    fn send(x: impl Copy) -> impl Copy { x }
    fn array(x: [u8; 2]);
}
unsafe trait Leaf: Sized { fn commit() { } }
fn last() {}
";
        let found = functions(text);
        let rows: Vec<_> = found.iter().map(|f| (f.first, f.last, f.name.as_str())).collect();
        assert_eq!(
            rows,
            [(1, 3, "free"), (9, 9, "Sender::send"), (12, 12, "Leaf::commit"), (13, 13, "last")]
        );
    }
}
