//! What the file is like, and what it lies on.

use std::path::Path;

use rusqlite::Connection;

use super::config::Durability;
use super::store::Sql;
use crate::backend::report::Finding;

/// On the thread that reads: a file system may take its time.
pub(super) fn findings(db: &Connection, durability: Durability) -> Sql<Vec<Finding>> {
    let path = db.path().unwrap_or_default();
    Ok(Ok(vec![
        Finding::ok(
            "server",
            format!("SQLite {}, embedded", rusqlite::version()),
        ),
        Finding::ok("file", path),
        judged(file_system(Path::new(path))),
        persistence(durability),
    ]))
}

fn persistence(durability: Durability) -> Finding {
    match durability {
        Durability::Full => Finding::ok("persistence", "durability is full"),
        Durability::Normal => Finding::ok("persistence", "durability is normal")
            .warning("a power cut can forget the last fences: use full where they matter"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Elsewhere only a share is recognised.
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), allow(dead_code))]
enum FileSystem {
    Local,
    Network(&'static str),
    /// It may be either.
    Fuse,
    Unknown,
}

fn judged(file_system: FileSystem) -> Finding {
    let found = |value: &str| Finding::ok("file system", value);
    match file_system {
        FileSystem::Local => found("local"),
        FileSystem::Network(name) => found(name).error(
            "a network file system cannot hold the locks of several hosts: use a local disk, or \
             another backend",
        ),
        FileSystem::Fuse => found("FUSE")
            .warning("if it is a network file system, hosts do not exclude each other on it"),
        FileSystem::Unknown => found("not known on this system"),
    }
}

/// By the numbers in `linux/magic.h` and in the sources of those that are not there.
#[cfg(target_os = "linux")]
fn file_system(path: &Path) -> FileSystem {
    let Ok(found) = rustix::fs::statfs(path) else {
        return FileSystem::Unknown;
    };
    // Its type differs from one platform to the next; the numbers have 32 bits.
    of_magic(found.f_type as u32)
}

#[cfg(target_os = "linux")]
fn of_magic(magic: u32) -> FileSystem {
    match magic {
        0x6969 => FileSystem::Network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::Network("SMB"),
        0x5346_414f | 0x6b41_4653 => FileSystem::Network("AFS"),
        0x7375_7245 => FileSystem::Network("Coda"),
        0x564c => FileSystem::Network("NCP"),
        0x0102_1997 => FileSystem::Network("9P"),
        0x00c3_6400 => FileSystem::Network("Ceph"),
        0x0bd0_0bd0 => FileSystem::Network("Lustre"),
        0x4750_4653 => FileSystem::Network("GPFS"),
        0x0116_1970 => FileSystem::Network("GFS2"),
        0x7461_636f => FileSystem::Network("OCFS2"),
        0x786f_4256 => FileSystem::Network("VirtualBox shared folder"),
        0xbacb_acbc => FileSystem::Network("VMware shared folder"),
        0x6573_5546 => FileSystem::Fuse,
        _ => FileSystem::Local,
    }
}

#[cfg(target_os = "macos")]
fn file_system(path: &Path) -> FileSystem {
    let Ok(found) = rustix::fs::statfs(path) else {
        return FileSystem::Unknown;
    };
    let name: Vec<u8> = found
        .f_fstypename
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    match name.as_slice() {
        b"nfs" => FileSystem::Network("NFS"),
        b"smbfs" => FileSystem::Network("SMB"),
        b"afpfs" => FileSystem::Network("AFP"),
        b"webdav" => FileSystem::Network("WebDAV"),
        b"macfuse" | b"osxfuse" => FileSystem::Fuse,
        _ => FileSystem::Local,
    }
}

/// A path with a host in it is a share.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn file_system(path: &Path) -> FileSystem {
    use std::path::{Component, Prefix};
    let shared = path.components().next().is_some_and(|first| {
        matches!(first, Component::Prefix(prefix)
            if matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..)))
    });
    if shared {
        FileSystem::Network("a share")
    } else {
        FileSystem::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::report::Verdict;

    #[test]
    fn a_network_file_system_is_refused() {
        let refused = judged(FileSystem::Network("NFS"));
        assert_eq!(
            (refused.verdict, refused.value.as_str()),
            (Verdict::Error, "NFS")
        );
        assert_eq!(judged(FileSystem::Fuse).verdict, Verdict::Warning);
        assert_eq!(judged(FileSystem::Local).verdict, Verdict::Ok);
        assert_eq!(judged(FileSystem::Unknown).verdict, Verdict::Ok);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_by_their_numbers() {
        assert_eq!(of_magic(0x6969), FileSystem::Network("NFS"));
        assert_eq!(of_magic(0xff53_4d42), FileSystem::Network("SMB"));
        assert_eq!(of_magic(0x6573_5546), FileSystem::Fuse);
        // ext4, tmpfs, overlayfs
        for local in [0xef53, 0x0102_1994, 0x794c_7630] {
            assert_eq!(of_magic(local), FileSystem::Local);
        }
        assert_eq!(file_system(Path::new("/proc/self/stat")), FileSystem::Local);
        assert_eq!(
            file_system(Path::new("/nowhere/at/all")),
            FileSystem::Unknown
        );
    }
}
