//! The kind of file system that a file is on.
//!
//! SQLite's WAL needs memory that all processes share, and file locks that work. A network file system has
//! neither between hosts, and an access to it may take any time.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Why a network file system is refused. `doctor` says the same.
pub(crate) const NETWORK_ADVICE: &str = "a network file system cannot hold the locks of several hosts: use a local disk, or another backend";

#[derive(Debug, Clone, PartialEq, Eq)]
// Some systems do not report all of these.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum FileSystem {
    /// A disk or the memory of this machine: every access is quick.
    Local,
    Network(String),
    /// A file system that a program serves, which may use a network.
    Fuse(String),
    /// Any other one of the kernel that uses no network, or one that the system tells nothing about.
    Other,
}

impl FileSystem {
    /// Returns the file system of an existing file or directory.
    fn of_existing(path: &Path) -> Self {
        #[cfg(test)]
        if let Some(faked) = tests::faked(path) {
            return faked;
        }
        detect(path)
    }

    /// Returns the file system that a file is on or would be created on. Symbolic links are followed, even
    /// if they lead to a file that does not exist yet.
    pub(crate) fn of(path: &Path) -> Self {
        let file = followed(path);
        match fs::metadata(&file) {
            Ok(_) => Self::of_existing(&file),
            Err(_) => file.parent().map_or(Self::Other, Self::of_existing),
        }
    }

    /// Whether processes of this host certainly exclude each other here.
    pub(crate) fn is_on_this_host(&self) -> bool {
        matches!(self, Self::Local | Self::Other)
    }
}

/// Returns the file system of the file. Refuses a network file system, unless it is `permitted`.
pub(super) fn check(path: &Path, permitted: bool) -> Result<FileSystem> {
    match FileSystem::of(path) {
        FileSystem::Network(name) if !permitted => Err(Error::invalid_argument(format!(
            "The lock file {} is on {name}: {NETWORK_ADVICE}. If only processes of this host use the file, allowNetworkFileSystem: true permits it",
            path.display()
        ))),
        system => Ok(system),
    }
}

/// The number of symbolic links that Linux follows.
const MAX_LINKS: usize = 40;

fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match (fs::read_link(&path), path.parent()) {
            (Ok(target), Some(parent)) => path = parent.join(target),
            _ => break,
        }
    }
    path
}

#[cfg(target_os = "linux")]
fn detect(path: &Path) -> FileSystem {
    let Ok(found) = rustix::fs::statfs(path) else {
        return FileSystem::Other;
    };
    // Its type differs from one platform to the next; the numbers have 32 bits.
    match found.f_type as u32 {
        FUSE => of_fuse(&mounted_type(path).unwrap_or_default()),
        magic => of_magic(magic),
    }
}

#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// Recognizes the numbers in `linux/magic.h` and in the sources of file systems that it lacks.
#[cfg(target_os = "linux")]
fn of_magic(magic: u32) -> FileSystem {
    let network = |name: &str| FileSystem::Network(name.to_owned());
    match magic {
        0x6969 => network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => network("SMB"),
        0x5346_414f | 0x6b41_4653 => network("AFS"),
        0x7375_7245 => network("Coda"),
        0x564c => network("NCP"),
        0x0102_1997 => network("9P"),
        0x00c3_6400 => network("Ceph"),
        0x0bd0_0bd0 => network("Lustre"),
        0x4750_4653 => network("GPFS"),
        0x1983_0326 => network("BeeGFS"),
        0x2003_0528 => network("OrangeFS"),
        0xaad7_aaea => network("PanFS"),
        0x0116_1970 => network("GFS2"),
        0x7461_636f => network("OCFS2"),
        0x786f_4256 => network("a VirtualBox shared folder"),
        0xbacb_acbc => network("a VMware shared folder"),
        0x7c7c_6673 => network("a Parallels shared folder"),
        // bcachefs, Btrfs, ext2 to ext4, F2FS, overlayfs, tmpfs, XFS, ZFS
        0xca45_1a4e | 0x9123_683e | 0xef53 | 0xf2f5_2010 | 0x794c_7630 | 0x0102_1994
        | 0x5846_5342 | 0x2fc1_2fc1 => FileSystem::Local,
        _ => FileSystem::Other,
    }
}

/// Recognizes the type in the table of mounts, such as `fuse.sshfs`.
#[cfg(target_os = "linux")]
fn of_fuse(kind: &str) -> FileSystem {
    const NETWORKS: [&str; 24] = [
        "afpfs",
        "blobfuse",
        "blobfuse2",
        "ceph",
        "ceph-fuse",
        "cifs",
        "curlftpfs",
        "davfs",
        "davfs2",
        "gcsfuse",
        "glusterfs",
        "goofys",
        "grpcfuse",
        "juicefs",
        "lizardfs",
        "mfs",
        "mountpoint-s3",
        "osxfs",
        "rclone",
        "s3fs",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
        "vmhgfs-fuse",
    ];
    let name = kind.strip_prefix("fuse.").unwrap_or(kind);
    if NETWORKS.contains(&name) {
        FileSystem::Network(name.to_owned())
    } else if kind == "fuseblk" {
        // A file system on a block device, such as NTFS.
        FileSystem::Other
    } else {
        FileSystem::Fuse(name.to_owned())
    }
}

