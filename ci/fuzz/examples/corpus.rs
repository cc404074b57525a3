//! Keeps the corpus: `corpus seeds` writes the seeds of every target, `corpus unpack FOLDER` puts what is
//! packed into a folder for each target, and `corpus pack FOLDER` packs what stands in such folders.

use std::io::Result;
use std::path::Path;
use std::{env, fs};

use fuzz::{TARGETS, corpus};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seeds"] => seeds(),
        ["pack", folder] => pack(Path::new(folder)),
        ["unpack", folder] => unpack(Path::new(folder)),
        _ => Err(std::io::Error::other("corpus seeds, corpus pack FOLDER or corpus unpack FOLDER")),
    }
}

fn seeds() -> Result<()> {
    for target in TARGETS {
        let folder = corpus::folder().join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(folder.join(format!("seed-{name}")), bytes)?;
        }
    }
    Ok(())
}

fn pack(folder: &Path) -> Result<()> {
    for target in TARGETS {
        let inputs = corpus::files(&folder.join(target.name))?;
        let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|(_, input)| input).collect();
        fs::write(corpus::pack_of(target), corpus::pack(&inputs))?;
    }
    Ok(())
}

fn unpack(folder: &Path) -> Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, input) in (0..).zip(corpus::unpack(&fs::read(corpus::pack_of(target))?)) {
            fs::write(folder.join(format!("grown-{number:05}")), input)?;
        }
    }
    Ok(())
}
