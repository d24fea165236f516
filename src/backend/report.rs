//! A description of a store for people.

use serde::Serialize;

/// One fact about a store. Its texts must not contain a key, a lockId or a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub value: String,
    pub verdict: Verdict,
    /// What the value means, or what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// From good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Something can go wrong that could be avoided.
    Warning,
    /// Locks do not work or do not exclude anybody.
    Error,
}

impl Finding {
    pub(super) fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            value: value.into(),
            verdict: Verdict::Ok,
            advice: None,
        }
    }

    pub(super) fn warning(self, advice: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Warning,
            advice: Some(advice.into()),
            ..self
        }
    }

    pub(super) fn error(self, advice: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Error,
            ..self.warning(advice)
        }
    }
}
