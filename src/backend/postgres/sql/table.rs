//! Validates the names of tables and quotes them.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

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
        let plain = format!("idx_{}_{suffix}", self.name);
        if plain.len() <= MAX_IDENTIFIER_BYTES {
            return format!("\"{plain}\"");
        }
        // Two long names could become equal when truncated. The hash keeps them apart.
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
