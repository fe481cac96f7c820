//! The binary `alluvium`. Everything is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    alluvium_cli::main()
}
