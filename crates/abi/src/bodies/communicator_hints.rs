//! Hints of communicators (MPI 5.0 §7.4.4).
//!
//! What a program asserts is kept and told, and nothing is made faster by it yet: weft keeps to what the
//! assertion would allow it to give up. Hints that are not known are not kept, as the standard asks. What
//! becomes of a communicator that loses members may be said so as well.

use std::ffi::c_int;

use weft::{Class, Communicator, Error, ErrorRange, FtMode, FtModes, MessageMode, Result, Stencil};

use crate::bodies::info::{self, Pairs};
use crate::claims::Place;
use crate::entry::Target;
use crate::objects::{CommObject, lock};
use crate::state::call;
use crate::types::*;

/// The hints that are known and well-formed, of those that are given.
fn known(given: &Pairs) -> Result<Pairs> {
    let mut hints = Pairs::default();
    for key in ASSERTIONS {
        let Some(value) = given.value(key) else { continue };
        if !matches!(value, b"true" | b"false") {
            let what = format!("{key} is \"{}\", not true or false", String::from_utf8_lossy(value));
            return Err(Error::new(Class::InfoValue, what));
        }
        hints.set(key.as_bytes(), value);
    }
    if let Some(text) = given.value(STENCIL) {
        check_stencil(&String::from_utf8_lossy(text))?;
        hints.set(STENCIL.as_bytes(), text);
    }
    Ok(hints)
}

fn unknown(key: &str, name: &str, known: &str) -> Error {
    Error::new(Class::InfoValue, format!("{key} is \"{name}\"")).remedy(format!("there are {known}"))
}

/// The modes that are given, beside those that a communicator has.
fn modes(given: &Pairs, before: FtModes) -> Result<FtModes> {
    let mut modes = before;
    if let Some(name) = given.value(COMM_MODE).map(String::from_utf8_lossy) {
        let known = "none, abort, blank, shrink and rebuild";
        modes.comm = FtMode::named(&name).ok_or_else(|| unknown(COMM_MODE, &name, known))?;
    }
    if let Some(name) = given.value(MESSAGE_MODE).map(String::from_utf8_lossy) {
        modes.messages =
            MessageMode::named(&name).ok_or_else(|| unknown(MESSAGE_MODE, &name, "reset and cont"))?;
    }
    Ok(modes)
}

/// How far failures are to reach, where that is said.
fn range(given: &Pairs) -> Result<Option<ErrorRange>> {
    let Some(name) = given.value(RANGE).map(String::from_utf8_lossy) else { return Ok(None) };
    let range = ErrorRange::named(&name);
    range.map(Some).ok_or_else(|| unknown(RANGE, &name, "local, group and universe"))
}

/// The hints of a communicator as it is now. Of what becomes of it when processes fail that is told which is
/// not so where nobody says anything.
fn used(object: &CommObject) -> Pairs {
    let mut hints = lock(&object.hints).clone();
    let FtModes { comm, messages, .. } = object.comm.ft_modes();
    if comm != FtModes::NONE.comm {
        hints.set(COMM_MODE.as_bytes(), comm.name().as_bytes());
    }
    if messages != FtModes::NONE.messages {
        hints.set(MESSAGE_MODE.as_bytes(), messages.name().as_bytes());
    }
    let range = object.comm.error_range();
    if range != ErrorRange::Local {
        hints.set(RANGE.as_bytes(), range.name().as_bytes());
    }
    hints
}

/// A stencil must be one for some number of axes: it is not known yet what grids will be made.
fn check_stencil(text: &str) -> Result<()> {
    let read = |axes| Stencil::parse(text, axes);
    if (1..=AXES_MAX).any(|axes| read(axes).is_ok()) {
        return Ok(());
    }
    let why = read(2).err().map(|error| error.to_string()).unwrap_or_default();
    Err(Error::new(Class::InfoValue, format!("{STENCIL}: {why}")))
}

/// The stencil that was hinted at.
pub(crate) fn stencil_of(object: &CommObject) -> Option<String> {
    lock(&object.hints).value(STENCIL).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Whether hints may be given to a communicator that is about to be made.
pub(crate) fn check(info: MPI_Info) -> Result<()> {
    let given = info::pairs(info)?;
    modes(&given, FtModes::NONE)?;
    range(&given)?;
    known(&given).map(drop)
}

impl CommObject {
    /// Gives hints to a communicator that is just made, or being made.
    pub(crate) fn add_hints(&self, info: MPI_Info) -> Result<()> {
        self.take_hints(info, Communicator::take_ft_modes)
    }

    /// Gives hints to a communicator, beside those that it has; `set` the modes, where it has others.
    fn take_hints(&self, info: MPI_Info, set: impl FnOnce(&Communicator, FtModes)) -> Result<()> {
        let given = info::pairs(info)?;
        let (added, before) = (known(&given)?, self.comm.ft_modes());
        let (modes, range) = (modes(&given, before)?, range(&given)?);
        lock(&self.hints).set_all(&added);
        if modes != before {
            set(&self.comm, modes);
        }
        if let Some(range) = range {
            self.comm.set_error_range(range);
        }
        Ok(())
    }
}

/// Sets hints of a communicator. The call is collective, but members need not pass the same hints: they are
/// not compared.
pub fn mpi_comm_set_info(comm: MPI_Comm, info: MPI_Info) -> c_int {
    call("MPI_Comm_set_info", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        object.comm.check(|| "MPI_Comm_set_info".to_owned())?;
        object.take_hints(info, Communicator::set_ft_modes)
    })
}

