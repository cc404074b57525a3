//! Finding and loading the library.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::bindings::{FI_MAJOR_VERSION, FI_MINOR_VERSION, fi_fabric_attr, fi_info, fid_fabric};
use crate::dispositions::Dispositions;

/// Why libfabric cannot be used, or did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibfabricError {
    /// The library is not there, or the loader refuses it.
    #[error("{library} cannot be loaded: {reason}")]
    NotLoaded {
        /// What was looked for.
        library: String,
        /// What the loader said.
        reason: String,
    },
    /// The library has no interface that this code was made for.
    #[error("{library}{} has no `{symbol}` of {wanted}", of_version(*version))]
    NotFitting {
        /// What was loaded.
        library: String,
        /// Its version; one that tells none is no libfabric.
        version: Option<Version>,
        /// The function that is missing.
        symbol: &'static str,
        /// The version of the function's interface.
        wanted: &'static str,
    },
    /// A call came back with an error.
    #[error("{call} answered {code} ({text})")]
    Refused {
        /// The function of libfabric.
        call: &'static str,
        /// Its answer, a positive number.
        code: i32,
        /// Its answer in the library's words.
        text: String,
    },
}

/// A version of the library's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes rarely.
    pub major: u32,
    /// Changes twice a year.
    pub minor: u32,
}

impl Version {
    /// The version of the headers that the bindings were made of.
    pub const OF_BINDINGS: Version = Version { major: FI_MAJOR_VERSION, minor: FI_MINOR_VERSION };

    /// As C writes it, `FI_VERSION(major, minor)`.
    #[must_use]
    pub fn encode(self) -> u32 {
        self.major << 16 | self.minor
    }

    fn decode(version: u32) -> Version {
        Version { major: version >> 16, minor: version & 0xffff }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The functions that the library has as such. All others are in tables of the objects that it makes.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    pub(crate) getinfo: GetInfo,
    pub(crate) freeinfo: FreeInfo,
    pub(crate) dupinfo: DupInfo,
    pub(crate) fabric: OpenFabric,
    pub(crate) version: GetVersion,
    pub(crate) strerror: StrError,
}

impl Library {
    /// Loads the library called `name`, a path or a soname; [`SONAME`] is the usual one. It is never
    /// unloaded: providers have threads. What signals do in this process stays as it is.
    ///
    /// # Errors
    /// [`LibfabricError::NotLoaded`], [`LibfabricError::NotFitting`].
    pub fn load(name: &OsStr) -> Result<Library, LibfabricError> {
        let library = name.to_string_lossy().into_owned();
        let path = CString::new(name.as_bytes()).map_err(|_| LibfabricError::NotLoaded {
            library: library.clone(),
            reason: "its name holds a zero byte".to_owned(),
        })?;
        let dispositions = Dispositions::keep();
        // SAFETY: the path is a text; whoever names the library vouches for what its constructors do.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        drop(dispositions);
        if handle.is_null() {
            let said = loader_said();
            let reason = said.strip_prefix(&format!("{library}: ")).map(str::to_owned).unwrap_or(said);
            return Err(LibfabricError::NotLoaded { library, reason });
        }
        let mut found = Loaded { handle, library, version: None };
        let version: GetVersion = found.take(c"fi_version", c"FABRIC_1.0")?;
        // SAFETY: the function takes nothing and may be called at any time.
        found.version = Some(Version::decode(unsafe { version() }));
        // The interface of each as it was in the version of the headers. Layouts of what these functions hand
        // out have changed since, and a newer library has the old ones under their old versions only.
        Ok(Library {
            getinfo: found.take(c"fi_getinfo", c"FABRIC_1.3")?,
            freeinfo: found.take(c"fi_freeinfo", c"FABRIC_1.3")?,
            dupinfo: found.take(c"fi_dupinfo", c"FABRIC_1.3")?,
            fabric: found.take(c"fi_fabric", c"FABRIC_1.1")?,
            strerror: found.take(c"fi_strerror", c"FABRIC_1.0")?,
            version,
        })
    }

