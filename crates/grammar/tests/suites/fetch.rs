//! Clones a suite once.

use std::path::PathBuf;
use std::process::Command;

/// The folder of a suite, cloned from GitHub where it is not there yet.
pub fn suite(name: &str, repository: &str) -> PathBuf {
    let home = || std::env::home_dir().expect("a home folder").join(".cache");
    let cache = || std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("millrace").join("suites");
    let folder = std::env::var_os("MILLRACE_SUITES").map_or_else(cache, PathBuf::from).join(name);
    if !folder.exists() {
        std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
        let url = format!("https://github.com/{repository}");
        let done =
            Command::new("git").args(["clone", "--quiet", "--depth", "1", &url]).arg(&folder).status().expect("git");
        assert!(done.success(), "{repository} could not be cloned to {}", folder.display());
    }
    folder
}
