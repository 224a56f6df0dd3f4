//! What the user wrote after `--model`, understood: the model in the box, a path, or one of the shapes that a URL can
//! have.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// A model, as named by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// The model in the box.
    Builtin,
    /// A file or a folder on this machine.
    Path(PathBuf),
    /// One or more files on a server.
    Remote(Remote),
}

/// A model on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    /// One file that holds everything (GGUF).
    File {
        /// Its address, without fragment.
        url: String,
        /// The address of the model's projector, where that is a file of its own: `#mmproj=` behind the model's.
        projector: Option<String>,
    },
    /// A folder: of Hugging Face's, with configuration, tokenizer and safetensors, or of our own shards.
    Folder {
        /// Its address, ending in `/`; a file's address is this with the name behind it.
        base: String,
        /// What follows every file's name: the query of the URL that the user gave (with its `?`), or nothing.
        query: String,
        /// Where the weights are.
        weights: Weights,
    },
}

/// How the weights of a folder are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// `model.safetensors` if it is there, else the index and its shards.
    Any,
    /// `model.safetensors`.
    Single,
    /// `model.safetensors.index.json` and the shards that it names.
    Indexed,
    /// Our own format: manifest.json and the files that it names.
    Shards,
}

/// The names and addresses of the file at `url`, or of all parts of a split one.
pub(crate) fn remote_parts(url: &str) -> Vec<(String, String)> {
    let name = Remote::file_name(url);
    let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    match gguf_parts(&name).zip(path.rsplit_once('/')) {
        Some((parts, (base, _))) => {
            parts.into_iter().map(|part| (part.clone(), format!("{base}/{part}{query}"))).collect()
        }
        None => vec![(name, url.to_owned())],
    }
}

/// What stands before the projector in a model's address.
const PROJECTOR_KEY: &str = "mmproj=";

/// The address of the projector that the fragment of a model's address names, against `model`: a file beside it or an
/// address of its own. Other fragments say nothing.
fn projector_in(fragment: Option<&str>, model: &str) -> Result<Option<String>> {
    let Some(text) = fragment.and_then(|text| text.strip_prefix(PROJECTOR_KEY)) else { return Ok(None) };
    let text = percent_decode(text)?;
    let bad = |why: &str| {
        Error::bad_option(format!(
            "model: #{PROJECTOR_KEY}{text} {why}; name a .gguf file beside the model, or its address"
        ))
    };
    if text.starts_with("blob:") {
        return Ok(Some(text));
    }
    let (path, query) = model.split_at(model.find('?').unwrap_or(model.len()));
    let beside = || format!("{}{text}{query}", &path[..path.rfind('/').map_or(0, |slash| slash + 1)]);
    let address = if text.contains("://") { text.clone() } else { beside() };
    match Remote::parse(&address)? {
        Remote::File { url, projector: None } if !text.is_empty() => Ok(Some(url)),
        _ => Err(bad("is not the address of a file")),
    }
}

/// What a projector's file is called among those of its model: what it is shows in the name, whatever it has in its
/// address.
pub(crate) fn projector_name(url: &str) -> String {
    let name = Remote::file_name(url);
    if is_projector(&name) { name } else { format!("mmproj-{}.gguf", name.trim_end_matches(".gguf")) }
}

/// Whether a GGUF file is a projector for the models beside it, by its name.
pub fn is_projector(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("mmproj") && name.ends_with(".gguf")
}

/// Types of projector files, best first: 8 bits see as well as 16, at half the size.
const PROJECTORS: [&str; 3] = ["q8_0", "f16", "bf16"];

/// The projector to take among several for one model.
pub fn best_projector<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let rank = |name: &str| {
        let name = name.to_ascii_lowercase();
        // "bf16" has "f16" in it.
        let is = |kind: &str| name.contains(kind) && (kind != "f16" || !name.contains("bf16"));
        PROJECTORS.iter().position(|kind| is(kind)).unwrap_or(PROJECTORS.len())
    };
    names.filter(|name| is_projector(name)).min_by_key(|name| (rank(name), *name))
}

/// Whether a projector's name begins with that of a model: `mmproj-box-f16.gguf` with that of `box.gguf`.
fn is_named_after(projector: &str, model: &str) -> bool {
    let (projector, model) = (projector.to_ascii_lowercase(), model.to_ascii_lowercase());
    let rest = projector.trim_start_matches("mmproj").trim_start_matches(['-', '_', '.']);
    let behind = model.strip_suffix(".gguf").and_then(|stem| rest.strip_prefix(stem));
    behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// The projector for a model among the files of its folder: one that is named after it, else the best of those that are
/// not named after another model there.
pub fn projector_beside<'a>(model: &str, names: &'a [String]) -> Option<&'a str> {
    let all = || names.iter().map(String::as_str);
    let of_another =
        |projector: &str| all().any(|other| other != model && !is_projector(other) && is_named_after(projector, other));
    best_projector(all().filter(|name| is_named_after(name, model)))
        .or_else(|| best_projector(all().filter(|name| !of_another(name))))
}

