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

use super::table::{HOLDERS, Tables, replace_words};
use crate::lock::hash::hex;

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
    /// Whether it needs the table of holders, which databases that were set up by earlier versions do
    /// not have.
    needs_holders: bool,
}

impl Statement {
    /// `text` may have parameters, or consist of several statements without parameters.
    pub(crate) fn unprepared(text: String) -> Self {
        Self {
            name: None,
            text,
            quiet: None,
            needs_holders: false,
        }
    }
}

/// What the session of a connection has and may do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Session {
    /// Whether it has our settings and prepared statements. See `connections/dialer.rs`.
    pub is_prepared: bool,
    /// Whether the table of holders existed when the session began, so that the statements for it are
    /// prepared too.
    pub has_holders: bool,
    /// Whether the role may notify waiters. If not, they poll.
    pub may_notify: bool,
}

impl Session {
    fn has(self, statement: &Statement) -> bool {
        self.is_prepared && (self.has_holders || !statement.needs_holders)
    }
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
    pub shares: ShareStatements,
    /// A message that prepares the statements which have a name.
    prepare_all: String,
    /// The same for those that need the table of holders.
    prepare_shares: String,
    ask_session: String,
}

/// The statements for shared keys.
pub(crate) struct ShareStatements {
    pub acquire: Statement,
    pub lock_record: Statement,
    pub release: Statement,
    pub extend: Statement,
    pub mark: Statement,
    pub unmark: Statement,
    pub lookup_key: Statement,
    pub lookup_id: Statement,
    pub list: Statement,
    pub remove_holders: Statement,
    pub sweep: Statement,
}

impl Statements {
    /// `labelled`: locks are stored with a label, which is the last argument of an acquire.
    pub(crate) fn new(tables: &Tables, labelled: bool) -> Self {
        let mut writer = Writer::new(tables, labelled);
        let label = if labelled { ", text" } else { "" };
        let acquire = format!("text[], text[], bigint[], text[], bigint{label}");
        Self {
            acquire: writer.prepared(include_str!("acquire.sql"), &acquire),
            take_advisory_lock: writer
                .prepared(include_str!("take_advisory_lock.sql"), "text, bigint"),
            reserve_row: writer.unprepared(include_str!("reserve_row.sql")),
            lock_row: writer.prepared(include_str!("lock_row.sql"), "text"),
            check_contested: writer.unprepared(include_str!("check_contested.sql")),
            release: writer.prepared(include_str!("release.sql"), "text[], bigint"),
            extend: writer.prepared(include_str!("extend.sql"), "text, bigint"),
            is_locked: writer.prepared(include_str!("is_locked.sql"), "text"),
            clean_up: writer.prepared(include_str!("clean_up.sql"), "text"),
            lookup_key: writer.prepared(include_str!("lookup_key.sql"), "text"),
            lookup_id: writer.prepared(include_str!("lookup_id.sql"), "text"),
            list: writer.prepared(include_str!("list.sql"), "text, bigint"),
            force_release: writer.prepared(include_str!("force_release.sql"), "text"),
            shares: ShareStatements {
                acquire: writer.prepared(
                    include_str!("acquire_share.sql"),
                    "text, text, bigint, text, bigint, text, text",
                ),
                lock_record: writer.prepared(include_str!("lock_record.sql"), "text"),
                release: writer.prepared(include_str!("release_share.sql"), "text"),
                extend: writer.prepared(include_str!("extend_share.sql"), "text, bigint"),
                lookup_id: writer.prepared(include_str!("lookup_share_id.sql"), "text"),
                mark: writer.unprepared(include_str!("mark.sql")),
                unmark: writer.unprepared(include_str!("unmark.sql")),
                lookup_key: writer.unprepared(include_str!("lookup_share_key.sql")),
                list: writer.unprepared(include_str!("list_shares.sql")),
                remove_holders: writer.unprepared(include_str!("remove_holders.sql")),
                sweep: writer.unprepared(include_str!("sweep.sql")),
            },
            prepare_all: writer.prepare_all,
            prepare_shares: writer.prepare_shares,
            ask_session: format!(
                "SELECT current_setting('syncguard.session', true), \
                 has_function_privilege('pg_notify(text, text)', 'EXECUTE'), \
                 to_regclass({}) IS NOT NULL",
                literal(&tables.holders.quoted())
            ),
        }
    }

    /// Returns what a new session is asked: whether it has our settings, whether the role may notify
    /// waiters, and whether the table of holders exists.
    pub(crate) fn ask_session(&self) -> &str {
        &self.ask_session
    }