    /// The library's version.
    #[must_use]
    pub fn version(&self) -> Version {
        // SAFETY: the function takes nothing and may be called at any time.
        Version::decode(unsafe { (self.version)() })
    }

    /// The file that the library was loaded from, as far as the loader tells.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the address is only looked up, and there is room for the answer.
        let answer = unsafe { libc::dladdr(self.version as *const c_void, found.as_mut_ptr()) };
        // SAFETY: zeros are a value, over which the loader has written one.
        let found = unsafe { found.assume_init() };
        if answer == 0 || found.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(text_at(found.dli_fname)))
    }

    /// The version to speak: that of the bindings, or an older library's own.
    pub(crate) fn spoken(&self) -> Version {
        self.version().min(Version::OF_BINDINGS)
    }

    /// An answer in the library's words.
    #[must_use]
    pub fn text(&self, code: i32) -> String {
        // SAFETY: the function may be called with any number and answers a text that stays.
        text_at(unsafe { (self.strerror)(code.saturating_abs()) })
    }

    /// Ok for zero and what is above, [`LibfabricError::Refused`] for the negative of an error's number.
    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<c_int, LibfabricError> {
        if answer >= 0 { Ok(answer) } else { Err(self.refused(call, answer)) }
    }

    #[cold]
    pub(crate) fn refused(&self, call: &'static str, answer: c_int) -> LibfabricError {
        LibfabricError::Refused { call, code: answer.saturating_abs(), text: self.text(answer) }
    }
}

/// The library's name on every Linux.
pub const SONAME: &str = "libfabric.so.1";

/// A library whose functions are being looked up.
struct Loaded {
    handle: *mut c_void,
    library: String,
    version: Option<Version>,
}