/// The names of files in a Hugging Face folder.
pub mod names {
    /// The architecture's numbers.
    pub const CONFIG: &str = "config.json";
    /// The tokenizer.
    pub const TOKENIZER: &str = "tokenizer.json";
    /// What to do at the ends of a text, and the chat template of most models.
    pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
    /// End tokens and defaults for sampling.
    pub const GENERATION_CONFIG: &str = "generation_config.json";
    /// The chat template, where it has a file of its own.
    pub const CHAT_TEMPLATE: &str = "chat_template.jinja";
    /// All weights.
    pub const WEIGHTS: &str = "model.safetensors";
    /// Which file holds which weight.
    pub const INDEX: &str = "model.safetensors.index.json";
    /// What a folder holds beside its weights, and whether a model can do without.
    pub const BESIDE_WEIGHTS: [(&str, bool); 5] = [
        (CONFIG, false),
        (TOKENIZER, false),
        (TOKENIZER_CONFIG, true),
        (GENERATION_CONFIG, true),
        (CHAT_TEMPLATE, true),
    ];
    /// How pictures are resized and cut, where the model reads any.
    pub const PICTURES: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];
    /// What sentence-transformers does with a text, and the words it puts before one.
    pub const MODULES: &str = "modules.json";
    /// The prompts of a model that embeds.
    pub const SENTENCE_CONFIG: &str = "config_sentence_transformers.json";
    /// The file with the length limit of texts, of a model that embeds.
    pub const SENTENCE_LENGTH: &str = "sentence_bert_config.json";
    /// The kind of a module that has weights.
    pub const DENSE: &str = "Dense";
    /// How a file of a module in such a folder is called here, where names have no folders: its configuration, or its
    /// weights.
    pub fn of_module(folder: &str, file: &str) -> String {
        format!("{folder}_{file}")
    }
    /// Where in its folder a file lies that is called so here: a module's are numbered.
    pub fn place(name: &str) -> String {
        let numbered = |module: &&str| module.starts_with(|c: char| c.is_ascii_digit());
        let of = |file: &str| {
            name.strip_suffix(file)?.strip_suffix('_').filter(numbered).map(|module| format!("{module}/{file}"))
        };
        of(CONFIG).or_else(|| of(WEIGHTS)).unwrap_or_else(|| name.to_owned())
    }
    /// Our own format of weights.
    pub const MANIFEST: &str = "manifest.json";
    /// A sentence for errors about a folder in which something is missing.
    pub const EXPECTED: &str = "a model folder holds config.json, tokenizer.json and model.safetensors (or model.safetensors.index.json and the files it names)";
}

/// Most files that a model may be split into.
pub const MOST_PARTS: u32 = 4096;

/// The names of all parts of a split GGUF file, `NAME-00001-of-00003.gguf` and so on, from the name of any of them;
/// `None` for a whole file.
pub fn gguf_parts(name: &str) -> Option<Vec<String>> {
    let number =
        |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<u32>().ok()).flatten();
    let (rest, parts) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let (part, parts) = (number(part)?, number(parts)?);
    if !(1..=parts).contains(&part) || !(2..=MOST_PARTS).contains(&parts) {
        return None;
    }
    Some((1..=parts).map(|i| format!("{stem}-{i:05}-of-{parts:05}.gguf")).collect())
}

impl ModelSpec {
    /// Understands `text`: `builtin`, an `http(s)://` or `blob:` URL, a `file://` URL, or a path.
    ///
    /// Fails with `BAD_OPTION` where it is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::bad_option("model: is empty; give a path, a URL or `builtin`"));
        }
        if text == "builtin" {
            return Ok(Self::Builtin);
        }
        match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => Remote::parse(text).map(Self::Remote),
                "blob" => {
                    let (url, fragment) =
                        text.split_once('#').map_or((text, None), |(url, fragment)| (url, Some(fragment)));
                    Ok(Self::Remote(Remote::File { url: url.to_owned(), projector: projector_in(fragment, url)? }))
                }
                "file" => Ok(Self::Path(PathBuf::from(percent_decode(rest.strip_prefix("//").unwrap_or(rest))?))),
                other => Err(Error::bad_option(format!(
                    "model: {other}: is not a kind of URL that can be read; use http:, https:, a path or `builtin`"
                ))),
            },
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

