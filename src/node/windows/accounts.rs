//! The calls of Windows about accounts, and about who may change a file.

use std::ffi::{OsString, c_void};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_SUCCESS, GENERIC_ALL, GENERIC_WRITE, HANDLE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW,
    GetNamedSecurityInfoW, SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, GetAce, GetTokenInformation,
    OWNER_SECURITY_INFORMATION, PSID, SECURITY_ATTRIBUTES, TOKEN_IMPERSONATE, TOKEN_QUERY,
    TOKEN_USER, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateDirectoryW, DELETE, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_WRITE_ATTRIBUTES,
    FILE_WRITE_DATA, FILE_WRITE_EA, WRITE_DAC, WRITE_OWNER,
};
use windows_sys::Win32::System::Com::CoTaskMemFree;
use windows_sys::Win32::System::SystemServices::{
    ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE, MAXIMUM_ALLOWED,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows_sys::Win32::UI::Shell::{FOLDERID_LocalAppData, SHGetKnownFolderPath};

use crate::backend::sqlite::accounts::Access;

/// All rights that allow an account to change a file or directory, or its permissions.
const WRITE: u32 = FILE_WRITE_DATA
    | FILE_APPEND_DATA
    | FILE_WRITE_EA
    | FILE_WRITE_ATTRIBUTES
    | FILE_DELETE_CHILD
    | DELETE
    | WRITE_DAC
    | WRITE_OWNER
    | GENERIC_WRITE
    | GENERIC_ALL
    | MAXIMUM_ALLOWED;

/// The SID of the account that this process runs as.
pub(super) fn user() -> io::Result<String> {
    let token = Token::of_this_process(TOKEN_QUERY)?;
    // The buffer has room for the structure and the longest SID behind it, and is aligned for pointers.
    let mut answer = [0u64; 16];
    let size = size_of_val(&answer) as u32;
    let mut written = 0;
    // SAFETY: the token is open, and the buffer has the size that is passed.
    check(unsafe {
        let answer = answer.as_mut_ptr().cast();
        GetTokenInformation(token.0, TokenUser, answer, size, &raw mut written)
    })?;
    // SAFETY: Windows has put this structure at the start of the buffer, whose alignment suffices;
    // its pointer goes into the same buffer.
    unsafe { text_of((*answer.as_ptr().cast::<TOKEN_USER>()).User.Sid) }
}

/// The folder for the data of local applications of the account that this process runs as. It is
/// found by the token: without one Windows would consult the environment.
pub(super) fn local_data() -> io::Result<PathBuf> {
    let token = Token::of_this_process(TOKEN_QUERY | TOKEN_IMPERSONATE)?;
    let mut text = null_mut();
    // SAFETY: the token is open, the result goes into a variable of ours.
    let result = unsafe { SHGetKnownFolderPath(&FOLDERID_LocalAppData, 0, token.0, &raw mut text) };
    let folder = if result >= 0 && !text.is_null() {
        // SAFETY: Windows has made this text, which ends with a zero.
        Ok(PathBuf::from(OsString::from_wide(unsafe {
            units_of(text)
        })))
    } else {
        Err(io::Error::from_raw_os_error(result))
    };
    // SAFETY: it is ours, also after a failure, and not used again.
    unsafe { CoTaskMemFree(text.cast()) };
    folder
}

struct Token(HANDLE);

impl Token {
    fn of_this_process(rights: u32) -> io::Result<Self> {
        let mut token: HANDLE = null_mut();
        // SAFETY: the first handle is always valid, the second is written to a variable of ours.
        check(unsafe { OpenProcessToken(GetCurrentProcess(), rights, &raw mut token) })?;
        Ok(Self(token))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: it is ours and not used again.
        unsafe { CloseHandle(self.0) };
    }
}

pub(super) fn make_directory(path: &Path, descriptor: &str) -> io::Result<()> {
    let text: Vec<u16> = descriptor.encode_utf16().chain([0]).collect();
    let mut parsed = null_mut();
    // SAFETY: the text ends with a zero, the result goes into a variable of ours.
    check(unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            text.as_ptr(),
            SDDL_REVISION_1,
            &raw mut parsed,
            null_mut(),
        )
    })?;
    let parsed = Local(parsed);
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: parsed.0,
        bInheritHandle: 0,
    };
    // SAFETY: the path ends with a zero, and the descriptor lives until the call is over.
    check(unsafe { CreateDirectoryW(wide(path).as_ptr(), &raw const attributes) })
}

pub(super) fn access(path: &Path) -> io::Result<Access> {
    let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the path ends with a zero, the results go into variables of ours.
    let code = unsafe {
        GetNamedSecurityInfoW(
            wide(path).as_ptr(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            &raw mut list,
            null_mut(),
            &raw mut descriptor,
        )
    };
    if code != ERROR_SUCCESS {
        return Err(io::Error::from_raw_os_error(code.cast_signed()));
    }
    let _descriptor = Local(descriptor);
    // SAFETY: both point into the descriptor, which is still there.
    unsafe {
        let owner = text_of(owner)?;
        if list.is_null() {
            return Ok(Access::unlimited(owner));
        }
        let writers = writers(list)?;
        Ok(Access { owner, writers })
    }
}

/// # Safety
/// The list must be a valid one.
unsafe fn writers(list: *const ACL) -> io::Result<Vec<String>> {
    let mut writers = Vec::new();
    // SAFETY: as the caller promises. An entry lies within the list, begins with a header that
    // tells its kind, and the SID of one that allows is at the end of it.
    unsafe {
        for index in 0..u32::from((*list).AceCount) {
            let mut entry: *mut c_void = null_mut();
            check(GetAce(list, index, &raw mut entry))?;
            match u32::from((*entry.cast::<ACE_HEADER>()).AceType) {
                ACCESS_DENIED_ACE_TYPE => {}
                ACCESS_ALLOWED_ACE_TYPE => {
                    let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
                    if (*entry).Mask & WRITE != 0 {
                        writers.push(text_of((&raw mut (*entry).SidStart).cast())?);
                    }
                }
                // Ordinary files have no other entries. An unknown one counts as a writer.
                kind => writers.push(format!("an entry of kind {kind}")),
            }
        }
    }
    Ok(writers)
}

/// # Safety
/// The SID must be a valid one.
unsafe fn text_of(sid: PSID) -> io::Result<String> {
    let mut text = null_mut();
    // SAFETY: as the caller promises; the result goes into a variable of ours.
    check(unsafe { ConvertSidToStringSidW(sid, &raw mut text) })?;
    let _text = Local(text.cast());
    // SAFETY: Windows has made this text, which ends with a zero.
    Ok(String::from_utf16_lossy(unsafe { units_of(text) }))
}

/// # Safety
/// The text must end with a zero, and outlive what is returned.
unsafe fn units_of<'a>(text: *const u16) -> &'a [u16] {
    // SAFETY: as the caller promises.
    unsafe {
        let length = (0..).take_while(|&index| *text.add(index) != 0).count();
        std::slice::from_raw_parts(text, length)
    }
}

/// Memory that Windows has allocated for us.
struct Local(*mut c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: it is ours and not used again.
        unsafe { LocalFree(self.0) };
    }
}

fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

fn check(succeeded: i32) -> io::Result<()> {
    match succeeded {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
