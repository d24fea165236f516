//! What callers do with a backend.