impl Remote {
    /// Understands an absolute `http(s)` URL; addresses of pages on huggingface.co become addresses of files.
    /// `#mmproj=FILE` behind that of a GGUF file names its projector.
    pub fn parse(url: &str) -> Result<Self> {
        let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
        let mut remote = Self::parse_whole(url)?;
        if let Self::File { url, projector } = &mut remote {
            *projector = projector_in(fragment, url)?;
        }
        Ok(remote)
    }

    /// Parses a URL without a fragment.
    fn parse_whole(url: &str) -> Result<Self> {
        let (address, query) = match url.split_once('?') {
            Some((a, q)) => (a, q),
            None => (url, ""),
        };
        let (scheme, rest) = address
            .split_once("://")
            .ok_or_else(|| Error::bad_option(format!("model: {url} is not a complete URL")))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::bad_option(format!("model: {url:?} is not a valid URL; write spaces as %20")));
        }
        if matches!(host, "huggingface.co" | "www.huggingface.co" | "hf.co") {
            return hugging_face(path, url);
        }
        let file = path.rsplit('/').next().unwrap_or("");
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let parent = format!("{scheme}://{host}/{}", &path[..path.len() - file.len()]);
        Ok(match folder_weights(file) {
            Some(weights) => Self::Folder { base: parent, query, weights },
            None if has_extension(file) => Self::File { url: url.to_owned(), projector: None },
            None => {
                let slash = if file.is_empty() { "" } else { "/" };
                Self::Folder { base: format!("{parent}{file}{slash}"), query, weights: Weights::Any }
            }
        })
    }

    /// The canonical address: what identifies the model in a store.
    pub fn url(&self) -> String {
        match self {
            // Any part of a split file stands for all.
            Self::File { url, .. } => remote_parts(url).swap_remove(0).1,
            Self::Folder { base, query, weights } => match weights {
                Weights::Any => format!("{base}{query}"),
                Weights::Single => format!("{base}{}{query}", names::WEIGHTS),
                Weights::Indexed => format!("{base}{}{query}", names::INDEX),
                Weights::Shards => format!("{base}{}{query}", names::MANIFEST),
            },
        }
    }

    /// The name and address of the projector, where that is a file of its own.
    pub fn projector(&self) -> Option<(String, &str)> {
        match self {
            Self::File { projector: Some(url), .. } => Some((projector_name(url), url)),
            _ => None,
        }
    }

    /// The requested files among a model's stored ones: of several projectors, which other loads may have stored, only
    /// the one asked for. `None` where it is missing.
    pub(crate) fn asked_of(&self, mut files: super::Files) -> Option<super::Files> {
        if let Some((asked, _)) = self.projector() {
            files.retain(|name, _| !is_projector(name) || *name == asked);
            return files.contains_key(&asked).then_some(files);
        }
        Some(files)
    }

    /// The name of a single file, from its address, in characters that every store accepts.
    pub fn file_name(url: &str) -> String {
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let name: String = path
            .rsplit('/')
            .next()
            .unwrap_or("")
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
            .collect();
        let name = name.trim_start_matches('.');
        if name.is_empty() { "model".to_owned() } else { name.chars().take(120).collect() }
    }
}

/// Whether `text` before a colon names a scheme; a single letter is a Windows drive.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// `Some` if a URL of this file means the folder around it.
fn folder_weights(file: &str) -> Option<Weights> {
    match file {
        names::CONFIG
        | names::TOKENIZER
        | names::TOKENIZER_CONFIG
        | names::GENERATION_CONFIG
        | names::CHAT_TEMPLATE => Some(Weights::Any),
        names::WEIGHTS => Some(Weights::Single),
        names::INDEX => Some(Weights::Indexed),
        names::MANIFEST => Some(Weights::Shards),
        _ => None,
    }
}

/// Whether a last path segment is a file's name. `model.gguf` is, `qwen2.5-0.5b` is not: an extension is letters only.
fn has_extension(file: &str) -> bool {
    match file.rsplit_once('.') {
        Some((_, ext)) => (1..=12).contains(&ext.len()) && ext.chars().all(|c| c.is_ascii_alphabetic()),
        None => false,
    }
}

