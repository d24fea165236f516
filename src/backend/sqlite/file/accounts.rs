//! The owner of a file on Windows, and the accounts that may change it. The system calls for this are not
//! safe Rust, so the binding makes them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Accounts are named by their SID.
#[derive(Debug)]
pub struct Accounts {
    /// Returns the account that this process runs as.
    pub user: String,
    /// Returns the folder for the data of local applications, if the user has a profile.
    pub local_data: Option<PathBuf>,
    /// Creates a directory with the access that a security descriptor (SDDL) gives.
    pub make_directory: fn(&Path, descriptor: &str) -> io::Result<()>,
    pub access: fn(&Path) -> io::Result<Access>,
}

/// Not set if the core is used without the binding.
pub static ACCOUNTS: OnceLock<Accounts> = OnceLock::new();

#[derive(Debug)]
pub struct Access {
    pub owner: String,
    /// The accounts that may write to it, delete it, or change its permissions.
    pub writers: Vec<String>,
}

const EVERYONE: &str = "S-1-1-0";
const SYSTEM: &str = "S-1-5-18";
const ADMINISTRATORS: &str = "S-1-5-32-544";
/// Placeholders for the owner of a file.
const OWNER: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

impl Access {
    /// A file without an access list is open to everybody.
    pub fn unlimited(owner: String) -> Self {
        Self {
            owner,
            writers: vec![EVERYONE.to_owned()],
        }
    }

    /// Returns why the user must not rely on the file.
    pub(super) fn objection(&self, user: &str) -> Option<&'static str> {
        // A file that an elevated process creates belongs to the administrators.
        let trusted = |sid: &str| [user, SYSTEM, ADMINISTRATORS].contains(&sid);
        if !trusted(&self.owner) {
            return Some("belongs to another user");
        }
        let strange = |sid: &String| !trusted(sid) && !OWNER.contains(&sid.as_str());
        self.writers
            .iter()
            .any(strange)
            .then_some("can be changed by other users")
    }
}

/// Access for the user, and for accounts that have access to everything. Files inside inherit it.
pub(super) fn private_to(user: &str) -> String {
    let accounts = [user, SYSTEM, ADMINISTRATORS];
    let entries = accounts.map(|sid| format!("(A;OICI;FA;;;{sid})"));
    format!("D:P{}", entries.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "S-1-5-21-1-2-3-1001";
    const OTHER: &str = "S-1-5-21-1-2-3-1002";

    fn access(owner: &str, writers: &[&str]) -> Access {
        Access {
            owner: owner.to_owned(),
            writers: writers.iter().map(|&sid| sid.to_owned()).collect(),
        }
    }

    #[test]
    fn only_the_user_and_those_who_may_do_everything_are_trusted() {
        let safe = [USER, SYSTEM, ADMINISTRATORS, OWNER[0], OWNER[1]];
        assert_eq!(access(USER, &safe).objection(USER), None);
        assert_eq!(access(ADMINISTRATORS, &safe).objection(USER), None);
        assert_eq!(
            access(OTHER, &[USER]).objection(USER),
            Some("belongs to another user")
        );
        let open = Some("can be changed by other users");
        assert_eq!(access(USER, &[USER, OTHER]).objection(USER), open);
        assert_eq!(Access::unlimited(USER.to_owned()).objection(USER), open);
    }

    #[test]
    fn a_private_directory_has_no_inherited_access() {
        assert_eq!(
            private_to(USER),
            format!("D:P(A;OICI;FA;;;{USER})(A;OICI;FA;;;S-1-5-18)(A;OICI;FA;;;S-1-5-32-544)")
        );
    }
}
