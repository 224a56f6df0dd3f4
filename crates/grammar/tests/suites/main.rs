//! Public suites of schemas. They are fetched when a test first needs them (`MILLRACE_SUITES` names another folder than
//! the user's cache), so these tests are left to `npm run test:long`:
//! `cargo test --release -p millrace-grammar --test suites -- --ignored --nocapture`.

mod fetch;
mod maskbench;
mod standard;
mod text;
