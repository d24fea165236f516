//! The statements, with the names of the tables in them, and how a call of them is written out.
//!
//! An operation is one simple-protocol message. Its statements run in one implicit transaction:
//! when one fails the server rolls all of them back by itself, so no connection is ever left in
//! the middle of a transaction. It also is the cheapest way that was measured: with `EXECUTE` of a
//! prepared statement it costs the server what a pipeline of `BEGIN`, two bound statements and
//! `COMMIT` does, with a quarter of the messages; and with the statement's text in place of
//! `EXECUTE` it works behind a pooler that keeps no session, cheaper than unnamed statements do.

use sha2::{Digest, Sha256};

use super::table::Table;
use crate::lock::hash::hex;

/// The names that the SQL files are written with.
pub(crate) const LOCKS: &str = "syncguard_locks";
pub(crate) const COUNTERS: &str = "syncguard_fence_counters";

#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    Texts(&'a [&'a str]),
    Int(u64),
    Ints(&'a [u64]),
    /// How long the server may take, in milliseconds.
    TimeLeft,
}

pub(crate) struct Statement {
    name: String,
    types: &'static str,
    text: String,
}

impl Statement {
    fn new(file: &str, types: &'static str, locks: &Table, counters: &Table) -> Self {
        let text = without_comments(file)
            .replace(COUNTERS, &counters.quoted())
            .replace(LOCKS, &locks.quoted());
        // Named after its text: behind a pooler a prepared statement may meet a session that
        // another backend prepared, and must then be the same statement.
        let digest = Sha256::digest(text.as_bytes());
        let name = format!("syncguard_{}", hex(&digest[..12]));
        Self { name, types, text }
    }

    fn prepare(&self) -> String {
        format!("PREPARE {} ({}) AS {};\n", self.name, self.types, self.text)
    }
}

/// A statement that removes a lock.
pub(crate) struct Removal {
    pub telling: Statement,
    /// For a role that may not tell those who wait.
    pub silent: Statement,
}

impl Removal {
    fn new(file: &str, types: &'static str, locks: &Table, counters: &Table) -> Self {
        let statement = |tell: &str| {
            let text = without_comments(file).replace("tell_waiters", tell);
            Statement::new(&text, types, locks, counters)
        };
        Self {
            telling: statement(include_str!("tell_waiters.sql")),
            silent: statement("NULL"),
        }
    }

    pub(crate) fn statement(&self, silent: bool) -> &Statement {
        if silent { &self.silent } else { &self.telling }
    }
}

pub(crate) struct Statements {
    pub take_turn: Statement,
    pub acquire: Statement,
    pub acquire_together: Statement,
    pub release: Removal,
    pub release_together: Removal,
    pub extend: Statement,
    pub is_locked: Statement,
    pub clean_up: Removal,
    pub lookup_key: Statement,
    pub lookup_id: Statement,
    pub list: Statement,
    pub force_release: Removal,
}

impl Statements {
    pub(crate) fn new(locks: &Table, counters: &Table) -> Self {
        let statement = |file, types| Statement::new(file, types, locks, counters);
        let removal = |file, types| Removal::new(file, types, locks, counters);
        Self {
            take_turn: statement(include_str!("take_turn.sql"), "text, bigint"),
            acquire: statement(include_str!("acquire.sql"), "text, text, bigint, text"),
            acquire_together: statement(
                include_str!("acquire_together.sql"),
                "text[], text[], bigint[], text[], bigint",
            ),
            release: removal(include_str!("release.sql"), "text"),
            release_together: removal(include_str!("release_together.sql"), "text[], bigint"),
            extend: statement(include_str!("extend.sql"), "text, bigint"),
            is_locked: statement(include_str!("is_locked.sql"), "text"),
            clean_up: removal(include_str!("clean_up.sql"), "text"),
            lookup_key: statement(include_str!("lookup_key.sql"), "text"),
            lookup_id: statement(include_str!("lookup_id.sql"), "text"),
            list: statement(include_str!("list.sql"), "text, bigint"),
            force_release: removal(include_str!("force_release.sql"), "text"),
        }
    }

    /// Prepares all of them in one message.
    pub(crate) fn prepare_all(&self) -> String {
        [
            &self.take_turn,
            &self.acquire,
            &self.acquire_together,
            &self.release.telling,
            &self.release.silent,
            &self.release_together.telling,
            &self.release_together.silent,
            &self.extend,
            &self.is_locked,
            &self.clean_up.telling,
            &self.clean_up.silent,
            &self.lookup_key,
            &self.lookup_id,
            &self.list,
            &self.force_release.telling,
            &self.force_release.silent,
        ]
        .into_iter()
        .map(Statement::prepare)
        .collect()
    }
}