/// Returns the type of the file system in the table of mounts.
#[cfg(target_os = "linux")]
fn mounted_type(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(path).ok()?.dev();
    let wanted = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    type_of(&fs::read_to_string("/proc/self/mountinfo").ok()?, &wanted)
}

/// A line is `36 35 0:98 /root /mount/point options … - type source options`.
#[cfg(target_os = "linux")]
fn type_of(mountinfo: &str, device: &str) -> Option<String> {
    mountinfo
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(device))
        .find_map(|line| line.split_once(" - ")?.1.split(' ').next())
        .map(str::to_owned)
}

#[cfg(target_vendor = "apple")]
fn detect(path: &Path) -> FileSystem {
    const MNT_LOCAL: u32 = 0x1000;
    let Ok(found) = rustix::fs::statfs(path) else {
        return FileSystem::Other;
    };
    let name: Vec<u8> = found
        .f_fstypename
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    match name.as_str() {
        "macfuse" | "osxfuse" => FileSystem::Fuse(name),
        _ if found.f_flags & MNT_LOCAL != 0 => FileSystem::Local,
        _ => FileSystem::Network(name),
    }
}

/// A path with a host in it is a share. The path of a drive letter shows its host once it is resolved.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn detect(path: &Path) -> FileSystem {
    use std::path::{Component, Prefix};
    let is_share = |path: &Path| {
        path.components().next().is_some_and(|first| {
            matches!(first, Component::Prefix(prefix)
                if matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..)))
        })
    };
    if is_share(path) || fs::canonicalize(path).is_ok_and(|resolved| is_share(&resolved)) {
        FileSystem::Network("a network share".to_owned())
    } else {
        FileSystem::Other
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;

    static FAKED: Mutex<Vec<(PathBuf, FileSystem)>> = Mutex::new(Vec::new());

    /// Pretends that everything below this directory is on that file system. Mounting a real network file
    /// system takes a server and rights that tests do not have.
    pub(crate) fn fake(directory: &Path, system: FileSystem) {
        let mut faked = FAKED.lock();
        faked.push((fs::canonicalize(directory).unwrap(), system));
    }

    pub(super) fn faked(path: &Path) -> Option<FileSystem> {
        let path = fs::canonicalize(path).ok()?;
        let faked = FAKED.lock();
        faked
            .iter()
            .find(|(directory, _)| path.starts_with(directory))
            .map(|(_, system)| system.clone())
    }

    #[cfg(unix)]
    fn network(name: &str) -> FileSystem {
        FileSystem::Network(name.to_owned())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_are_recognized_by_their_numbers() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x0102_1997, "9P"),
            (0x00c3_6400, "Ceph"),
        ] {
            assert_eq!(of_magic(magic), network(name));
        }
        // ext4, tmpfs, overlayfs
        for magic in [0xef53, 0x0102_1994, 0x794c_7630] {
            assert_eq!(of_magic(magic), FileSystem::Local);
        }
        // exFAT
        assert_eq!(of_magic(0x2011_bab0), FileSystem::Other);
        assert_eq!(detect(&std::env::temp_dir()), FileSystem::Local);
        assert_eq!(detect(Path::new("/proc/version")), FileSystem::Other);
        assert_eq!(detect(Path::new("/nowhere/at/all")), FileSystem::Other);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn fuse_file_systems_are_recognized_by_their_mounts() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                      36 22 0:98 / /mnt/a\\040b rw shared:1 master:2 - fuse.sshfs me@host: rw\n\
                      37 22 0:9 / /mnt/c rw - fuse.gocryptfs /c rw\n";
        let kind = |device| type_of(mounts, device);
        assert_eq!(kind("0:98").as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind("0:9").as_deref(), Some("fuse.gocryptfs"));
        assert_eq!(kind("0:1"), None);
        assert_eq!(of_fuse("fuse.sshfs"), network("sshfs"));
        assert_eq!(of_fuse("fuse.rclone"), network("rclone"));
        assert_eq!(
            of_fuse("fuse.gocryptfs"),
            FileSystem::Fuse("gocryptfs".to_owned())
        );
        assert_eq!(of_fuse(""), FileSystem::Fuse(String::new()));
        assert_eq!(of_fuse("fuseblk"), FileSystem::Other);
        // The root is always mounted.
        assert!(mounted_type(Path::new("/")).is_some());
    }

    #[cfg(unix)]
    #[test]
    fn a_network_file_system_is_refused_even_behind_a_link() {
        use crate::backend::sqlite::tests::TestDir;
        use crate::error::ErrorCode;

        let dir = TestDir::new();
        let mount = dir.path().join("mount");
        fs::create_dir(&mount).unwrap();
        fake(&mount, network("NFS"));
        let link = dir.path().join("link.db");
        std::os::unix::fs::symlink("mount/not-there-yet.db", &link).unwrap();
        for path in [mount.join("locks.db"), link] {
            assert_eq!(check(&path, true), Ok(network("NFS")));
            let error = check(&path, false).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
            for part in [
                "is on NFS",
                NETWORK_ADVICE,
                "allowNetworkFileSystem",
                path.to_str().unwrap(),
            ] {
                assert!(error.message.contains(part), "{}", error.message);
            }
        }
        check(&dir.file(), false).unwrap();

        let served = dir.path().join("served");
        fs::create_dir(&served).unwrap();
        fake(&served, FileSystem::Fuse("gocryptfs".to_owned()));
        check(&served.join("locks.db"), false).unwrap();
    }
}
