//! The record of a model's files in a store: while they arrive a journal with a line for each event, for a whole model
//! one document, written last.

use serde::{Deserialize, Serialize};

use super::ModelKey;
use crate::base::check_name;
use crate::source::is_projector;
use crate::source::transport::Version;

/// The version of both; what another version of Millrace wrote is fetched again.
pub(crate) const VERSION: u32 = 2;
/// The name of the document of a whole model.
pub(crate) const STORED: &str = "stored.json";
/// The name of the journal of one that is arriving.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// Least and most bytes of a shard.
pub(crate) const SHARD_BYTES: std::ops::RangeInclusive<u64> = 1..=(1 << 30);
/// Most shards of a model: 64 TiB in shards of the usual size.
const MOST_SHARDS: u64 = 1 << 21;

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFile {
    /// Its name among the model's files.
    pub name: String,
    /// Bytes; `None` until its end has arrived, where the server did not say.
    pub length: Option<u64>,
    /// Which version of it the server had.
    pub version: Version,
    /// SHA-256 of all of it, hexadecimal, where it was known before.
    pub sha256: Option<String>,
    /// Bytes of a shard; the last one has what is left.
    pub shard: u64,
    /// SHA-256 of each shard that is whole, hexadecimal.
    pub shards: Vec<Option<String>>,
    /// Of shards that are not whole: (shard, the bytes that are there, the SHA-256 of those).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// An incomplete shard: index, bytes, hash of these bytes.
pub type Part = (usize, u64, String);

impl StoredFile {
    /// A file of which nothing is stored yet.
    pub fn new(name: impl Into<String>, length: Option<u64>, shard: u64) -> Self {
        let shards = vec![None; length.map_or(0, |length| length.div_ceil(shard)) as usize];
        Self { name: name.into(), length, version: Version::default(), sha256: None, shard, shards, parts: Vec::new() }
    }

    /// One that a load wanted beside the model and did not get: it takes no room, and the model is whole without it.
    pub fn left_out(name: impl Into<String>) -> Self {
        Self::new(name, Some(0), *SHARD_BYTES.start())
    }

    /// Whether it is [`StoredFile::left_out`].
    pub fn is_left_out(&self) -> bool {
        self.length == Some(0) && is_projector(&self.name)
    }

    /// Bytes of a shard, as far as they are known.
    pub fn shard_len(&self, index: usize) -> Option<u64> {
        let start = self.shard.checked_mul(index as u64)?;
        Some(self.length?.checked_sub(start)?.min(self.shard))
    }

    /// Bytes that are there, in whole shards and in parts of them.
    pub fn bytes(&self) -> u64 {
        let whole = (0..self.shards.len()).filter(|i| self.shards[*i].is_some()).filter_map(|i| self.shard_len(i));
        whole.chain(self.parts.iter().map(|(_, bytes, _)| *bytes)).sum()
    }

    /// Whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.length.is_some() && self.shards.iter().all(Option::is_some)
    }

    /// Nothing of it is there any more.
    pub fn forget(&mut self) {
        *self =
            Self { sha256: self.sha256.take(), ..Self::new(std::mem::take(&mut self.name), self.length, self.shard) };
    }

    fn sound(&self) -> bool {
        let count = self.length.map_or(self.shards.len() as u64, |length| length.div_ceil(self.shard.max(1)));
        check_name(&self.name).is_ok()
            && SHARD_BYTES.contains(&self.shard)
            && count <= MOST_SHARDS
            && self.shards.len() as u64 == count
            && self.shards.iter().chain([&self.sha256]).flatten().all(|h| is_hash(h))
            && self.parts.iter().all(|part| self.takes(part))
    }

    /// Removes and returns the entry of an incomplete shard.
    pub fn take_part(&mut self, index: usize) -> Option<Part> {
        let at = self.parts.iter().position(|part| part.0 == index)?;
        Some(self.parts.swap_remove(at))
    }

    /// Records how much of an incomplete shard is stored.
    pub fn put_part(&mut self, part: Part) {
        self.take_part(part.0);
        self.parts.push(part);
    }

    /// Whether an entry fits: its shard is missing and longer than the entry's bytes, and the hash is well-formed.
    fn takes(&self, (index, bytes, hash): &Part) -> bool {
        let index = *index;
        self.shards.get(index).is_some_and(Option::is_none)
            && self.shard_len(index).is_some_and(|len| *bytes < len)
            && is_hash(hash)
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What is known of a model's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// Where the model comes from.
    pub url: String,
    /// When its first byte arrived, ms since 1970.
    pub created: u64,
    /// Its files, in order.
    pub files: Vec<StoredFile>,
}

impl State {
    /// A model of which nothing is known.
    pub fn new(key: &ModelKey, now: u64) -> Self {
        Self { version: VERSION, url: key.url().to_owned(), created: now, files: Vec::new() }
    }

    /// Bytes that are there in whole shards; saturates, for one that lies.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, f| sum.saturating_add(f.bytes()))
    }

    /// Bytes of all files, where they are known.
    pub fn total(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, f| sum.checked_add(f.length?))
    }

    /// Whether it is one of this version, of `id`, that contradicts itself nowhere.
    fn sound(&self, id: &str) -> bool {
        self.version == VERSION
            && ModelKey::new(self.url.as_str()).id() == id
            && self
                .files
                .iter()
                .enumerate()
                .all(|(n, f)| f.sound() && self.files.iter().take(n).all(|other| other.name != f.name))
            && self.files.iter().map(|f| f.shards.len() as u64).sum::<u64>() <= MOST_SHARDS
            && self.files.iter().try_fold(0u64, |sum, f| sum.checked_add(f.length.unwrap_or(0))).is_some()
    }

    /// The document of a whole model; `None` for anything else.
    pub fn parse_stored(bytes: &[u8], id: &str) -> Option<Self> {
        let state: Self = serde_json::from_slice(bytes).ok()?;
        (state.sound(id) && state.files.iter().all(StoredFile::is_whole)).then_some(state)
    }

    /// What a journal says, up to its first line that is cut off or makes no sense; `None` where that is the first.
    pub fn parse_journal(bytes: &[u8], id: &str) -> Option<Journal> {
        let mut lines = bytes.split_inclusive(|b| *b == b'\n').map_while(|line| line.strip_suffix(b"\n"));
        let first = lines.next()?;
        let Line::Model(state) = serde_json::from_slice(first).ok()? else { return None };
        if !state.sound(id) {
            return None;
        }
        let mut journal = Journal { state, clean: false, good: first.len() as u64 + 1 };
        for line in lines {
            let parsed = serde_json::from_slice::<Line>(line).ok();
            journal.clean = matches!(parsed, Some(Line::Clean(true)));
            if !parsed.is_some_and(|line| journal.state.apply(line)) {
                break;
            }
            journal.good += line.len() as u64 + 1;
        }
        journal.clean &= journal.good == bytes.len() as u64;
        Some(journal)
    }

    /// Takes a line; false where it makes no sense here.
    fn apply(&mut self, line: Line) -> bool {
        match line {
            Line::Model(_) => return false,
            Line::Clean(_) => (),
            Line::File(file) => {
                let others = self.files.iter().map(|f| f.shards.len()).sum::<usize>() as u64;
                if !file.sound() || others + file.shards.len() as u64 > MOST_SHARDS {
                    return false;
                }
                match self.files.iter_mut().find(|f| f.name == file.name) {
                    Some(old) => *old = file,
                    None => self.files.push(file),
                }
            }
            Line::Shard(file, index, hash) => {
                if !hash.as_deref().is_none_or(is_hash) {
                    return false;
                }
                let Some(file) = self.files.get_mut(file) else { return false };
                // The shards of a file without a known length arrive in order.
                if file.length.is_none() && index == file.shards.len() && (index as u64) < MOST_SHARDS {
                    file.shards.push(None);
                }
                let Some(shard) = file.shards.get_mut(index) else { return false };
                *shard = hash;
                file.take_part(index);
            }
            Line::Part(file, index, bytes, hash) => {
                let part = (index, bytes, hash);
                let Some(file) = self.files.get_mut(file).filter(|file| file.takes(&part)) else { return false };
                file.put_part(part);
            }
        }
        true
    }
}