    /// Returns the message that prepares the statements which a session can have.
    pub(crate) fn prepare(&self, session: Session) -> String {
        match session.has_holders {
            true => format!("{}{}", self.prepare_all, self.prepare_shares),
            false => self.prepare_all.clone(),
        }
    }
}

/// Makes statements from the SQL files.
struct Writer<'a> {
    tables: &'a Tables,
    labelled: bool,
    notify_waiters: String,
    live_shares: String,
    prepare_all: String,
    prepare_shares: String,
}

impl<'a> Writer<'a> {
    fn new(tables: &'a Tables, labelled: bool) -> Self {
        let mut writer = Self {
            tables,
            labelled,
            notify_waiters: String::new(),
            live_shares: String::new(),
            prepare_all: String::new(),
            prepare_shares: String::new(),
        };
        writer.notify_waiters = writer.read(include_str!("notify_waiters.sql"), true);
        writer.live_shares = writer.read(include_str!("live_shares.sql"), true);
        writer
    }

    /// `types` are those of the arguments.
    fn prepared(&mut self, file: &str, types: &str) -> Statement {
        self.statement(file, Some(types))
    }

    fn unprepared(&mut self, file: &str) -> Statement {
        self.statement(file, None)
    }

    fn statement(&mut self, file: &str, types: Option<&str>) -> Statement {
        let needs_holders = [HOLDERS, "live_shares"]
            .iter()
            .any(|name| file.contains(name));
        let mut make = |notifies| {
            let text = self.read(file, notifies);
            Statement {
                name: types.map(|types| self.prepare(&text, types, needs_holders)),
                needs_holders,
                ..Statement::unprepared(text)
            }
        };
        let quiet = file
            .contains("notify_waiters")
            .then(|| Box::new(make(false)));
        Statement {
            quiet,
            ..make(true)
        }
    }

    /// Adds the statement to those that are prepared. Returns its name there.
    fn prepare(&mut self, text: &str, types: &str, needs_holders: bool) -> String {
        // Named after its text: behind a pooler a prepared statement may meet a session that another
        // backend prepared, and must then be the same statement.
        let digest = Sha256::digest(text.as_bytes());
        let name = format!("syncguard_{}", hex(&digest[..12]));
        let message = match needs_holders {
            true => &mut self.prepare_shares,
            false => &mut self.prepare_all,
        };
        message.push_str(&format!("PREPARE {name} ({types}) AS {text};\n"));
        name
    }

    /// Returns the statement in a file.
    fn read(&self, file: &str, notifies: bool) -> String {
        let text = with_label(&without_comments(file), self.labelled);
        replace_words(&text, |word| match word {
            "advisory_lock_class" => Some(ADVISORY_LOCK_CLASS.to_owned()),
            "live_shares" => Some(self.live_shares.clone()),
            "notify_waiters" if notifies => Some(self.notify_waiters.clone()),
            "notify_waiters" => Some("NULL".to_owned()),
            name => self.tables.quoted(name),
        })
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
            Some(name) if session.has(statement) => push_execute(&mut out, name, args, left_ms),
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
    use super::super::table::Table;
    use super::*;
    use proptest::prelude::*;

    fn statements() -> Statements {
        let table = |name| Table::parse("tableName", name).unwrap();
        let tables = Tables::new(table("app.locks"), table("counters")).unwrap();
        Statements::new(&tables, false)
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
            has_holders: false,
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

    #[test]
    fn statements_for_shares_are_prepared_where_there_is_a_table_of_holders() {
        let statements = statements();
        let [old, new] = [false, true].map(|has_holders| Session {
            is_prepared: true,
            has_holders,
            may_notify: true,
        });
        let holders = r#""app"."locks_holders""#;
        assert!(!statements.prepare(old).contains(holders));
        assert!(
            statements
                .prepare(new)
                .starts_with(&statements.prepare(old))
        );
        let args = [Arg::Text("id")];
        let call: Call = &[
            (&statements.lock_row, &args),
            (&statements.shares.release, &args),
        ];
        let name = name_of(&statements.shares.release);
        assert!(statements.prepare(new).contains(name));
        assert!(message(call, new, 4000, false).ends_with(&format!("EXECUTE {name}(E'id');")));
        let text = message(call, old, 4000, false);
        assert!(
            text.starts_with("EXECUTE") && text.contains(holders),
            "{text}"
        );
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
