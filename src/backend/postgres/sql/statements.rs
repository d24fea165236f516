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

#[derive(Debug, Clone)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    Texts(Vec<&'a str>),
    Int(u64),
    Ints(Vec<u64>),
    /// How long the server may take, in milliseconds. The value is inserted when the call is written.
    TimeLeft,
}

pub(crate) struct Statement {
    /// None if the statement is used too seldom to be prepared.
    name: Option<String>,
    text: String,
    /// The same statement for a role that may not notify waiters, if this one notifies them.
    quiet: Option<Box<Statement>>,
}

impl Statement {
    /// `text` may have parameters, or consist of several statements without parameters.
    pub(crate) fn unprepared(text: String) -> Self {
        Self {
            name: None,
            text,
            quiet: None,
        }
    }
}

/// What the session of a connection has and may do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Session {
    /// Whether it has our settings and prepared statements. See `connections/dialer.rs`.
    pub is_prepared: bool,
    /// Whether the role may notify waiters. If not, they poll.
    pub may_notify: bool,
}

pub(crate) struct Statements {
    pub acquire: Statement,
    pub take_advisory_lock: Statement,
    pub reserve_row: Statement,
    pub lock_row: Statement,
    pub check_contested: Statement,
    pub release: Statement,
    pub extend: Statement,
    pub is_locked: Statement,
    pub clean_up: Statement,
    pub lookup_key: Statement,
    pub lookup_id: Statement,
    pub list: Statement,
    pub force_release: Statement,
    /// A message that prepares the statements which have a name.
    pub prepare_all: String,
}

impl Statements {
    /// `labelled`: locks are stored with a label, which is the last argument of an acquire.
    pub(crate) fn new(locks: &Table, counters: &Table, labelled: bool) -> Self {
        let mut prepare_all = String::new();
        let file = |file: &str| {
            let text = with_label(&without_comments(file), labelled);
            text.replace(COUNTERS, &counters.quoted())
                .replace(LOCKS, &locks.quoted())
                .replace("advisory_lock_class", ADVISORY_LOCK_CLASS)
        };
        let notify_waiters = file(include_str!("notify_waiters.sql"));
        let mut prepare = |text: String, types: &str| {
            // Named after its text: behind a pooler a prepared statement may meet a session that
            // another backend prepared, and must then be the same statement.
            let digest = Sha256::digest(text.as_bytes());
            let name = format!("syncguard_{}", hex(&digest[..12]));
            prepare_all.push_str(&format!("PREPARE {name} ({types}) AS {text};\n"));
            Statement {
                name: Some(name),
                ..Statement::unprepared(text)
            }
        };
        // `types` are those of the arguments.
        let mut statement = |text: &str, types: &str| {
            let text = file(text);
            let mut made = prepare(text.replace("notify_waiters", &notify_waiters), types);
            if text.contains("notify_waiters") {
                let quiet = prepare(text.replace("notify_waiters", "NULL"), types);
                made.quiet = Some(Box::new(quiet));
            }
            made
        };
        let label = if labelled { ", text" } else { "" };
        let acquire = format!("text[], text[], bigint[], text[], bigint{label}");
        Self {
            acquire: statement(include_str!("acquire.sql"), &acquire),
            take_advisory_lock: statement(include_str!("take_advisory_lock.sql"), "text, bigint"),
            reserve_row: Statement::unprepared(file(include_str!("reserve_row.sql"))),
            lock_row: Statement::unprepared(file(include_str!("lock_row.sql"))),
            check_contested: Statement::unprepared(file(include_str!("check_contested.sql"))),
            release: statement(include_str!("release.sql"), "text[], bigint"),
            extend: statement(include_str!("extend.sql"), "text, bigint"),
            is_locked: statement(include_str!("is_locked.sql"), "text"),
            clean_up: statement(include_str!("clean_up.sql"), "text"),
            lookup_key: statement(include_str!("lookup_key.sql"), "text"),
            lookup_id: statement(include_str!("lookup_id.sql"), "text"),
            list: statement(include_str!("list.sql"), "text, bigint"),
            force_release: statement(include_str!("force_release.sql"), "text"),
            prepare_all,
        }
    }
}

