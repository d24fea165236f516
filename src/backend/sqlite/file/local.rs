//! Whether a file is on a disk of this machine. Elsewhere (a network, a program that serves a file
//! system) every access may take as long as it likes.

use std::path::Path;

/// Those that are known to be: not for what is in a kernel without being one of them.
#[cfg(target_os = "linux")]
pub(super) fn is_local(path: &Path) -> bool {
    const BCACHEFS: u32 = 0xca45_1a4e;
    const BTRFS: u32 = 0x9123_683e;
    const EXT: u32 = 0xef53;
    const F2FS: u32 = 0xf2f5_2010;
    const OVERLAY: u32 = 0x794c_7630;
    const TMPFS: u32 = 0x0102_1994;
    const XFS: u32 = 0x5846_5342;
    const ZFS: u32 = 0x2fc1_2fc1;
    rustix::fs::statfs(path).is_ok_and(|system| {
        [BCACHEFS, BTRFS, EXT, F2FS, OVERLAY, TMPFS, XFS, ZFS].contains(&(system.f_type as u32))
    })
}

#[cfg(target_vendor = "apple")]
pub(super) fn is_local(path: &Path) -> bool {
    const MNT_LOCAL: u32 = 0x1000;
    rustix::fs::statfs(path).is_ok_and(|system| system.f_flags & MNT_LOCAL != 0)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn is_local(_: &Path) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_directory_for_tests_is_and_what_the_kernel_makes_up_is_not() {
        assert!(is_local(&std::env::temp_dir()));
        assert!(!is_local(Path::new("/proc/version")));
        assert!(!is_local(Path::new("/nowhere/at/all")));
    }
}
