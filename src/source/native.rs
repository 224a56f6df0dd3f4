//! Opens what the user named, on a native machine.

use std::path::{Path, PathBuf};

use super::disk::open_path;
use super::{Files, ModelSpec};
use crate::error::{Error, Result};
#[cfg(feature = "cli")]
use crate::store::DownloadOptions;
use crate::store::{Disk, ModelKey, Storage};
use crate::stream::{Cancel, Progress};

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

/// The files of `spec`, and where they are kept. A URL is downloaded into the user's cache folder once and read from there.
pub async fn open(spec: &ModelSpec, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<(Files, Storage)> {
    cancel.check()?;
    match spec {
        ModelSpec::Builtin => Ok((open_path(&builtin_path()?)?, Storage::local())),
        ModelSpec::Path(path) => Ok((open_path(path)?, Storage::local())),
        #[cfg(feature = "cli")]
        ModelSpec::Remote(remote) => {
            let transport = std::rc::Rc::new(super::http::HttpTransport::new());
            crate::store::fetch(remote, &Disk::open_default()?, transport, DownloadOptions::default(), progress, cancel).await
        }
        #[cfg(not(feature = "cli"))]
        ModelSpec::Remote(remote) => {
            let _ = progress;
            Err(Error::bad_option(format!(
                "model: {}: this build has no HTTP client; build with --features cli, or download the file and give its path",
                remote.url()
            )))
        }
    }
}

/// The files of `spec` for reading parts of them: those of a URL stay there, unless they are in the user's cache folder already or the server
/// answers no ranges, in which case they are downloaded.
pub async fn open_parts(spec: &ModelSpec, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Files> {
    #[cfg(feature = "cli")]
    if let ModelSpec::Remote(remote) = spec {
        if let Some(files) = Disk::open_default()?.open(&ModelKey::new(remote.url())).await? {
            return Ok(files);
        }
        let transport = std::rc::Rc::new(super::http::HttpTransport::new());
        if let Some(files) = crate::store::look_into(remote, transport, cancel).await? {
            return Ok(files);
        }
    }
    open(spec, progress, cancel).await.map(|(files, _)| files)
}

/// Removes the downloaded copy of `spec`, if there is one: a broken file must not stand in the way of a mended one.
pub async fn forget(spec: &ModelSpec) -> Result<()> {
    match spec {
        ModelSpec::Builtin | ModelSpec::Path(_) => Ok(()),
        ModelSpec::Remote(remote) => Disk::open_default()?.remove(&ModelKey::new(remote.url())).await,
    }
}