/// What a journal says.
#[derive(Debug)]
pub struct Journal {
    /// The model's state.
    pub state: State,
    /// Whether its writer ended in order, so that what it says is on the disk.
    pub clean: bool,
    /// Its bytes up to the end of the last line that makes sense.
    pub good: u64,
}

/// One line of a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// What was known when the journal was begun.
    Model(State),
    /// A further file, or what has become of one.
    File(StoredFile),
    /// (file, shard): its SHA-256 once it is whole, `null` once it is not any more.
    Shard(usize, usize, Option<String>),
    /// (file, shard, bytes, SHA-256): the stored part of an incomplete shard.
    Part(usize, usize, u64, String),
    /// Its writer has ended in order: all that was journaled is on the disk.
    Clean(bool),
}

impl Line {
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn hash(c: char) -> Option<String> {
        Some(c.to_string().repeat(64))
    }

    fn key() -> ModelKey {
        ModelKey::new("https://example.org/a.gguf")
    }

    fn journal() -> Vec<u8> {
        let lines = [
            Line::Model(State::new(&key(), 5)),
            Line::File(StoredFile::new("a.gguf", Some(10), 4)),
            Line::Shard(0, 2, hash('a')),
            Line::Shard(0, 0, hash('b')),
            Line::File(StoredFile::new("b.json", None, 4)),
            Line::Shard(1, 0, hash('c')),
            Line::Shard(0, 2, None),
            Line::Clean(true),
        ];
        lines.iter().flat_map(Line::text).collect()
    }

