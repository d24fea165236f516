//! Describes the file and its file system.

use std::path::Path;

use rusqlite::Connection;

use super::config::Durability;
use super::file::system::{FileSystem, NETWORK_ADVICE};
use super::store::Sql;
use crate::backend::report::Finding;

/// Runs on the thread for reads, because a file system may be slow.
pub(super) fn findings(db: &Connection, durability: Durability) -> Sql<Vec<Finding>> {
    let path = db.path().unwrap_or_default();
    Ok(vec![
        Finding::ok(
            "server",
            format!("SQLite {}, embedded", rusqlite::version()),
        ),
        Finding::ok("file", path),
        judged(&FileSystem::of(Path::new(path))),
        persistence(durability),
    ])
}

fn persistence(durability: Durability) -> Finding {
    match durability {
        Durability::Full => Finding::ok("persistence", "durability is full"),
        Durability::Normal => Finding::ok("persistence", "durability is normal")
            .warning("a power cut can forget the last fences: use full where they matter"),
    }
}

fn judged(system: &FileSystem) -> Finding {
    let found = |value: &str| Finding::ok("file system", value);
    match system {
        FileSystem::Local => found("local"),
        FileSystem::Other => found("not known to be a network file system"),
        // The file could not be opened otherwise.
        FileSystem::Network(name) => {
            found(&format!("{name}, by allowNetworkFileSystem")).warning(NETWORK_ADVICE)
        }
        FileSystem::Fuse(name) => found(&format!("FUSE {name}"))
            .warning("if it is a network file system, hosts do not exclude each other on it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::report::Verdict;

    #[test]
    fn what_may_be_a_network_is_warned_of() {
        let network = judged(&FileSystem::Network("NFS".to_owned()));
        assert_eq!(network.verdict, Verdict::Warning);
        assert!(network.value.contains("NFS"));
        let fuse = judged(&FileSystem::Fuse("gocryptfs".to_owned()));
        assert_eq!(fuse.verdict, Verdict::Warning);
        for quiet in [FileSystem::Local, FileSystem::Other] {
            assert_eq!(judged(&quiet).verdict, Verdict::Ok);
        }
    }
}
