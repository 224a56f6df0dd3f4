//! Where a page's model comes from: its own files, or a server's, and where these are kept.

use web_sys::AbortSignal;

use super::models::transport;
use super::options::{Load, Source};
use super::{Blobs, Opfs};
use crate::engine::{Origin, Stored};
use crate::error::Error;
use crate::source::Remote;
use crate::store::Store;

/// Where the model is kept, or why it is not.
pub(super) async fn store_of(load: &Load, remote: &Remote, signal: &AbortSignal) -> Store {
    let opened = match remote {
        _ if !load.page.cache => Err(Error::storage("keeping the model is switched off (cache: false)")),
        Remote::File { url, .. } if url.starts_with("blob:") => {
            Err(Error::storage("blob: addresses end with the page, so there is nothing to keep the model under"))
        }
        _ => Opfs::models(Some(signal.clone())).await,
    };
    opened.unwrap_or_else(|why| Store::new(Blobs::new(why.message())))
}

/// What the page has named.
pub(super) async fn origin(load: &Load, signal: AbortSignal) -> Origin {
    origin_of(load, &load.source, signal).await
}

/// The draft model that the page has named, which is fetched as the model is.
pub(super) async fn draft_origin(load: &Load, signal: AbortSignal) -> Option<Origin> {
    match &load.draft {
        Some(source) => Some(origin_of(load, source, signal).await),
        None => None,
    }
}

async fn origin_of(load: &Load, source: &Source, signal: AbortSignal) -> Origin {
    match source {
        Source::Files(files) => Origin::Files(files.clone()),
        Source::Remote(remote) => Origin::Remote(Stored {
            remote: remote.clone(),
            store: store_of(load, remote, &signal).await,
            transport: transport(load, remote, signal),
            download: load.download.clone(),
        }),
    }
}