/// An operation: statements with their arguments, run in order as one transaction.
pub(crate) type Call<'a> = &'a [(&'a Statement, &'a [Arg<'a>])];

/// For a session of our own, which has the statements and settings.
/// `timed`: the settings' statement_timeout is too long for this one.
pub(crate) fn prepared(call: Call<'_>, left_ms: u64, timed: bool) -> String {
    let mut out = String::with_capacity(256);
    if timed {
        out.push_str(&format!("SET LOCAL statement_timeout={left_ms};"));
    }
    for (statement, args) in call {
        out.push_str("EXECUTE ");
        out.push_str(&statement.name);
        for (index, arg) in args.iter().enumerate() {
            out.push(if index == 0 { '(' } else { ',' });
            push_arg(&mut out, *arg, left_ms);
        }
        out.push_str(");");
    }
    out
}

/// For a session that may be another one for each transaction: everything comes along.
pub(crate) fn spelled_out(call: Call<'_>, left_ms: u64) -> String {
    let mut out = format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET LOCAL statement_timeout={left_ms};SET LOCAL lock_timeout=0;"
    );
    for (statement, args) in call {
        push_filled_in(&mut out, &statement.text, args, left_ms);
        out.push(';');
    }
    out
}

/// A statement outside of [`Statements`], with its arguments in it.
pub(crate) fn filled_in(file: &str, args: &[Arg<'_>]) -> String {
    let mut out = String::new();
    push_filled_in(&mut out, &without_comments(file), args, 0);
    out
}

/// Our SQL has no `$` but in `$1`, `$2`, …, and neither have names of tables.
fn push_filled_in(out: &mut String, text: &str, args: &[Arg<'_>], left_ms: u64) {
    let mut parts = text.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = part[..digits].parse().unwrap_or_default();
        if let Some(arg) = number.checked_sub(1).and_then(|index| args.get(index)) {
            push_arg(out, *arg, left_ms);
        }
        out.push_str(&part[digits..]);
    }
}

fn push_arg(out: &mut String, arg: Arg<'_>, left_ms: u64) {
    match arg {
        Arg::Text(text) => push_literal(out, text),
        Arg::Texts(texts) => push_literal(out, &array(texts)),
        Arg::Int(number) => out.push_str(&number.to_string()),
        Arg::Ints(numbers) => push_literal(out, &array(numbers)),
        Arg::TimeLeft => out.push_str(&left_ms.to_string()),
    }
}

pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 3);
    push_literal(&mut out, text);
    out
}

/// `E'…'` means the same whatever `standard_conforming_strings` and `backslash_quote` are. The
/// client's encoding is always UTF-8, in which no byte of a longer character looks like one of
/// these two.
fn push_literal(out: &mut String, text: &str) {
    out.push_str("E'");
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('\'');
}

/// An array as PostgreSQL reads it from a text.
fn array(elements: &[impl ToString]) -> String {
    let mut out = String::from("{");
    for element in elements {
        out.push_str(if out.len() > 1 { ",\"" } else { "\"" });
        for character in element.to_string().chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
    }
    out.push('}');
    out
}

/// Comments explain the files; the server need not read them again and again.
fn without_comments(file: &str) -> String {
    file.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("--") && !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn statements() -> Statements {
        let table = |name| Table::parse("tableName", name).unwrap();
        Statements::new(&table("app.locks"), &table("counters"))
    }

    #[test]
    fn tables_are_quoted_and_comments_are_gone() {
        let acquire = &statements().acquire.text;
        assert!(acquire.contains(r#"INSERT INTO "app"."locks" AS"#));
        assert!(acquire.contains(r#"INSERT INTO "counters" AS"#));
        assert!(!acquire.contains("--") && !acquire.contains("syncguard"));
    }

    #[test]
    fn names_follow_the_text() {
        let (one, other) = (statements(), statements());
        assert_eq!(one.extend.name, other.extend.name);
        assert_ne!(one.extend.name, one.acquire.name);
    }

    #[test]
    fn calls_are_written_both_ways() {
        let statements = statements();
        let args = [Arg::Text(r"it's a \ $1"), Arg::Int(5)];
        let call: Call = &[(&statements.extend, &args)];
        assert_eq!(
            prepared(call, 4000, false),
            format!(r"EXECUTE {}(E'it''s a \\ $1',5);", statements.extend.name)
        );
        let text = spelled_out(call, 4000);
        assert!(text.contains(r"WHERE lock_id = E'it''s a \\ $1'::text"));
        assert!(text.contains("+ 5::bigint"));
    }

    proptest! {
        /// Read back by the rules of E'…', a literal is the text again and nothing comes after it.
        #[test]
        fn literals_cannot_be_left(text in r"[a'\\$;\n]{0,12}") {
            let mut out = String::new();
            push_literal(&mut out, &text);
            let mut inside = out.strip_prefix("E'").unwrap().chars();
            let mut read = String::new();
            loop {
                match inside.next().unwrap() {
                    '\\' => read.push(inside.next().unwrap()),
                    '\'' => match inside.next() {
                        Some('\'') => read.push('\''),
                        end => {
                            prop_assert_eq!(end, None);
                            break;
                        }
                    },
                    character => read.push(character),
                }
            }
            prop_assert_eq!(read, text);
        }
    }
}
