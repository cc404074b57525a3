//! The committed corpus: seeds and what was found, a file each in `corpus/TARGET`; and in
//! `corpus/TARGET.pack` what campaigns have grown, thinned out to one input for each edge and packed, since
//! thousands of tiny files are a burden.
//!
//! ```text
//! pack | length u16 little-endian | that many bytes | length | ...
//! ```

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use crate::Target;

/// The folder of the corpus.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All inputs of a target, by name.
///
/// # Errors
/// When they cannot be read.
pub fn inputs(target: &Target) -> Result<Vec<(String, Vec<u8>)>> {
    let mut inputs = files(&folder().join(target.name))?;
    let grown = unpack(&fs::read(pack_of(target))?);
    inputs.extend((0..).zip(grown).map(|(number, input)| (format!("grown {number}"), input)));
    Ok(inputs)
}

/// The files of a folder, by name and in its order.
///
/// # Errors
/// When they cannot be read.
pub fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// The file with a target's grown inputs.
#[must_use]
pub fn pack_of(target: &Target) -> PathBuf {
    folder().join(format!("{}.pack", target.name))
}

/// Packs inputs; those that are too long for a pack are left out.
#[must_use]
pub fn pack(inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for input in inputs {
        if let Ok(length) = u16::try_from(input.len()) {
            packed.extend(length.to_le_bytes());
            packed.extend(input);
        }
    }
    packed
}

/// The inputs of a pack.
#[must_use]
pub fn unpack(mut packed: &[u8]) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk() {
        let (input, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        inputs.push(input.to_vec());
        packed = rest;
    }
    inputs
}
