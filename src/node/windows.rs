//! What only Windows has.

mod accounts;

use std::time::Duration;

use crate::backend::sqlite::accounts::{ACCOUNTS, Accounts};
use crate::lock::time::COARSE_CLOCK;

#[link(name = "kernel32")]
// SAFETY: its signature as Windows documents it. It takes nothing, cannot fail, and may be called
// from any thread.
unsafe extern "system" {
    safe fn GetTickCount64() -> u64;
}

/// Gives the core what it can only have from Windows' own calls.
pub(super) fn equip() {
    // Deadlines count the time that the machine was suspended.
    let _ = COARSE_CLOCK.set(|| Duration::from_millis(GetTickCount64()));
    let _ = ACCOUNTS.set(Accounts {
        // Nobody owns anything then, and no file is taken for safe.
        user: accounts::user().unwrap_or_else(|_| "unknown".to_owned()),
        make_directory: accounts::make_directory,
        access: accounts::access,
    });
}
