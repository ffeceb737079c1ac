//! The rules of `ci/prose.rules`, applied to a sentence.

use std::collections::BTreeSet;

/// A phrase that marks a sentence, and the phrases that excuse it when they follow.
struct Phrase {
    kind: String,
    words: Vec<String>,
    except: Vec<Vec<String>>,
    better: Option<String>,
}

#[derive(Default)]
pub(crate) struct Rules {
    long: usize,
    clause: (usize, BTreeSet<String>),
    who: BTreeSet<String>,
    worst: BTreeSet<String>,
    phrases: Vec<Phrase>,
}

/// Why a sentence is marked: the kind, and the words that did it, if it was words.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Mark {
    pub(crate) kind: String,
    pub(crate) detail: String,
}

impl Rules {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Rules::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                rules.add(line).map_err(|why| format!("ci/prose.rules:{}: {why}", number + 1))?;
            }
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (kind, rest) = line.split_once(' ').ok_or("a rule is a kind and its words")?;
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
        match kind {
            "long" => self.long = number(rest)?,
            "clause" => {
                let (least, list) = rest.split_once(' ').ok_or("clause is a number and words")?;
                self.clause = (number(least)?, words(list).into_iter().collect());
            }
            "who" => self.who = words(rest).into_iter().collect(),
            "worst" => self.worst = words(rest).into_iter().collect(),
            _ => {
                let (rest, better) = match rest.split_once('=') {
                    Some((rest, better)) => (rest, Some(better.trim().to_owned())),
                    None => (rest, None),
                };
                let (phrase, except) = rest.split_once('|').unwrap_or((rest, ""));
                let except = except.split(',').map(words).filter(|words| !words.is_empty()).collect();
                self.phrases.push(Phrase { kind: kind.to_owned(), words: words(phrase), except, better });
            }
        }
        Ok(())
    }

    pub(crate) fn is_worst(&self, kind: &str) -> bool {
        self.worst.contains(kind)
    }

    /// The marks of a sentence; none if it is blameless. A kind marks it once.
    pub(crate) fn marks(&self, sentence: &str) -> Vec<Mark> {
        let parts = words(sentence);
        let spoken: Vec<&String> = parts.iter().filter(|word| is_word(word)).collect();
        let mut marks = Vec::new();
        let mut mark = |kind: &str, detail: String| marks.push(Mark { kind: kind.to_owned(), detail });
        if self.long > 0 && spoken.len() > self.long {
            mark("long", format!("{} words", spoken.len()));
        }
        let is_claim = sentence.starts_with(char::is_uppercase) && !sentence.trim_end().ends_with('?');
        if is_claim && spoken.first().is_some_and(|first| self.who.contains(*first)) {
            mark("who", String::new());
        }
        let clauses = spoken.iter().filter(|word| self.clause.1.contains(**word)).count();
        if self.clause.0 > 0 && clauses >= self.clause.0 {
            mark("clause", format!("{clauses} of them"));
        }
        for phrase in self.phrases.iter().filter(|phrase| phrase.is_in(&parts)) {
            let detail = match &phrase.better {
                Some(better) => format!("{} = {better}", phrase.words.join(" ")),
                None => phrase.words.join(" "),
            };
            mark(&phrase.kind, detail);
        }
        let mut kinds = BTreeSet::new();
        marks.retain(|mark| kinds.insert(mark.kind.clone()));
        marks
    }
}

impl Phrase {
    fn is_in(&self, parts: &[String]) -> bool {
        let (last, words) = match self.words.split_first() {
            Some((first, words)) if first == "^" => (1, words),
            _ => (parts.len(), self.words.as_slice()),
        };
        (0..last.min(parts.len())).any(|at| {
            let rest = parts[at..].strip_prefix(words);
            rest.is_some_and(|rest| !self.except.iter().any(|except| rest.starts_with(except)))
        })
    }
}

/// The words of `text` in small letters; each other character that is no space stands for itself.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || matches!(c, '_' | '\'' | '’' | '-') {
            word.extend(if c == '’' { '\''.to_lowercase() } else { c.to_lowercase() });
            continue;
        }
        if !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() {
            found.push(c.to_string());
        }
    }
    found
}

fn is_word(part: &str) -> bool {
    part.contains(|c: char| c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sentence: &str) -> String {
        let rules = Rules::parse(include_str!("../../../ci/prose.rules")).unwrap();
        let marks = rules.marks(sentence);
        marks.iter().map(|mark| mark.kind.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn long_sentences_are_marked() {
        assert_eq!(kinds(&format!("{}word.", "word ".repeat(28))), "long");
        assert_eq!(kinds(&format!("{}word — and, of, course.", "word ".repeat(24))), "");
    }

    #[test]
    fn a_sentence_names_its_actor_first() {
        assert_eq!(kinds("Who holds the lock wakes the next one."), "who");
        assert_eq!(kinds("The owner of the lock wakes the next one."), "");
        assert_eq!(kinds("What does it cost?"), "");
        assert_eq!(kinds("what it checks"), "");
    }

    #[test]
    fn one_thought_a_sentence() {
        assert_eq!(kinds("The thread that sees the word that says which slot is free takes it."), "clause");
        assert_eq!(kinds("The thread that sees which slot is free takes it."), "");
    }

    #[test]
    fn archaic_turns_are_marked() {
        assert_eq!(kinds("It takes so many as are free."), "archaic");
        assert_eq!(kinds("There were twenty so-many-fold gains."), "");
        assert_eq!(kinds("It parks for that is cheap."), "archaic");
        assert_eq!(kinds("It parks for that reason."), "");
        assert_eq!(kinds("There were three."), "");
        assert_eq!(kinds("Nobody’s lock is held."), "archaic");
    }

    #[test]
    fn pronouns_without_a_noun_are_vague() {
        assert_eq!(kinds("SAFETY: as above."), "vague");
        assert_eq!(kinds("The counter is as high as the limit above."), "");
        assert_eq!(kinds("The same for receivers."), "vague");
        assert_eq!(kinds("The same for all receivers is cheaper."), "");
        assert_eq!(kinds("A sender does the same for receivers."), "");
    }

    #[test]
    fn the_words_of_the_field_are_preferred() {
        let rules = Rules::parse("slang heir = owner waiter").unwrap();
        let marks = rules.marks("Its heir wakes.");
        assert_eq!(marks.last().unwrap().detail, "heir = owner waiter");
        assert_eq!(kinds("Its heir wakes."), "slang");
        assert_eq!(kinds("The value is inherited, as `CODE` shows."), "");
    }

    #[test]
    fn a_wrong_rule_is_named_by_its_line() {
        assert_eq!(
            Rules::parse("long 28\nclause").err().unwrap(),
            "ci/prose.rules:2: a rule is a kind and its words"
        );
        assert!(Rules::parse("long many").err().unwrap().contains("`many` is no number"));
    }
}