/// `OWNER/REPO[/tree/REV[/DIR]]` is a folder; `OWNER/REPO/{blob,resolve,raw}/REV/FILE` is a file of it.
fn hugging_face(path: &str, url: &str) -> Result<Remote> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let bad = || {
        Error::bad_option(format!(
            "model: {url} is not the address of a model on Hugging Face; use https://huggingface.co/OWNER/REPO or https://huggingface.co/OWNER/REPO/resolve/main/FILE.gguf"
        ))
    };
    if matches!(parts.first(), Some(&("datasets" | "spaces" | "docs" | "papers" | "collections"))) {
        return Err(bad());
    }
    let resolve = |owner: &str, repo: &str, rev: &str| format!("https://huggingface.co/{owner}/{repo}/resolve/{rev}/");
    match parts.as_slice() {
        [owner, repo] => {
            Ok(Remote::Folder { base: resolve(owner, repo, "main"), query: String::new(), weights: Weights::Any })
        }
        [owner, repo, "tree", rev, dirs @ ..] => {
            let mut base = resolve(owner, repo, rev);
            for dir in dirs {
                base.push_str(dir);
                base.push('/');
            }
            Ok(Remote::Folder { base, query: String::new(), weights: Weights::Any })
        }
        [owner, repo, "blob" | "resolve" | "raw", rev, dirs @ .., file] => {
            let mut base = resolve(owner, repo, rev);
            for dir in dirs {
                base.push_str(dir);
                base.push('/');
            }
            Ok(match folder_weights(file) {
                Some(weights) => Remote::Folder { base, query: String::new(), weights },
                None => Remote::File { url: format!("{base}{file}"), projector: None },
            })
        }
        _ => Err(bad()),
    }
}

