//! Finds a model's files, their lengths, and what the store already has; small files are fetched at once.

use super::connection::{Tell, ask, ask_either};
use super::huggingface::{self, Known};
use super::live::Hand;
use super::{Download, Report, Target};
use crate::base::{Event, check_name};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Manifest, module_folders};
use crate::source::spec::{is_projector, names, remote_parts};
use crate::source::transport::{Reply, Request};
use crate::source::{ByteSource, Remote, Weights};
use crate::store::journal::StoredFile;
use crate::store::{Sequence, size};

/// Largest `model.safetensors.index.json` that is accepted, in bytes: real ones of 400 B parameters have 5 MB.
const MAX_INDEX: u64 = 32 << 20;
/// Largest number of files that an index may name.
const MAX_SHARDS: usize = 4096;
/// Largest file that is one shard because its hash is known.
const MOST_WHOLE: u64 = 64 << 20;

/// Addresses of a folder's files.
struct Folder<'a> {
    base: &'a str,
    query: &'a str,
}

impl Folder<'_> {
    fn url(&self, name: &str) -> String {
        format!("{}{}{}", self.base, names::place(name), self.query)
    }
}

/// A large file, and what is known of it.
struct Large {
    name: String,
    url: String,
    known: Option<Known>,
}

impl Download {
    /// Finds the model's files.
    pub(super) async fn discover(&self, remote: &Remote, report: Report<'_>) -> Result<()> {
        self.recheck(remote, report).await?;
        match remote {
            Remote::File { url, .. } => {
                let projector = remote.projector().map(|(name, url)| (name, url.to_owned()));
                if projector.is_none() {
                    self.leave_out_projectors(url).await?;
                }
                let all = remote_parts(url).into_iter().chain(projector);
                self.large(all.map(|(name, url)| Large { name, url, known: None }).collect(), report).await
            }
            Remote::Folder { base, query, weights } => self.folder(&Folder { base, query }, *weights, report).await,
        }
    }

    /// An earlier download wanted a projector and has not got all of it: this one does not ask for it.
    async fn leave_out_projectors(&self, url: &str) -> Result<()> {
        let own = remote_parts(url);
        let begun =
            |f: &&StoredFile| is_projector(&f.name) && !f.is_whole() && own.iter().all(|(name, _)| *name != f.name);
        let begun: Vec<StoredFile> = self.live.shared.state().files.iter().filter(begun).cloned().collect();
        for file in begun {
            self.live.shared.put_file(StoredFile::left_out(file.name)).await?;
        }
        Ok(())
    }

    /// For a resumed download: checks whether the server has other versions by now. Changed files start over.
    async fn recheck(&self, remote: &Remote, report: Report<'_>) -> Result<()> {
        // What has a hash of its own cannot be of another version.
        let asked = |f: &&StoredFile| f.is_whole() && f.sha256.is_none() && !f.version.is_unknown();
        let there: Vec<StoredFile> = self.live.shared.state().files.iter().filter(asked).cloned().collect();
        let url_of = |name: &str| match remote {
            Remote::File { url, .. } => {
                let projector = remote.projector().map(|(name, url)| (name, url.to_owned()));
                remote_parts(url).into_iter().chain(projector).find(|(part, _)| part == name).map(|(_, url)| url)
            }
            Remote::Folder { base, query, .. } => Some(Folder { base, query }.url(name)),
        };
        for mut file in there {
            let Some(url) = url_of(&file.name) else { continue };
            let tell = |event: Event, text: String| report(&file.name, Some((event, text)));
            let request = Request { url: &url, range: Some((0, Some(1))) };
            match ask(&*self.live.transport, request, &self.live.cancel, &tell).await {
                Ok(reply) if !file.version.differs(&reply.version) => (),
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {
                    file.forget();
                    self.live.shared.put_file(file).await?;
                }
            }
        }
        Ok(())
    }

