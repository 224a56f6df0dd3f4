//! The native command line: the same engine and the same options as the browser's.

mod bench;
mod bisect;
mod cli;
mod embed;
mod examine;
mod options;
mod pictures;
mod schema;
mod tables;
mod texts;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind as ClapKind;
use millrace::Error;

fn main() -> ExitCode {
    quiet_drivers();
    let args = match cli::Cli::try_parse() {
        Ok(args) => args,
        Err(e) if matches!(e.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion) => {
            print!("{e}");
            return ExitCode::SUCCESS;
        }
        Err(e) => return fail(&cli::usage(&e)),
    };
    match pollster::block_on(cli::run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e),
    }
}

/// Mesa's drivers print complaints about a missing display server to stderr, where only errors belong.
fn quiet_drivers() {
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: nothing else runs yet, so nobody reads the environment meanwhile.
        unsafe { std::env::set_var("XDG_RUNTIME_DIR", std::env::temp_dir()) };
    }
}

/// One line on stderr, status 2.
fn fail(error: &Error) -> ExitCode {
    let mut line = error.message().replace(['\n', '\r'], " ");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string().replace(['\n', '\r'], " ");
        if !line.contains(&text) {
            line = format!("{line} ({text})");
        }
        source = cause.source();
    }
    let _ = writeln!(std::io::stderr(), "error[{}]: {line}", error.code());
    ExitCode::from(2)
}
