//! Opens what the user named, on a native machine.

#[cfg(all(test, feature = "cli"))]
mod http_tests;
#[cfg(feature = "cli")]
pub mod grammar;
pub mod tuning;

use std::path::{Path, PathBuf};

use crate::base::{Cancel, Progress};
use crate::engine::{Origin, Stored};
use crate::error::{Error, Result};
use crate::source::disk::open_path;
use crate::source::{Files, ModelSpec};
#[cfg(feature = "cli")]
use crate::store::{Disk, DownloadOptions};
use crate::store::{ModelKey, look_into};

/// Where the model in the box lies: beside the program as it is shipped, else in the source tree that built it.
pub fn builtin_path() -> Result<PathBuf> {
    let shipped = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("models/box.gguf")));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
    shipped.into_iter().chain([built]).find(|p| p.is_file()).ok_or_else(|| {
        Error::not_found(
            "the model in the box is not here: models/box.gguf is neither beside this program nor in the source tree's www folder; give --model PATH",
        )
    })
}

/// Where the files of `spec` are, or come from: those of a URL are kept in the user's cache folder.
pub fn origin(spec: &ModelSpec) -> Result<Origin> {
    match spec {
        ModelSpec::Builtin => Ok(Origin::Files(open_path(&builtin_path()?)?)),
        ModelSpec::Path(path) => Ok(Origin::Files(open_path(path)?)),
        #[cfg(feature = "cli")]
        ModelSpec::Remote(remote) => {
            let transport = std::rc::Rc::new(crate::source::http::HttpTransport::new());
            Ok(Origin::Remote(Stored {
                remote: remote.clone(),
                store: Disk::open_default()?,
                transport,
                download: DownloadOptions::default(),
            }))
        }
        #[cfg(not(feature = "cli"))]
        ModelSpec::Remote(remote) => Err(Error::bad_option(format!(
            "model: {}: this build has no HTTP client; build with --features cli, or download the file and give its path",
            remote.url()
        ))),
    }
}

/// The files of `spec` for reading parts of them: those of a URL stay there, unless they are in the user's cache folder
/// already or the server answers no ranges, in which case they are downloaded.
pub async fn open_parts(spec: &ModelSpec, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Files> {
    let origin = origin(spec)?;
    if let Origin::Remote(Stored { remote, store, transport, .. }) = &origin {
        let wanted = remote.projector();
        let has = |files: &Files| wanted.as_ref().is_none_or(|(name, _)| files.contains_key(name));
        if let Some(files) = store.open(&ModelKey::new(remote.url())).await?.filter(has) {
            return Ok(files);
        }
        if let Some(files) = look_into(remote, transport.clone(), cancel).await? {
            return Ok(files);
        }
    }
    origin.files(progress, cancel).await
}