/// Undoes `%20` and the like in a `file:` URL.
fn percent_decode(text: &str) -> Result<String> {
    let bad =
        || Error::bad_option(format!("model: {text} has a % that is not followed by two hexadecimal digits of UTF-8"));
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let mut digit = || bytes.next().and_then(|d| (d as char).to_digit(16)).ok_or_else(bad);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn folder(base: &str, weights: Weights) -> ModelSpec {
        ModelSpec::Remote(Remote::Folder { base: base.into(), query: String::new(), weights })
    }

    fn file(url: &str) -> ModelSpec {
        ModelSpec::Remote(Remote::File { url: url.into(), projector: None })
    }

    #[test]
    fn a_projector_that_is_named_after_another_model_is_left_out() {
        let of = |model: &str, list: &[&str]| {
            let names: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            projector_beside(model, &names).map(str::to_owned)
        };
        let boxes = ["box.gguf", "embed.gguf", "mmproj-box.gguf"];
        assert_eq!(of("box.gguf", &boxes).as_deref(), Some("mmproj-box.gguf"));
        assert_eq!(of("embed.gguf", &boxes), None);
        // Of one that is named after none it is not known whose it is.
        let both = ["a.gguf", "ab.gguf", "mmproj-AB-F16.gguf", "mmproj-Q8_0.gguf"];
        assert_eq!(of("ab.gguf", &both).as_deref(), Some("mmproj-AB-F16.gguf"));
        assert_eq!(of("a.gguf", &both).as_deref(), Some("mmproj-Q8_0.gguf"));
        let published =
            ["LFM2.5-VL-450M-Q4_0.gguf", "mmproj-LFM2.5-VL-450m-F16.gguf", "mmproj-LFM2.5-VL-450m-Q8_0.gguf"];
        assert_eq!(of(published[0], &published).as_deref(), Some(published[2]));
    }

    #[test]
    fn what_a_user_may_write() {
        let hf = "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct";
        let cases = [
            ("builtin", ModelSpec::Builtin),
            ("models/a.gguf", ModelSpec::Path("models/a.gguf".into())),
            ("C:\\models\\a.gguf", ModelSpec::Path("C:\\models\\a.gguf".into())),
            ("file:///tmp/my%20model.gguf", ModelSpec::Path("/tmp/my model.gguf".into())),
            ("https://example.org/m/a.gguf", file("https://example.org/m/a.gguf")),
            ("https://example.org/a.gguf?sig=1#x", file("https://example.org/a.gguf?sig=1")),
            ("http://localhost:8080/notes.txt", file("http://localhost:8080/notes.txt")),
            ("blob:http://localhost/5f", file("blob:http://localhost/5f")),
            ("https://example.org/m/", folder("https://example.org/m/", Weights::Any)),
            ("https://example.org/m/qwen2.5-0.5b", folder("https://example.org/m/qwen2.5-0.5b/", Weights::Any)),
            ("https://example.org", folder("https://example.org/", Weights::Any)),
            ("https://example.org/m/manifest.json?v=2", {
                let query = "?v=2".into();
                ModelSpec::Remote(Remote::Folder {
                    base: "https://example.org/m/".into(),
                    query,
                    weights: Weights::Shards,
                })
            }),
            ("m/manifest.json", ModelSpec::Path("m/manifest.json".into())),
            ("https://example.org/m/config.json", folder("https://example.org/m/", Weights::Any)),
            ("https://example.org/m/model.safetensors", folder("https://example.org/m/", Weights::Single)),
            ("https://example.org/m/model.safetensors.index.json", folder("https://example.org/m/", Weights::Indexed)),
            (hf, folder(&format!("{hf}/resolve/main/"), Weights::Any)),
            (&format!("{hf}/tree/main"), folder(&format!("{hf}/resolve/main/"), Weights::Any)),
            (&format!("{hf}/tree/v2/onnx"), folder(&format!("{hf}/resolve/v2/onnx/"), Weights::Any)),
            (&format!("{hf}/blob/main/q/a-q4_0.gguf?download=true"), file(&format!("{hf}/resolve/main/q/a-q4_0.gguf"))),
            (&format!("{hf}/resolve/main/a.gguf"), file(&format!("{hf}/resolve/main/a.gguf"))),
            (&format!("{hf}/blob/main/config.json"), folder(&format!("{hf}/resolve/main/"), Weights::Any)),
        ];
        for (text, expected) in cases {
            assert_eq!(ModelSpec::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_so() {
        for (text, kind) in [
            ("", ErrorKind::BadOption),
            ("ftp://example.org/a.gguf", ErrorKind::BadOption),
            ("https:///a.gguf", ErrorKind::BadOption),
            ("https://example.org/a b.gguf", ErrorKind::BadOption),
            ("file:///tmp/%zz", ErrorKind::BadOption),
            ("https://huggingface.co/Qwen", ErrorKind::BadOption),
            ("https://huggingface.co/datasets/a/b", ErrorKind::BadOption),
        ] {
            assert_eq!(ModelSpec::parse(text).unwrap_err().kind(), kind, "{text}");
        }
    }

    #[test]
    fn a_signed_folder_keeps_its_query() {
        let spec = Remote::parse("https://example.org/m/config.json?sig=1").unwrap();
        assert_eq!(
            spec,
            Remote::Folder { base: "https://example.org/m/".into(), query: "?sig=1".into(), weights: Weights::Any }
        );
        assert_eq!(spec.url(), "https://example.org/m/?sig=1");
    }

    /// The projector is named behind the model, which keeps its address.
    #[test]
    fn a_projector_behind_the_address() {
        let hf = "https://huggingface.co/a/b/resolve/main/";
        for (text, expected) in [
            ("https://e.org/m/a.gguf#mmproj=mmproj-a.gguf", Some("https://e.org/m/mmproj-a.gguf")),
            ("https://e.org/m/a.gguf?sig=1#mmproj=mmproj-a.gguf", Some("https://e.org/m/mmproj-a.gguf?sig=1")),
            (
                "https://e.org/m/a.gguf#mmproj=https%3A%2F%2Fother.org%2Feyes.gguf%3Fv%3D2",
                Some("https://other.org/eyes.gguf?v=2"),
            ),
            (
                "https://huggingface.co/a/b/blob/main/a.gguf#mmproj=https://huggingface.co/a/b/blob/main/mmproj.gguf",
                Some(&format!("{hf}mmproj.gguf")),
            ),
            ("https://e.org/m/a.gguf#x", None),
            ("https://e.org/m/#mmproj=mmproj-a.gguf", None),
        ] {
            let remote = Remote::parse(text).unwrap();
            assert_eq!(remote.projector().map(|(_, url)| url), expected, "{text}");
            let plain = Remote::parse(text.split('#').next().unwrap()).unwrap();
            assert_eq!(remote.url(), plain.url(), "{text}: it is stored under the model's address");
        }
        for text in
            ["https://e.org/a.gguf#mmproj=", "https://e.org/a.gguf#mmproj=folder/", "https://e.org/a.gguf#mmproj=a%zz"]
        {
            assert_eq!(Remote::parse(text).unwrap_err().kind(), ErrorKind::BadOption, "{text}");
        }
        assert_eq!(projector_name("https://e.org/eyes.gguf?v=2"), "mmproj-eyes.gguf");
        assert_eq!(projector_name("https://e.org/mmproj-a-Q8_0.gguf"), "mmproj-a-Q8_0.gguf");
    }

    #[test]
    fn file_names_suit_every_store() {
        for (url, name) in [
            ("https://e.org/a/My%20Model.gguf?x=/y", "My_20Model.gguf"),
            ("https://e.org/", "model"),
            ("https://e.org/..", "model"),
            ("blob:http://localhost/5f-1", "5f-1"),
        ] {
            assert_eq!(Remote::file_name(url), name, "{url}");
        }
    }
}