/// The hints of a communicator that are known, and the kinds of memory that its messages may stand in.
pub fn mpi_comm_get_info(comm: MPI_Comm, info_used: Place<'_, MPI_Info>) -> c_int {
    call("MPI_Comm_get_info", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = info_used.checked("info_used")?;
        place.set(info::adopt_hints(used(&object))?);
        Ok(())
    })
}

/// The assertions of the standard.
const ASSERTIONS: [&str; 4] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
];

/// Which cells of a grid exchange messages, for `MPI_Cart_create` with reorder on this communicator.
const STENCIL: &str = "weft_stencil";
/// What becomes of it, and of its messages, when it loses members: as `weftrun --ft` and `--ft-msg`.
const COMM_MODE: &str = "mpix_ft_comm_mode";
const MESSAGE_MODE: &str = "mpix_ft_msg_mode";
/// Which failures revoke it: none; those of members; any.
const RANGE: &str = "mpi_error_range";
/// Axes that a stencil may have.
const AXES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::info::{mpi_info_create, mpi_info_free, mpi_info_set};
    use crate::bodies::testing;
    use crate::claims::{Text, Variable};
    use crate::generated::constants::*;
    use std::ffi::CStr;

    fn with(pairs: &[(&CStr, &CStr)]) -> MPI_Info {
        let mut info = MPI_INFO_NULL;
        assert_eq!(mpi_info_create(Place::of(&mut info)), MPI_SUCCESS);
        for (key, value) in pairs {
            assert_eq!(mpi_info_set(info, Text::of(key), Text::of(value)), MPI_SUCCESS);
        }
        info
    }

    fn told(comm: MPI_Comm) -> Pairs {
        let mut info = MPI_INFO_NULL;
        assert_eq!(mpi_comm_get_info(comm, Place::of(&mut info)), MPI_SUCCESS);
        let pairs = info::pairs(info).unwrap();
        assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
        pairs
    }

    fn set(comm: MPI_Comm, pairs: &[(&CStr, &CStr)]) -> c_int {
        let mut info = with(pairs);
        let code = mpi_comm_set_info(comm, info);
        assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
        code
    }

    #[test]
    fn assertions_are_kept_and_what_is_not_known_is_not() {
        testing::start();
        let (tag, source) = (c"mpi_assert_no_any_tag", c"mpi_assert_no_any_source");
        assert_eq!(set(MPI_COMM_SELF, &[(tag, c"true"), (c"color", c"blue")]), MPI_SUCCESS);
        assert_eq!(set(MPI_COMM_SELF, &[(source, c"false")]), MPI_SUCCESS);
        let pairs = told(MPI_COMM_SELF);
        assert_eq!(pairs.value("mpi_assert_no_any_tag"), Some(&b"true"[..]));
        assert_eq!(pairs.value("mpi_assert_no_any_source"), Some(&b"false"[..]));
        assert_eq!((pairs.value("color"), pairs.value("mpi_assert_exact_length")), (None, None));
        assert_eq!(pairs.value("mpi_memory_alloc_kinds"), Some(&b"mpi,system"[..]));
        assert_eq!(set(MPI_COMM_SELF, &[(tag, c"perhaps")]), MPI_ERR_INFO_VALUE);
        assert_eq!(told(MPI_COMM_SELF).value("mpi_assert_no_any_tag"), Some(&b"true"[..]));
        assert_eq!(mpi_comm_set_info(MPI_COMM_NULL, MPI_INFO_NULL), MPI_ERR_COMM);
        assert_eq!(mpi_comm_set_info(MPI_COMM_SELF, MPI_INFO_NULL), MPI_SUCCESS);
        assert_eq!(mpi_comm_set_info(MPI_COMM_SELF, MPI_Info::from_value(0x7000)), MPI_ERR_INFO);
        assert_eq!(mpi_comm_get_info(MPI_COMM_SELF, Place::NULL), MPI_ERR_ARG);
    }

    #[test]
    fn modes_are_hints_too() {
        testing::start();
        use crate::bodies::communicators::{mpi_comm_dup, mpi_comm_dup_with_info, mpi_comm_free};
        let (mut plain, mut moded) = (MPI_COMM_NULL, MPI_COMM_NULL);
        let mut info = with(&[(c"mpix_ft_comm_mode", c"blank"), (c"mpix_ft_msg_mode", c"cont")]);
        assert_eq!(mpi_comm_dup_with_info(MPI_COMM_SELF, info, Place::of(&mut moded)), MPI_SUCCESS);
        assert_eq!(mpi_comm_dup(MPI_COMM_SELF, Place::of(&mut plain)), MPI_SUCCESS);
        let both = |comm| {
            let told = told(comm);
            ["mpix_ft_comm_mode", "mpix_ft_msg_mode"]
                .map(|key| told.value(key).map(|name| String::from_utf8_lossy(name).into_owned()))
        };
        assert_eq!(both(moded), [Some("blank".to_owned()), Some("cont".to_owned())]);
        assert_eq!(both(plain), [None, None]);
        assert_eq!(set(plain, &[(c"mpix_ft_comm_mode", c"shrink")]), MPI_SUCCESS);
        assert_eq!(both(plain), [Some("shrink".to_owned()), None]);
        for wrong in [(c"mpix_ft_comm_mode", c"blink"), (c"mpix_ft_msg_mode", c"")] {
            assert_eq!(set(plain, &[wrong]), MPI_ERR_INFO_VALUE);
        }
        assert_eq!(both(plain), [Some("shrink".to_owned()), None]);
        assert_eq!(mpi_comm_free(Variable::of(&mut plain)), MPI_SUCCESS);
        assert_eq!(mpi_comm_free(Variable::of(&mut moded)), MPI_SUCCESS);
        assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
    }

    #[test]
    fn how_far_failures_reach_is_a_hint_too() {
        testing::start();
        use crate::bodies::communicators::{mpi_comm_dup, mpi_comm_dup_with_info, mpi_comm_free};
        let (mut plain, mut ranged) = (MPI_COMM_NULL, MPI_COMM_NULL);
        let mut info = with(&[(c"mpi_error_range", c"group")]);
        let range = |comm| told(comm).value("mpi_error_range").map(<[u8]>::to_vec);
        assert_eq!(mpi_comm_dup_with_info(MPI_COMM_SELF, info, Place::of(&mut ranged)), MPI_SUCCESS);
        assert_eq!(range(ranged), Some(b"group".to_vec()));
        assert_eq!(mpi_comm_dup(ranged, Place::of(&mut plain)), MPI_SUCCESS);
        assert_eq!(range(plain), None);
        assert_eq!(set(plain, &[(c"mpi_error_range", c"universe")]), MPI_SUCCESS);
        assert_eq!(set(plain, &[(c"mpi_error_range", c"all")]), MPI_ERR_INFO_VALUE);
        assert_eq!(set(plain, &[(c"color", c"blue")]), MPI_SUCCESS);
        assert_eq!(range(plain), Some(b"universe".to_vec()));
        assert_eq!(set(plain, &[(c"mpi_error_range", c"local")]), MPI_SUCCESS);
        assert_eq!(range(plain), None);
        assert_eq!(mpi_comm_free(Variable::of(&mut plain)), MPI_SUCCESS);
        assert_eq!(mpi_comm_free(Variable::of(&mut ranged)), MPI_SUCCESS);
        assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
    }

    #[test]
    fn a_duplicate_has_the_hints_that_it_is_given_and_no_others() {
        testing::start();
        let (mut plain, mut hinted) = (MPI_COMM_NULL, MPI_COMM_NULL);
        let mut info = with(&[(c"mpi_assert_exact_length", c"true")]);
        use crate::bodies::communicators::{mpi_comm_dup, mpi_comm_dup_with_info, mpi_comm_free};
        let mut wrong = with(&[(c"mpi_assert_exact_length", c"perhaps")]);
        assert_eq!(mpi_comm_dup_with_info(MPI_COMM_SELF, wrong, Place::of(&mut hinted)), MPI_ERR_INFO_VALUE);
        assert_eq!((hinted, mpi_info_free(Variable::of(&mut wrong))), (MPI_COMM_NULL, MPI_SUCCESS));
        assert_eq!(mpi_comm_dup_with_info(MPI_COMM_SELF, info, Place::of(&mut hinted)), MPI_SUCCESS);
        assert_eq!(mpi_comm_dup(hinted, Place::of(&mut plain)), MPI_SUCCESS);
        assert_eq!(told(hinted).value("mpi_assert_exact_length"), Some(&b"true"[..]));
        assert_eq!(told(plain).value("mpi_assert_exact_length"), None);
        assert_eq!(mpi_comm_free(Variable::of(&mut plain)), MPI_SUCCESS);
        assert_eq!(mpi_comm_free(Variable::of(&mut hinted)), MPI_SUCCESS);
        assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
    }
}
