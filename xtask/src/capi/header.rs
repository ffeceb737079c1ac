//! Reads the prototypes of a header, and the comments before them.

/// A function of the header.
#[derive(Debug)]
pub(super) struct Prototype {
    pub(super) name: String,
    /// The comment's paragraphs.
    pub(super) comment: Vec<String>,
    /// The text, without the macros behind it.
    pub(super) text: String,
    /// The kinds of the parameters, and last that of the result.
    pub(super) types: Vec<String>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Prototype>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find("/**") {
        let comment = &rest[begin + 3..];
        let end = comment.find("*/").ok_or("a comment does not end")?;
        let after = comment[end + 2..].trim_start();
        if let Some(prototype) = prototype(after)? {
            found.push(Prototype { comment: paragraphs(&comment[..end]), ..prototype });
        }
        rest = &comment[end..];
    }
    Ok(found)
}

/// The prototype at the beginning of a text, if there is one.
fn prototype(text: &str) -> Result<Option<Prototype>, String> {
    let Some(end) = text.find(';') else { return Ok(None) };
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    let text = words.join(" ").replace(" CHANTER_NOEXCEPT", "").replace(" CHANTER_NORETURN", "");
    if text.starts_with("typedef") || text.starts_with('#') || text.starts_with("enum") || text.contains('{')
    {
        return Ok(None);
    }
    let open = text.find('(').ok_or_else(|| format!("no function: {text}"))?;
    let begin = text[..open].rfind([' ', '*']).ok_or_else(|| format!("no result: {text}"))? + 1;
    let name = text[begin..open].to_owned();
    let inner = text[open + 1..].strip_suffix(')').ok_or_else(|| format!("{name} does not end"))?;
    let mut types: Vec<String> = match inner {
        "void" => Vec::new(),
        _ => parameters(inner).iter().map(|parameter| kind(parameter)).collect(),
    };
    types.push(kind(&format!("{}result", &text[..begin])));
    Ok(Some(Prototype { name, comment: Vec::new(), text: format!("{text};"), types }))
}

/// Splits at the commas outside of parentheses.
fn parameters(text: &str) -> Vec<String> {
    let (mut depth, mut found) = (0, vec![String::new()]);
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => (),
        }
        found.last_mut().expect("never empty").push(letter);
    }
    found.iter().map(|parameter| parameter.trim().to_owned()).collect()
}

/// The kind of a parameter: what the two languages have to agree on.
fn kind(parameter: &str) -> String {
    let kind = match parameter {
        _ if parameter.contains("(*") || parameter.starts_with("chanter_poll ") => "function",
        _ if parameter.contains('*') && parameter.starts_with("const ") => "const pointer",
        _ if parameter.contains('*') => "pointer",
        _ => match parameter.split(' ').next().unwrap_or_default() {
            "int" => "int",
            "size_t" => "size",
            "uint32_t" => "u32",
            "void" => "nothing",
            _ => "u64",
        },
    };
    kind.to_owned()
}

fn paragraphs(comment: &str) -> Vec<String> {
    let lines = comment.lines().map(|line| line.trim().trim_start_matches('*').trim());
    let mut found = vec![String::new()];
    for line in lines {
        let last = found.last_mut().expect("never empty");
        if line.is_empty() {
            if !last.is_empty() {
                found.push(String::new());
            }
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(line);
    }
    found.retain(|paragraph| !paragraph.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prototype_is_read_with_its_comment() {
        let text = "/** Does it.\n * Twice.\n *\n * Errors: none. */\nint f(const char *name, void (*g)(int, int),\n  uint64_t x) CHANTER_NOEXCEPT;\n/** No function. */\ntypedef int other;";
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "f");
        assert_eq!(found[0].comment, ["Does it. Twice.", "Errors: none."]);
        assert_eq!(found[0].types, ["const pointer", "function", "u64", "int"]);
    }
}
