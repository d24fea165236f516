//! System calls that only Windows needs.

mod accounts;

use std::time::Duration;

use crate::backend::sqlite::accounts::{ACCOUNTS, Accounts};
use crate::lock::time::COARSE_CLOCK;

#[link(name = "kernel32")]
// SAFETY: this is the signature that Windows documents. The function takes nothing, cannot fail, and may be
// called from any thread.
unsafe extern "system" {
    safe fn GetTickCount64() -> u64;
}

/// Gives the core the functions that need system calls of Windows.
pub(super) fn install_platform_hooks() {
    // Deadlines count the time that the machine was suspended.
    let _ = COARSE_CLOCK.set(|| Duration::from_millis(GetTickCount64()));
    let _ = ACCOUNTS.set(Accounts {
        // Without an account no file counts as safe.
        user: accounts::user().unwrap_or_else(|_| "unknown".to_owned()),
        local_data: accounts::local_data().ok(),
        make_directory: accounts::make_directory,
        access: accounts::access,
    });
}
