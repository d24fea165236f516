//! The options of the memory backend.

use serde::Deserialize;

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryConfig {
    pub clock: Clock,
}

/// The clock that decides about expiry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    #[default]
    System,
    /// JavaScript's clock, which tests may replace: see
    /// [`MemoryBackend::with_clock`](super::MemoryBackend::with_clock).
    Javascript,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(json: &str) -> Option<Clock> {
        let config = serde_json::from_str::<MemoryConfig>(json).ok()?;
        Some(config.clock)
    }

    #[test]
    fn the_system_clock_unless_asked_otherwise() {
        assert_eq!(clock("{}"), Some(Clock::System));
        assert_eq!(clock(r#"{"clock":"system"}"#), Some(Clock::System));
        assert_eq!(clock(r#"{"clock":"javascript"}"#), Some(Clock::Javascript));
    }

    #[test]
    fn mistakes_are_refused() {
        assert_eq!(clock(r#"{"clock":"sundial"}"#), None);
        assert_eq!(clock(r#"{"clok":"system"}"#), None);
    }
}
