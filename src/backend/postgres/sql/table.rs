//! Validates the names of tables, quotes them and puts them into the SQL files.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The names that the SQL files are written with.
pub(crate) const LOCKS: &str = "syncguard_locks";
pub(crate) const COUNTERS: &str = "syncguard_fence_counters";
pub(crate) const HOLDERS: &str = "syncguard_locks_holders";

/// PostgreSQL truncates longer names, after which two of them may be equal.
const MAX_IDENTIFIER_BYTES: usize = 63;

/// `table` or `schema.table`. Both parts are identifiers of standard SQL and case-sensitive. PostgreSQL also
/// allows a `$`, which we reserve for parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    schema: Option<String>,
    name: String,
}

impl Table {
    pub(crate) fn parse(option: &str, text: &str) -> Result<Self> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text),
        };
        if ![schema.unwrap_or(name), name]
            .into_iter()
            .all(is_identifier)
        {
            return Err(Error::invalid_argument(format!(
                "{option} must be an SQL identifier of at most {MAX_IDENTIFIER_BYTES} letters, digits or _, such as \"locks\" or \"app.locks\""
            )));
        }
        Ok(Self {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// Puts the table into this schema, unless it has one. With Prisma a schema's name may contain a hyphen.
    pub(crate) fn or_in(mut self, schema: Option<&str>) -> Result<Self> {
        let fits = |schema: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            schema.len() <= MAX_IDENTIFIER_BYTES && schema.bytes().all(plain)
        };
        match schema {
            Some(schema) if !fits(schema) => Err(Error::invalid_argument(format!(
                "The schema in a PostgreSQL URL must be at most {MAX_IDENTIFIER_BYTES} letters, digits, _ or -; \
                 for another one use options=-c%20search_path%3D…"
            ))),
            Some(schema) if self.schema.is_none() => {
                self.schema = Some(schema.to_owned());
                Ok(self)
            }
            _ => Ok(self),
        }
    }

    pub(crate) fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}\"", self.name),
            None => format!("\"{}\"", self.name),
        }
    }

    /// Returns the name of an index. It has no schema, because an index is in the schema of its table.
    pub(crate) fn quoted_index(&self, suffix: &str) -> String {
        format!("\"{}\"", self.derived_name("idx_", suffix))
    }

    /// Returns a table in the same schema, with a name that no other lock table leads to.
    fn with_suffix(&self, suffix: &str) -> Self {
        Self {
            schema: self.schema.clone(),
            name: self.derived_name("", suffix),
        }
    }

    fn derived_name(&self, prefix: &str, suffix: &str) -> String {
        let plain = format!("{prefix}{}_{suffix}", self.name);
        if plain.len() <= MAX_IDENTIFIER_BYTES {
            return plain;
        }
        // Two long names could become equal when truncated. The hash keeps them apart.
        let digest = Sha256::digest(self.name.as_bytes());
        let (start, hash) = (
            &self.name[..30],
            u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]),
        );
        format!("{prefix}{start}_{hash:08x}_{suffix}")
    }
}

/// The tables of a backend.
pub(crate) struct Tables {
    pub locks: Table,
    pub counters: Table,
    /// The holders of shared keys. Its name follows from that of the lock table.
    pub holders: Table,
}

impl Tables {
    pub(crate) fn new(locks: Table, counters: Table) -> Result<Self> {
        if locks == counters {
            return Err(Error::invalid_argument(
                "fenceTableName must differ from tableName",
            ));
        }
        let mut holders = locks.with_suffix("holders");
        if holders.name == counters.name {
            holders = locks.with_suffix("shares");
        }
        Ok(Self {
            locks,
            counters,
            holders,
        })
    }

    /// Returns the quoted name of the table that the SQL files call by this one.
    pub(super) fn quoted(&self, name: &str) -> Option<String> {
        let table = match name {
            LOCKS => &self.locks,
            COUNTERS => &self.counters,
            HOLDERS => &self.holders,
            _ => return None,
        };
        Some(table.quoted())
    }
}

/// Replaces whole words in one pass, so that nothing is replaced in what was put in.
pub(super) fn replace_words(text: &str, replacement: impl Fn(&str) -> Option<String>) -> String {
    let is_in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut out = String::with_capacity(2 * text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.bytes().take_while(|byte| is_in_word(*byte)).count();
        let (word, after) = rest.split_at(length);
        out.push_str(&replacement(word).unwrap_or_else(|| word.to_owned()));
        let next = after.bytes().position(is_in_word).unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn is_identifier(text: &str) -> bool {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let rest = |b: u8| first(b) || b.is_ascii_digit();
    text.len() <= MAX_IDENTIFIER_BYTES
        && text.bytes().next().is_some_and(first)
        && text.bytes().all(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_with_or_without_a_schema() {
        let quoted = |text| Table::parse("tableName", text).unwrap().quoted();
        assert_eq!(quoted("locks"), r#""locks""#);
        assert_eq!(quoted("App.my_Locks2"), r#""App"."my_Locks2""#);
        assert_eq!(quoted(&"x".repeat(63)), format!("\"{}\"", "x".repeat(63)));
        for bad in [
            "", ".", "a.", ".a", "a.b.c", "1a", "a b", "a\"b", "a;b", "a-b", "é", "a\0", "a\n",
            "a$1",
        ] {
            assert!(Table::parse("tableName", bad).is_err(), "{bad:?}");
        }
        assert!(Table::parse("tableName", &"x".repeat(64)).is_err());
    }

    #[test]
    fn index_names_stay_short_and_apart() {
        let index = |text: &str| {
            Table::parse("tableName", text)
                .unwrap()
                .quoted_index("lock_id")
        };
        assert_eq!(index("app.locks"), r#""idx_locks_lock_id""#);
        let long = "x".repeat(62);
        let (one, two) = (index(&format!("{long}1")), index(&format!("{long}2")));
        assert!(one.len() <= 65 && one != two);
    }

    fn tables(locks: &str, counters: &str) -> Result<Tables> {
        let [locks, counters] = [locks, counters].map(|name| Table::parse("tableName", name));
        Tables::new(locks?, counters?)
    }

    #[test]
    fn the_table_of_holders_has_a_name_of_its_own() {
        let holders = |locks: &str, counters: &str| tables(locks, counters).unwrap().holders;
        assert_eq!(holders("locks", "c").quoted(), r#""locks_holders""#);
        assert_eq!(
            holders("app.locks", "c").quoted(),
            r#""app"."locks_holders""#
        );
        assert_eq!(
            holders("locks", "app.locks_holders").quoted(),
            r#""locks_shares""#
        );
        let long = "x".repeat(62);
        let (one, two) = (
            holders(&format!("{long}1"), "c"),
            holders(&format!("{long}2"), "c"),
        );
        assert_ne!(one, two);
        assert!(Table::parse("tableName", &one.name).is_ok());
        assert!(tables("same", "same").is_err());
    }

    #[test]
    fn names_are_put_in_once() {
        let tables = tables("syncguard_fence_counters", "syncguard_locks_holders").unwrap();
        assert_eq!(
            replace_words(
                "syncguard_locks, syncguard_fence_counters; idx_syncguard_locks é",
                |word| tables.quoted(word)
            ),
            r#""syncguard_fence_counters", "syncguard_locks_holders"; idx_syncguard_locks é"#
        );
    }
}