    #[test]
    fn a_journal_tells_what_is_there() {
        let Journal { state, clean, .. } = State::parse_journal(&journal(), key().id()).unwrap();
        assert!(clean);
        assert_eq!((state.bytes(), state.total(), state.created), (4, None, 5));
        assert_eq!(state.files[0].shards, [hash('b'), None, None]);
        assert_eq!(state.files[1].shards, [hash('c')]);
        assert!(State::parse_journal(&journal(), ModelKey::new("https://example.org/b").id()).is_none());
        assert_eq!((state.files[0].shard_len(2), state.files[0].shard_len(3)), (Some(2), None));
    }

    #[test]
    fn cut_off_anywhere_it_tells_less_and_never_something_else() {
        let whole = journal();
        let full = State::parse_journal(&whole, key().id()).unwrap().state;
        let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for cut in 0..whole.len() {
            match State::parse_journal(&whole[..cut], key().id()) {
                None => assert!(cut < first, "{cut}"),
                Some(Journal { state, clean, good }) => {
                    assert!(!clean && cut >= first && good <= cut as u64, "{cut}");
                    assert!(state.files.len() <= full.files.len());
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_ends_it() {
        let begin: Vec<u8> = [Line::Model(State::new(&key(), 0)), Line::File(StoredFile::new("a", Some(10), 4))]
            .iter()
            .flat_map(Line::text)
            .collect();
        for bad in [
            "{\"shard\":[1,0,null]}",
            "{\"shard\":[0,3,null]}",
            "{\"shard\":[0,0,\"xyz\"]}",
            "{\"file\":{\"name\":\"../a\",\"length\":1,\"version\":{\"etag\":null,\"modified\":null},\"sha256\":null,\"shard\":4,\"shards\":[null]}}",
            "{\"file\":{\"name\":\"b\",\"length\":1,\"version\":{\"etag\":null,\"modified\":null},\"sha256\":null,\"shard\":0,\"shards\":[]}}",
            "{\"file\":{\"name\":\"b\",\"length\":18446744073709551615,\"version\":{\"etag\":null,\"modified\":null},\"sha256\":null,\"shard\":1,\"shards\":[]}}",
            "{}",
            "garbage",
        ] {
            let text = [&begin[..], bad.as_bytes(), b"\n", &Line::Shard(0, 0, hash('a')).text()].concat();
            let Journal { state, clean, .. } = State::parse_journal(&text, key().id()).unwrap();
            assert!(!clean && state.bytes() == 0, "{bad}");
        }
    }

    #[test]
    fn only_a_whole_document_counts() {
        let file =
            StoredFile { shards: vec![hash('a'), hash('b'), hash('c')], ..StoredFile::new("a.gguf", Some(10), 4) };
        let good = State { files: vec![file.clone()], ..State::new(&key(), 1) };
        let text = serde_json::to_vec(&good).unwrap();
        assert_eq!(State::parse_stored(&text, key().id()).unwrap().bytes(), 10);
        for cut in 0..text.len() {
            assert!(State::parse_stored(&text[..cut], key().id()).is_none(), "{cut}");
        }
        let broken = [
            State { version: VERSION + 1, ..good.clone() },
            State { url: "https://example.org/b.gguf".into(), ..good.clone() },
            State { files: vec![file.clone(), file.clone()], ..good.clone() },
            State { files: vec![StoredFile { length: Some(11 + 4), ..file.clone() }], ..good.clone() },
            State { files: vec![StoredFile { length: None, ..file.clone() }], ..good.clone() },
            State {
                files: vec![StoredFile { shards: vec![hash('a'), None, hash('c')], ..file.clone() }],
                ..good.clone()
            },
            State { files: vec![StoredFile { shard: 0, ..file.clone() }], ..good.clone() },
            State { files: vec![StoredFile { name: "../a".into(), ..file }], ..good.clone() },
        ];
        for state in broken {
            assert!(State::parse_stored(&serde_json::to_vec(&state).unwrap(), key().id()).is_none(), "{state:?}");
        }
    }
}