    async fn folder(&self, folder: &Folder<'_>, weights: Weights, report: Report<'_>) -> Result<()> {
        if weights != Weights::Shards {
            let mut sees = false;
            for (name, optional) in names::BESIDE_WEIGHTS {
                match self.small(&folder.url(name), name, report).await {
                    Err(e) if optional && e.kind() == ErrorKind::NotFound => (),
                    other => {
                        let bytes = other.map_err(|e| missing(e, folder))?;
                        // How pictures are cut is only asked of models that read them.
                        sees |= name == names::CONFIG && reads_pictures(&bytes);
                    }
                }
            }
            for name in names::PICTURES.iter().filter(|_| sees) {
                match self.small(&folder.url(name), name, report).await {
                    Err(e) if e.kind() == ErrorKind::NotFound => (),
                    other => drop(other?),
                }
            }
            self.modules(folder, report).await?;
        }
        let one = |name: &str| vec![Large { name: name.to_owned(), url: folder.url(name), known: None }];
        match weights {
            Weights::Shards => self.shards(folder, report).await,
            Weights::Indexed => self.indexed(folder, report).await,
            Weights::Single => self.large(one(names::WEIGHTS), report).await.map_err(|e| missing(e, folder)),
            Weights::Any => match self.large(one(names::WEIGHTS), report).await {
                Err(e) if e.kind() == ErrorKind::NotFound => self.indexed(folder, report).await,
                other => other,
            },
        }
    }

