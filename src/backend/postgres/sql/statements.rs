//! The statements, with the names of the tables in them, and how a call of them is written as a
//! message.
//!
//! An operation is one simple-protocol message. Its statements run in one implicit transaction:
//! when one fails the server rolls all of them back by itself, so no connection is ever left in
//! the middle of a transaction. It is also the cheapest way that was measured. With `EXECUTE` of a
//! prepared statement it costs the server as much as a pipeline of `BEGIN`, two bound statements and
//! `COMMIT`, with a quarter of the messages. With the text of the statement in place of `EXECUTE` it
//! works behind a pooler that keeps no session, and is cheaper than unnamed statements.

use sha2::{Digest, Sha256};

use super::table::Table;
use crate::lock::hash::hex;

/// The names that the SQL files are written with.
pub(crate) const LOCKS: &str = "syncguard_locks";
pub(crate) const COUNTERS: &str = "syncguard_fence_counters";

/// The first of the two numbers of our advisory locks: "SYNC" in ASCII. The SQL files call it
/// `advisory_lock_class`.
pub(crate) const ADVISORY_LOCK_CLASS: &str = "1398361667";

/// How long a statement waits for a database lock of another session. Longer waits consist of several
/// attempts, between which the connection serves other requests.
pub(crate) const LOCK_TIMEOUT_MS: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    Texts(&'a [&'a str]),
    Int(u64),
    Ints(&'a [u64]),
    /// How long the server may take, in milliseconds. The value is inserted when the call is written.
    TimeLeft,
}

pub(crate) struct Statement {
    /// None if the statement is used too seldom to be prepared.
    name: Option<String>,
    text: String,
}

/// A statement that removes a lock.
pub(crate) struct Removal {
    pub notifying: Statement,
    /// For a role that may not notify waiters.
    pub quiet: Statement,
}

impl Removal {
    pub(crate) fn statement(&self, cannot_notify: bool) -> &Statement {
        match cannot_notify {
            true => &self.quiet,
            false => &self.notifying,
        }
    }
}

pub(crate) struct Statements {
    pub take_advisory_lock: Statement,
    pub acquire: Statement,
    pub acquire_batch: Statement,
    pub reserve_row: Statement,
    pub lock_row: Statement,
    pub check_contested: Statement,
    pub release: Removal,
    pub release_batch: Removal,
    pub extend: Statement,
    pub is_locked: Statement,
    pub clean_up: Removal,
    pub lookup_key: Statement,
    pub lookup_id: Statement,
    pub list: Statement,
    pub force_release: Removal,
    /// A message that prepares the statements which have a name.
    pub prepare_all: String,
}

impl Statements {
    /// `labelled`: locks are stored with a label, which is the last argument of an acquire.
    pub(crate) fn new(locks: &Table, counters: &Table, labelled: bool) -> Self {
        let mut writer = Writer {
            locks: locks.quoted(),
            counters: counters.quoted(),
            label_type: if labelled { ", text" } else { "" },
            prepare_all: String::new(),
        };
        Self {
            take_advisory_lock: writer
                .statement(include_str!("take_advisory_lock.sql"), "text, bigint"),
            acquire: writer.labelled(include_str!("acquire.sql"), "text, text, bigint, text"),
            acquire_batch: writer.labelled(
                include_str!("acquire_batch.sql"),
                "text[], text[], bigint[], text[], bigint",
            ),
            reserve_row: writer.unprepared(include_str!("reserve_row.sql")),
            lock_row: writer.unprepared(include_str!("lock_row.sql")),
            check_contested: writer.unprepared(include_str!("check_contested.sql")),
            release: writer.removal(include_str!("release.sql"), "text"),
            release_batch: writer.removal(include_str!("release_batch.sql"), "text[], bigint"),
            extend: writer.statement(include_str!("extend.sql"), "text, bigint"),
            is_locked: writer.statement(include_str!("is_locked.sql"), "text"),
            clean_up: writer.removal(include_str!("clean_up.sql"), "text"),
            lookup_key: writer.statement(include_str!("lookup_key.sql"), "text"),
            lookup_id: writer.statement(include_str!("lookup_id.sql"), "text"),
            list: writer.statement(include_str!("list.sql"), "text, bigint"),
            force_release: writer.removal(include_str!("force_release.sql"), "text"),
            prepare_all: writer.prepare_all,
        }
    }
}

/// Turns the SQL files into statements.
struct Writer {
    /// The quoted names of the tables.
    locks: String,
    counters: String,
    /// What the types of an acquire's arguments end with.
    label_type: &'static str,
    prepare_all: String,
}

impl Writer {
    fn unprepared(&self, file: &str) -> Statement {
        let text = without_comments(file)
            .replace(COUNTERS, &self.counters)
            .replace(LOCKS, &self.locks)
            .replace("advisory_lock_class", ADVISORY_LOCK_CLASS);
        Statement { name: None, text }
    }

