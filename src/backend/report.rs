//! What a person should know of a store.

use serde::Serialize;

/// The texts must not contain a key, a lockId or a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub value: String,
    pub verdict: Verdict,
    /// What it means, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// From good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Something can go wrong that need not.
    Warning,
    /// Locks do not work, or exclude nobody.
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