    /// What makes a folder one of sentence-transformers, if it is.
    async fn modules(&self, folder: &Folder<'_>, report: Report<'_>) -> Result<()> {
        let optional = async |name: &str| match self.small(&folder.url(name), name, report).await {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        let Some(modules) = optional(names::MODULES).await? else { return Ok(()) };
        optional(names::SENTENCE_CONFIG).await?;
        optional(names::SENTENCE_LENGTH).await?;
        for (kind, path) in module_folders(&modules)?.into_iter().filter(|(_, path)| !path.is_empty()) {
            optional(&names::of_module(&path, names::CONFIG)).await?;
            if kind == names::DENSE {
                let name = names::of_module(&path, names::WEIGHTS);
                self.large(vec![Large { url: folder.url(&name), name, known: None }], report).await?;
            }
        }
        Ok(())
    }

    async fn indexed(&self, folder: &Folder<'_>, report: Report<'_>) -> Result<()> {
        let url = folder.url(names::INDEX);
        let index = self.small(&url, names::INDEX, report).await.map_err(|e| missing(e, folder))?;
        let files = shards(&index).map_err(|e| e.at(&url))?;
        let files = files.into_iter().map(|name| Large { url: folder.url(&name), name, known: None }).collect();
        self.large(files, report).await.map_err(|e| missing(e, folder))
    }

    /// A manifest and its files, whose lengths and hashes it knows.
    async fn shards(&self, folder: &Folder<'_>, report: Report<'_>) -> Result<()> {
        let url = folder.url(names::MANIFEST);
        let manifest = self.small(&url, names::MANIFEST, report).await?;
        let manifest = Manifest::parse(&manifest).map_err(|e| e.at(&url))?;
        let known = |bytes, sha256: &str| Some(Known { length: bytes, sha256: Some(sha256.to_owned()) });
        let files = manifest
            .files()
            .map(|f| Large { name: f.file.clone(), url: folder.url(&f.file), known: known(f.bytes, &f.sha256) })
            .collect();
        self.large(files, report).await
    }

    /// A file of a few MB at most, from the store or the server.
    async fn small(&self, url: &str, name: &str, report: Report<'_>) -> Result<Vec<u8>> {
        let shared = &self.live.shared;
        let number = shared.state().files.iter().position(|f| f.name == name && f.is_whole());
        let number = match number {
            Some(number) => number,
            None => {
                let tell = |event: Event, text: String| report(name, Some((event, text)));
                // A broken connection is a failure like any other.
                let mut attempts = super::connection::Attempts::default();
                loop {
                    let reply = ask(&*self.live.transport, Request::whole(url), &self.live.cancel, &tell).await?;
                    if reply.is_page {
                        return Err(Error::not_found(format!(
                            "{url}: the server answers with a web page where {name} should be; check the address"
                        )));
                    }
                    match self.store_small(url, name, reply).await {
                        Ok(number) => break number,
                        Err(e) => attempts.failed(e, None, &*self.live.transport, &self.live.cancel, &tell).await?,
                    }
                }
            }
        };
        self.add(Target { number, url: url.to_owned(), ranges: false, has_worked: false });
        report(name, None);
        let source = self.source(number)?;
        source.read(0, source.len() as usize).await
    }

    async fn store_small(&self, url: &str, name: &str, mut reply: Reply) -> Result<usize> {
        let shared = &self.live.shared;
        let file = StoredFile { version: reply.version.clone(), ..StoredFile::new(name, None, self.options.shard) };
        let number = shared.put_file(file).await?;
        let mut sequence = Sequence::new(shared.clone(), number);
        while let Some(piece) = reply.body.next().await? {
            self.live.cancel.check()?;
            if sequence.len() + piece.len() as u64 > MAX_INDEX {
                return Err(Error::bad_model(format!(
                    "{url}: is longer than {} and cannot be what its name says",
                    size(MAX_INDEX)
                )));
            }
            sequence.append(&piece).await?;
        }
        if let Some(length) = reply.length.filter(|length| sequence.len() < *length) {
            return Err(Error::network(format!(
                "{url}: the connection ended after {} of {length} bytes; try again",
                sequence.len()
            )));
        }
        sequence.finish().await?;
        Ok(number)
    }

    /// Files of weights: those of which nothing is there are measured.
    async fn large(&self, mut files: Vec<Large>, report: Report<'_>) -> Result<()> {
        if let Some(first) = files.first() {
            let list = huggingface::list_url(&first.url).map(|(list, _)| list);
            let known = self.ask_hugging_face(&first.url).await;
            for file in &mut files {
                // The projector may come from another repository.
                if let Some((of, path)) = huggingface::list_url(&file.url)
                    && list.as_ref() == Some(&of)
                    && file.known.is_none()
                {
                    file.known = known.iter().find(|(of, _)| *of == path).map(|(_, known)| known.clone());
                }
            }
        }
        let single = files.len() == 1;
        for Large { name, url, known } in files {
            check_name(&name)?;
            let shared = &self.live.shared;
            let there =
                shared.state().files.iter().position(|f| f.name == name && f.length.is_some() && !f.is_left_out());
            let sha256 = known.as_ref().and_then(|k| k.sha256.clone());
            let fits = |f: &StoredFile| {
                known.as_ref().is_none_or(|k| Some(k.length) == f.length) && (sha256.is_none() || f.sha256 == sha256)
            };
            if let Some(number) = there.filter(|number| shared.state().files.get(*number).is_some_and(fits)) {
                self.add(Target { number, url, ranges: true, has_worked: false });
                continue;
            }
            let tell = |event: Event, text: String| report(&name, Some((event, text)));
            match known {
                Some(known) => {
                    let shard = if known.length <= MOST_WHOLE && known.sha256.is_some() {
                        known.length.max(1)
                    } else {
                        self.options.shard
                    };
                    let file = StoredFile { sha256: known.sha256, ..StoredFile::new(&name, Some(known.length), shard) };
                    let number = shared.put_file(file).await?;
                    self.add(Target { number, url, ranges: true, has_worked: false });
                }
                None => self.measure(&name, &url, single, &tell).await?,
            }
            report(&name, None);
        }
        Ok(())
    }

    /// Learns a file's length, version, and whether the server answers ranges. The answer about an only file is kept:
    /// it is the file's beginning.
    async fn measure(&self, name: &str, url: &str, keep: bool, tell: Tell<'_>) -> Result<()> {
        let (live, shard) = (&self.live, self.options.shard);
        let transport = &*live.transport;
        let asked = if keep { shard } else { 1 };
        let request = Request { url, range: Some((0, Some(asked))) };
        let (mut reply, without) = ask_either(transport, request, &live.cancel, tell).await?;
        // The connection may have been at fault, and not the range.
        if without
            && reply.status == 200
            && let Ok(again) = transport.get(request, &live.cancel).await
            && again.status == 206
        {
            reply = again;
        }
        let total = |reply: &Reply| reply.range.and_then(|range| range.total);
        let ranged = reply.status == 206
            && !reply.encoded
            && reply.range.is_none_or(|range| range.from == 0)
            && reply.length.is_none_or(|n| n <= asked);
        let mut length = if ranged { total(&reply) } else { reply.length.filter(|_| reply.status == 200) };
        if ranged && length.is_none() {
            // The page may not see Content-Range: what is shorter than was asked for is all, and of the rest the length
            // is that of an answer to its end.
            length = match reply.length {
                Some(n) if n < asked => Some(n),
                _ => ask(transport, Request { url, range: Some((0, None)) }, &live.cancel, tell)
                    .await?
                    .length
                    .filter(|n| *n >= asked),
            };
        }
        if reply.status == 416 || reply.status == 206 && !ranged {
            // Its ranges are of no use, or there are none in an empty file; what it answers without is to be seen.
            reply = ask(transport, Request::whole(url), &live.cancel, tell).await?;
            length = reply.length;
        }
        let file = StoredFile { version: reply.version.clone(), ..StoredFile::new(name, length, shard) };
        let ranges = ranged && length.is_some();
        let reach = if ranges { length.unwrap_or(0).min(shard) } else { length.unwrap_or(u64::MAX) };
        let number = live.shared.put_file(file).await?;
        if keep || !ranges && live.hand.lock().await.is_none() {
            *live.hand.lock().await = Some(Hand { number, head: Vec::new(), reply, reach });
        }
        self.add(Target { number, url: url.to_owned(), ranges, has_worked: true });
        Ok(())
    }

    /// Measures a file again that has changed.
    pub(super) async fn measure_again(&self, number: usize, tell: Tell<'_>) -> Result<()> {
        let name = self.live.shared.state().files.get(number).map(|f| f.name.clone()).unwrap_or_default();
        let url = self.url(number)?;
        self.live.let_go(number);
        self.unfinished.forget(number);
        *self.live.hand.lock().await = None;
        self.measure(&name, &url, true, tell).await
    }

    async fn ask_hugging_face(&self, url: &str) -> Vec<(String, Known)> {
        let list = async {
            let (list, _) = huggingface::list_url(url)?;
            let mut reply = self
                .live
                .transport
                .get(Request::whole(&list), &self.live.cancel)
                .await
                .ok()
                .filter(|reply| reply.status == 200)?;
            let mut text = Vec::new();
            while let Some(piece) = reply.body.next().await.ok()? {
                text.extend_from_slice(&piece);
                if text.len() as u64 > MAX_INDEX {
                    return None;
                }
            }
            Some(huggingface::parse(&text))
        };
        // Without it lengths are measured and hashes are computed.
        list.await.unwrap_or_default()
    }
}

/// Says what a folder must hold if one of its files is missing.
fn missing(error: Error, folder: &Folder<'_>) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::not_found(format!("{}; {} (folder {})", error.message(), names::EXPECTED, folder.base))
}

/// The files that an index names, each once, in order.
fn shards(index: &[u8]) -> Result<Vec<String>> {
    let index: serde_json::Value =
        serde_json::from_slice(index).map_err(|e| Error::bad_model(format!("is not JSON ({e})")))?;
    let map = index
        .get("weight_map")
        .and_then(|m| m.as_object())
        .ok_or_else(|| Error::bad_model("has no object weight_map"))?;
    let mut shards = Vec::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| Error::bad_model(format!("weight_map: {tensor} is not a string")))?;
        check_name(file).map_err(|e| e.at(format!("weight_map: {tensor}")))?;
        if !file.ends_with(".safetensors") {
            return Err(Error::bad_model(format!("weight_map: {tensor}: {file} is not a .safetensors file")));
        }
        shards.push(file.to_owned());
    }
    shards.sort();
    shards.dedup();
    if shards.is_empty() || shards.len() > MAX_SHARDS {
        return Err(Error::bad_model(format!(
            "weight_map names {} files; 1 to {MAX_SHARDS} are possible",
            shards.len()
        )));
    }
    Ok(shards)
}

/// Whether a config.json is that of a model with something that reads pictures.
fn reads_pictures(config: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(config).is_ok_and(|config| config["vision_config"].is_object())
}