impl Loaded {
    /// The address of a function, as a pointer of type `F`, which must be the function's.
    fn take<F: Function>(&self, symbol: &'static CStr, wanted: &'static CStr) -> Result<F, LibfabricError> {
        // SAFETY: the handle is open, and both are texts.
        let address = unsafe { libc::dlvsym(self.handle, symbol.as_ptr(), wanted.as_ptr()) };
        if address.is_null() {
            return Err(LibfabricError::NotFitting {
                library: self.library.clone(),
                version: self.version,
                symbol: symbol.to_str().unwrap_or_default(),
                wanted: wanted.to_str().unwrap_or_default(),
            });
        }
        // SAFETY: `Function` is a pointer to a function, which has the size of an address; that the function
        // of this name and version has that type is what `TYPES` below checks against the bindings.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// Pointers to the functions that are looked up.
trait Function: Copy {}
impl Function for GetInfo {}
impl Function for FreeInfo {}
impl Function for DupInfo {}
impl Function for OpenFabric {}
impl Function for GetVersion {}
impl Function for StrError {}

pub(crate) type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
pub(crate) type FreeInfo = unsafe extern "C" fn(*mut fi_info);
pub(crate) type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
pub(crate) type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
pub(crate) type GetVersion = unsafe extern "C" fn() -> u32;
pub(crate) type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

/// The types above are those of the header. Nothing of this is called, nor linked.
const _: () = {
    use crate::bindings as header;
    let _: GetInfo = header::fi_getinfo;
    let _: FreeInfo = header::fi_freeinfo;
    let _: DupInfo = header::fi_dupinfo;
    let _: OpenFabric = header::fi_fabric;
    let _: GetVersion = header::fi_version;
    let _: StrError = header::fi_strerror;
};

/// Text of the library; empty where there is none.
pub(crate) fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the library's texts end with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn of_version(version: Option<Version>) -> String {
    version.map_or_else(|| " is no libfabric: it".to_owned(), |version| format!(", of version {version},"))
}

fn loader_said() -> String {
    // SAFETY: called on the thread whose `dlopen` failed; the text is copied at once.
    text_at(unsafe { libc::dlerror() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = Library::load(OsStr::new("libnothing-of-this-name.so.9")).unwrap_err();
        assert!(matches!(error, LibfabricError::NotLoaded { .. }));
        assert!(error.to_string().contains("libnothing-of-this-name.so.9 cannot be loaded"), "{error}");
        let error = Library::load(OsStr::new("a\0b")).unwrap_err().to_string();
        assert!(error.contains("zero byte"), "{error}");
    }

    #[test]
    fn a_library_that_is_another_is_told() {
        let error = Library::load(OsStr::new("libc.so.6")).unwrap_err();
        assert!(
            matches!(error, LibfabricError::NotFitting { symbol: "fi_version", version: None, .. }),
            "{error}"
        );
        assert_eq!(error.to_string(), "libc.so.6 is no libfabric: it has no `fi_version` of FABRIC_1.0");
    }

    /// Libraries as they were before each of the interfaces that are used, newest first, and what each lacks.
    const OLDER: [(&str, &str, &str); 4] = [
        ("FABRIC_1.0 { fi_version; fi_strerror; }; FABRIC_1.1 { fi_fabric; };", "fi_getinfo", "FABRIC_1.3"),
        ("FABRIC_1.0 { fi_version; fi_strerror; }; FABRIC_1.2 { fi_getinfo; };", "fi_getinfo", "FABRIC_1.3"),
        ("FABRIC_1.0 { fi_version; }; FABRIC_1.3 { fi_getinfo; };", "fi_freeinfo", "FABRIC_1.3"),
        ("FABRIC_1.7 { fi_version; };", "fi_version", "FABRIC_1.0"),
    ];

    #[test]
    fn a_library_that_lacks_a_version_of_a_function_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for (number, (versions, symbol, wanted)) in OLDER.into_iter().enumerate() {
            let Some(library) = compile(folder.path(), number, versions) else { return };
            let error = Library::load(library.as_os_str()).unwrap_err();
            let expected = LibfabricError::NotFitting {
                library: library.to_string_lossy().into_owned(),
                version: (symbol != "fi_version").then_some(Version { major: 1, minor: 4 }),
                symbol,
                wanted,
            };
            assert_eq!(error, expected, "{versions}");
            let text = error.to_string();
            assert!(text.contains(&format!("has no `{symbol}` of {wanted}")), "{text}");
            assert!(symbol == "fi_version" || text.contains(", of version 1.4, has"), "{text}");
        }
    }

    /// A library that says to be libfabric 1.4, with these functions under these versions; `None` without a C
    /// compiler.
    fn compile(folder: &Path, number: usize, versions: &str) -> Option<PathBuf> {
        let [source, script, library] =
            ["c", "map", "so"].map(|ending| folder.join(format!("older{number}.{ending}")));
        let functions: String = ["fi_strerror", "fi_fabric", "fi_getinfo"]
            .map(|name| format!("int {name}(void) {{ return 0; }}\n"))
            .concat();
        std::fs::write(&source, format!("unsigned fi_version(void) {{ return 1 << 16 | 4; }}\n{functions}"))
            .unwrap();
        std::fs::write(&script, format!("{versions}\nREST {{ local: *; }};\n")).unwrap();
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-shared", "-fPIC"]).arg(format!("-Wl,--version-script={}", script.display()));
        let Ok(output) = compiler.arg("-o").arg(&library).arg(&source).output() else {
            println!("LEFT OUT: there is no C compiler here");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(library)
    }

    #[test]
    fn the_file_of_a_library_is_told() {
        let name = std::env::var_os("WEFT_LIBFABRIC").unwrap_or_else(|| SONAME.into());
        let Ok(library) = Library::load(&name) else {
            println!("LEFT OUT: there is no libfabric here (libfabric1)");
            return;
        };
        let path = library.path().unwrap();
        assert!(path.is_absolute() && path.exists(), "{}", path.display());
    }
}