/// An operation: statements with their arguments, which run in order as one transaction.
pub(crate) type Call<'a> = &'a [(&'a Statement, &'a [Arg<'a>])];

/// Writes the message of a call. `needs_timeout`: the statement_timeout among the session's settings is
/// too long for this call. A session that is not prepared may be another one for each transaction, so
/// the message then contains all that it needs.
pub(crate) fn message(
    call: Call<'_>,
    session: Session,
    left_ms: u64,
    needs_timeout: bool,
) -> String {
    let mut out = String::with_capacity(256);
    if !session.is_prepared {
        out.push_str("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;");
        out.push_str(&format!("SET LOCAL lock_timeout={LOCK_TIMEOUT_MS};"));
    }
    if !session.is_prepared || needs_timeout {
        out.push_str(&format!("SET LOCAL statement_timeout={left_ms};"));
    }
    for (statement, args) in call {
        let statement = match &statement.quiet {
            Some(quiet) if !session.may_notify => quiet,
            _ => *statement,
        };
        match &statement.name {
            Some(name) if session.is_prepared => push_execute(&mut out, name, args, left_ms),
            _ => push_filled_in(&mut out, &statement.text, args, left_ms),
        }
        out.push(';');
    }
    out
}

fn push_execute(out: &mut String, name: &str, args: &[Arg<'_>], left_ms: u64) {
    out.push_str("EXECUTE ");
    out.push_str(name);
    for (index, arg) in args.iter().enumerate() {
        out.push(if index == 0 { '(' } else { ',' });
        push_arg(out, arg, left_ms);
    }
    out.push(')');
}

/// A `$` in our SQL always begins a parameter, and names of tables have none.
fn push_filled_in(out: &mut String, text: &str, args: &[Arg<'_>], left_ms: u64) {
    let mut parts = text.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = part[..digits].parse().unwrap_or_default();
        if let Some(arg) = number.checked_sub(1).and_then(|index| args.get(index)) {
            push_arg(out, arg, left_ms);
        }
        out.push_str(&part[digits..]);
    }
}

fn push_arg(out: &mut String, arg: &Arg<'_>, left_ms: u64) {
    let list = |elements: Vec<String>| format!("ARRAY[{}]", elements.join(","));
    out.push_str(&match arg {
        Arg::Text(text) => literal(text),
        Arg::Texts(texts) => list(texts.iter().map(|text| literal(text)).collect()),
        Arg::Int(number) => number.to_string(),
        Arg::Ints(numbers) => list(numbers.iter().map(u64::to_string).collect()),
        Arg::TimeLeft => left_ms.to_string(),
    });
}

/// `E'…'` means the same whatever `standard_conforming_strings` and `backslash_quote` are. The
/// client's encoding is always UTF-8, in which no byte of a longer character looks like one of
/// these two.
pub(crate) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('\'', "''");
    format!("E'{escaped}'")
}

/// Returns the statement with what is in `/*label … */`, or without.
fn with_label(file: &str, labelled: bool) -> String {
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
pub(super) fn without_comments(file: &str) -> String {
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
        let file = without_comments(include_str!("acquire.sql"));
        let (plain, labelled) = (with_label(&file, false), with_label(&file, true));
        assert!(!plain.contains("/*") && !plain.contains("*/"));
        assert_eq!(plain.matches(", holder_label").count(), 0);
        assert!(!labelled.contains("/*") && !labelled.contains("*/"));
        assert_eq!(labelled.matches(", holder_label").count(), 2);
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
        let own = Session {
            is_prepared: true,
            may_notify: true,
        };
        assert_eq!(
            message(call, own, 4000, false),
            format!(
                r"EXECUTE {}(E'it''s a \\ $1',5);",
                name_of(&statements.extend)
            )
        );
        let text = message(call, Session::default(), 4000, false);
        assert!(text.contains(r"WHERE lock_id = E'it''s a \\ $1'::text"));
        assert!(text.contains("+ 5::bigint"));
    }

    proptest! {
        /// Read back by the rules of E'…', a literal is the text again and nothing comes after it.
        #[test]
        fn literals_cannot_be_left(text in r"[a'\\$;\n]{0,12}") {
            let written = literal(&text);
            let mut inside = written.strip_prefix("E'").unwrap().chars();
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