    /// `types` are those of the arguments.
    fn statement(&mut self, file: &str, types: &str) -> Statement {
        let Statement { text, .. } = self.unprepared(file);
        // Named after its text: behind a pooler a prepared statement may meet a session that
        // another backend prepared, and must then be the same statement.
        let digest = Sha256::digest(text.as_bytes());
        let name = format!("syncguard_{}", hex(&digest[..12]));
        let prepare = format!("PREPARE {name} ({types}) AS {text};\n");
        self.prepare_all.push_str(&prepare);
        Statement {
            name: Some(name),
            text,
        }
    }

    fn labelled(&mut self, file: &str, types: &str) -> Statement {
        let label_type = self.label_type;
        let text = with_label(file, !label_type.is_empty());
        self.statement(&text, &format!("{types}{label_type}"))
    }

    fn removal(&mut self, file: &str, types: &str) -> Removal {
        let mut statement = |notify_waiters: &str| {
            let text = without_comments(file).replace("notify_waiters", notify_waiters);
            self.statement(&text, types)
        };
        Removal {
            notifying: statement(include_str!("notify_waiters.sql")),
            quiet: statement("NULL"),
        }
    }
}

/// An operation: statements with their arguments, which run in order as one transaction.
pub(crate) type Call<'a> = &'a [(&'a Statement, &'a [Arg<'a>])];

/// Writes a message for a session that has our statements and settings. `needs_timeout`: the
/// statement_timeout among the settings is too long for this call.
pub(crate) fn prepared(call: Call<'_>, left_ms: u64, needs_timeout: bool) -> String {
    let mut out = String::with_capacity(256);
    if needs_timeout {
        out.push_str(&format!("SET LOCAL statement_timeout={left_ms};"));
    }
    for (statement, args) in call {
        let Some(name) = &statement.name else {
            push_filled_in(&mut out, &statement.text, args, left_ms);
            out.push(';');
            continue;
        };
        out.push_str("EXECUTE ");
        out.push_str(name);
        for (index, arg) in args.iter().enumerate() {
            out.push(if index == 0 { '(' } else { ',' });
            push_arg(&mut out, *arg, left_ms);
        }
        out.push_str(");");
    }
    out
}

/// Writes a message that contains all it needs, as each transaction may run in another session.
pub(crate) fn spelled_out(call: Call<'_>, left_ms: u64) -> String {
    let mut out = format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET LOCAL statement_timeout={left_ms};SET LOCAL lock_timeout={LOCK_TIMEOUT_MS};"
    );
    for (statement, args) in call {
        push_filled_in(&mut out, &statement.text, args, left_ms);
        out.push(';');
    }
    out
}

/// Returns a statement that is not one of [`Statements`], with its arguments in it.
pub(crate) fn filled_in(file: &str, args: &[Arg<'_>]) -> String {
    let mut out = String::new();
    push_filled_in(&mut out, &without_comments(file), args, 0);
    out
}

/// A `$` in our SQL always begins a parameter, and names of tables have none.
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

/// Writes an array in PostgreSQL's text format.
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

/// Returns the statement with what is in `/*label … */`, or without.
fn with_label(file: &str, labelled: bool) -> String {
    let file = without_comments(file);
    let mut parts = file.split("/*label");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once("*/").unwrap_or((part, ""));
        if labelled {
            out.push_str(label);
        }
        out.push_str(rest);
    }
    out
}

/// Removes the comments, so that the server does not have to read them again and again.
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
        Statements::new(&table("app.locks"), &table("counters"), false)
    }

    fn name_of(statement: &Statement) -> &str {
        statement.name.as_deref().unwrap()
    }

    #[test]
    fn tables_are_quoted_and_comments_are_gone() {
        let acquire = &statements().acquire.text;
        assert!(acquire.contains(r#"INSERT INTO "app"."locks" AS"#));
        assert!(acquire.contains(r#"INSERT INTO "counters" AS"#));
        assert!(!acquire.contains("--") && !acquire.contains("syncguard_"));
    }

    #[test]
    fn a_label_is_a_part_of_the_statement_where_there_are_labels() {
        for file in [
            include_str!("acquire.sql"),
            include_str!("acquire_batch.sql"),
        ] {
            let (plain, labelled) = (with_label(file, false), with_label(file, true));
            assert!(!plain.contains("/*") && !plain.contains("*/"));
            assert_eq!(plain.matches(", holder_label").count(), 0);
            assert!(!labelled.contains("/*") && !labelled.contains("*/"));
            assert_eq!(labelled.matches(", holder_label").count(), 2);
        }
    }

    #[test]
    fn names_follow_the_text() {
        let (one, other) = (statements(), statements());
        assert_eq!(name_of(&one.extend), name_of(&other.extend));
        assert_ne!(name_of(&one.extend), name_of(&one.acquire));
    }

    #[test]
    fn calls_are_written_both_ways() {
        let statements = statements();
        let args = [Arg::Text(r"it's a \ $1"), Arg::Int(5)];
        let call: Call = &[(&statements.extend, &args)];
        assert_eq!(
            prepared(call, 4000, false),
            format!(
                r"EXECUTE {}(E'it''s a \\ $1',5);",
                name_of(&statements.extend)
            )
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
