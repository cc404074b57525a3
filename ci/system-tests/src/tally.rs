//! What came of tests: a line for each, and how many there were.

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs that ended as they should.
    pub passed: u32,
    /// All others; each was told on stdout with what it said.
    pub failed: u32,
}

impl Tally {
    /// Notes one result, and prints a line for it.
    pub fn note(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("ok      {name}");
            }
            Err(account) => {
                self.failed += 1;
                println!("FAILED  {name}: {account}");
            }
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}
