//! Names of tables: validated, then always quoted.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// PostgreSQL cuts longer names off, and two names may then be one.
const MAX_IDENTIFIER_BYTES: usize = 63;

/// `table` or `schema.table`, each an identifier of standard SQL (PostgreSQL would allow a `$` too:
/// it is left to parameters). The case counts, as it does in quotes.
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

    /// In that schema, unless it names one itself. Prisma lets a schema's name have a hyphen.
    pub(crate) fn or_in(mut self, schema: Option<&str>) -> Result<Self> {
        let fits = |schema: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            schema.len() <= MAX_IDENTIFIER_BYTES && schema.bytes().all(plain)
        };
        match schema {
            Some(schema) if !fits(schema) => Err(Error::invalid_argument(format!(
                "The schema in a PostgreSQL URL must be at most {MAX_IDENTIFIER_BYTES} letters, digits, _ or -; \
                 for another say options=-c%20search_path%3D…"
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

    /// An index lives in the schema of its table, so its name has none.
    pub(crate) fn quoted_index(&self, suffix: &str) -> String {
        let plain = format!("idx_{}_{suffix}", self.name);
        if plain.len() <= MAX_IDENTIFIER_BYTES {
            return format!("\"{plain}\"");
        }
        // Cut off, two long names could become one: the hash keeps them apart.
        let digest = Sha256::digest(self.name.as_bytes());
        let (start, hash) = (
            &self.name[..30],
            u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]),
        );
        format!("\"idx_{start}_{hash:08x}_{suffix}\"")
    }
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
}
