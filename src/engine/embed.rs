//! Embeddings of texts, and ranking of documents by how well they answer a question.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{EmbedOptions, Engine, RerankOptions};
use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress, now_ms};
use crate::decode::Text;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::{ModelConfig, Pooling};
use crate::text::{Pair, Tokenizer};

/// The embeddings of texts.
#[derive(Debug, Clone, Serialize)]
pub struct Embeddings {
    /// A vector of each text, in the texts' order, with as many dimensions as were asked for.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts, with the tokens put before and behind them.
    pub tokens: usize,
    /// Number of texts that were longer than the model reads, and were cut.
    pub truncated: usize,
    /// The time of the call, ms.
    pub ms: f64,
}

/// A document and its score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranked {
    /// The document's index in the list.
    pub index: usize,
    /// How well the document answers, 0 to 1.
    pub score: f32,
}

/// Documents, the best first.
#[derive(Debug, Clone, Serialize)]
pub struct Ranking {
    /// As many documents as were asked for.
    pub ranking: Vec<Ranked>,
    /// Tokens of all documents, each with the question.
    pub tokens: usize,
    /// Documents that with the question were longer than the model reads, and were cut.
    pub truncated: usize,
    /// The time of the call, ms.
    pub ms: f64,
}

/// The text and tokens that are put around texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    /// Prompts by name.
    pub(super) prompts: Map<String, Value>,
    /// The name of the prompt that is used where a request names none.
    default: Option<String>,
    /// The token that ends a text where the tokenizer does not put it there.
    closing: Option<u32>,
    /// Tokens that stay at the end of a text that is cut.
    behind: usize,
    /// The longest text that the model was trained with, in tokens, where its folder says so.
    most: Option<usize>,
    /// Whether texts are lowercased.
    small: bool,
    /// The text around a question and a document, where a classifier scores them.
    pair: Option<Pair>,
}

/// The token that ends a text for Qwen3-Embedding; GGUF files do not always say so.
const QWEN_END: &str = "<|endoftext|>";
/// The prompts of models' folders, by architecture, which GGUF files lack.
const PROMPTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "qwen3",
        &[
            ("query", "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"),
            ("document", ""),
        ],
    ),
    (
        "gemma-embedding",
        &[
            ("query", "task: search result | query: "),
            ("document", "title: none | text: "),
            ("Clustering", "task: clustering | query: "),
            ("Classification", "task: classification | query: "),
            ("STS", "task: sentence similarity | query: "),
        ],
    ),
    (
        "nomic-bert",
        &[
            ("query", "search_query: "),
            ("document", "search_document: "),
            ("classification", "classification: "),
            ("clustering", "clustering: "),
        ],
    ),
];
/// Qwen3-Reranker's prompt, around instruction, question and document.
const QWEN_RERANK: [&str; 4] = [
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be \
     \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: ",
    "\n<Query>: ",
    "\n<Document>: ",
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
];
const QWEN_INSTRUCTION: &str = "Given a web search query, retrieve relevant passages that answer the query";

impl Around {
    pub(super) fn of(checkpoint: &Checkpoint, config: &ModelConfig, tokenizer: &Tokenizer) -> Result<Self> {
        let sentence = match &checkpoint.metadata {
            Metadata::Hf(folder) => folder.sentence.as_ref(),
            Metadata::Gguf(_) => None,
        };
        let said = |key: &str| sentence.and_then(|sentence| sentence.get(key));
        let most = said("max_seq_length").and_then(Value::as_u64).filter(|most| *most > 2).map(|most| most as usize);
        match config.pooling {
            None => return Ok(Self::default()),
            Some(Pooling::Rank) => {
                let pair = if config.encoder.both_ways { Some(tokenizer.pair()?) } else { None };
                return Ok(Self { most, pair, ..Self::default() });
            }
            Some(_) => {}
        }
        let qwen = config.architecture == "qwen3";
        let prompts = match said("prompts").unwrap_or(&Value::Null) {
            Value::Object(prompts) if prompts.values().all(Value::is_string) => prompts.clone(),
            Value::Null => {
                let known = PROMPTS
                    .iter()
                    .find(|(architecture, _)| *architecture == config.architecture)
                    .map_or(&[][..], |(_, prompts)| prompts);
                known.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect()
            }
            _ => return Err(Error::bad_model("config_sentence_transformers.json: prompts are no texts by name")),
        };
        let default = said("default_prompt_name").and_then(Value::as_str).map(str::to_owned);
        // A tokenizer.json has the tokens around a text itself.
        let closing = if qwen && checkpoint.tokenizer_files.is_none() { tokenizer.token_id(QWEN_END) } else { None };
        let small = said("do_lower_case") == Some(&Value::Bool(true));
        let behind = if closing.is_some() { 1 } else { tokenizer.tokens_behind()? };
        Ok(Self { prompts, default, closing, behind, most, small, pair: None })
    }

    fn prompt(&self, name: Option<&str>) -> Result<&str> {
        let Some(name) = name.or(self.default.as_deref()) else { return Ok("") };
        self.prompts.get(name).and_then(Value::as_str).ok_or_else(|| {
            let names: Vec<_> = self.prompts.keys().map(String::as_str).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::bad_option(format!(
                "embed: prompt {name:?} is none of the model's (known: {known}); put words of your own before the texts"
            ))
        })
    }
}

impl Engine {
    /// The embeddings of texts: vectors whose cosines say how similar texts are.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the model makes no embeddings, `BAD_OPTION` for a prompt that it does not have, more
    /// dimensions than it has or an empty list, `CONTEXT_FULL` for a text that is longer than the model reads, where
    /// such texts are not cut.
    pub async fn embed(
        &mut self,
        texts: &[String],
        options: &EmbedOptions,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Embeddings> {
        let started = now_ms();
        options.check()?;
        self.pools(true, "embed")?;
        let width = self.session.model().config().pooled().1;
        let kept = options.dimensions.map_or(width, |n| n as usize);
        if kept > width {
            return Err(Error::bad_option(format!(
                "embed: dimensions is {kept}, this model has {width}; ask for as many or fewer"
            )));
        }
        let prompt = self.around.prompt(options.prompt.as_deref())?;
        let mut read =
            texts.iter().map(|text| self.text_tokens(&format!("{prompt}{text}"))).collect::<Result<Vec<_>>>()?;
        let (most, behind) = (self.most(), self.around.behind);
        if let Some((i, long)) = read.iter().enumerate().find(|(_, tokens)| !options.truncate && tokens.len() > most) {
            let what = format!(
                "text {i} has {} tokens, and is read up to {most}; cut it, or let it be cut with truncate",
                long.len()
            );
            return Err(Error::new(ErrorKind::ContextFull, what));
        }
        let long = read.iter_mut().filter(|tokens| tokens.len() > most);
        // The tokens that the model wants at the end of a text are kept.
        let truncated =
            long.map(|tokens| drop(tokens.drain(most.saturating_sub(behind)..tokens.len() - behind))).count();
        let read: Vec<Text> = read.into_iter().map(Text::from).collect();
        let mut vectors = self.pooled("embed", &read, progress, cancel).await?;
        // nomic-embed is trained to have its dimensions cut after a LayerNorm without weights.
        let centred = kept < width && self.session.model().config().architecture == "nomic-bert";
        for vector in &mut vectors {
            if centred {
                center(vector);
            }
            vector.truncate(kept);
            if options.normalize {
                let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                let factor = if length > 0.0 { length.recip() } else { 0.0 };
                vector.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
            }
        }
        Ok(Embeddings { vectors, tokens: total(&read), truncated, ms: now_ms() - started })
    }

    /// Ranks documents by how well they answer a question, the best first.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the model does not rank, `BAD_OPTION` for an empty list, `CONTEXT_FULL` for a document
    /// that is too long.
    pub async fn rerank(
        &mut self,
        query: &str,
        documents: &[String],
        options: &RerankOptions,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Ranking> {
        let started = now_ms();
        options.check()?;
        self.pools(false, "rerank")?;
        let mut truncated = 0;
        let read = match &self.around.pair {
            Some(_) if options.instruction.is_some() => {
                return Err(Error::bad_option(
                    "rerank: instruction: this model reads question and document alone; leave it out",
                ));
            }
            Some(pair) => {
                let query = self.tokenizer.encode(query, false)?;
                let room = self.most().saturating_sub(pair.before.len() + pair.between.len() + pair.behind.len());
                let read = |document: &String| {
                    let document = self.tokenizer.encode(document, false)?;
                    let [first, second] = shares(query.len(), document.len(), room);
                    truncated += usize::from(first + second < query.len() + document.len());
                    let begun = [&pair.before, &query[..first], &pair.between].concat();
                    let second_at = if pair.typed { begun.len() } else { usize::MAX };
                    Ok(Text { tokens: [&begun, &document[..second], &pair.behind].concat(), second: second_at })
                };
                documents.iter().map(read).collect::<Result<Vec<_>>>()?
            }
            None => {
                let [before, of_query, of_document, behind] = QWEN_RERANK;
                let instruction = options.instruction.as_deref().unwrap_or(QWEN_INSTRUCTION);
                let text = |document: &String| {
                    format!("{before}{instruction}{of_query}{query}{of_document}{document}{behind}")
                };
                documents
                    .iter()
                    .map(|document| Ok(self.tokenizer.encode(&text(document), false)?.into()))
                    .collect::<Result<Vec<_>>>()?
            }
        };
        let scores = self.pooled("rerank", &read, progress, cancel).await?;
        // A softmax over the two answers' logits, or over one score and 0.
        let yes = |logits: &Vec<f32>| {
            (1.0 / (1.0 + (f64::from(logits.get(1).copied().unwrap_or(0.0)) - f64::from(logits[0])).exp())) as f32
        };
        let mut ranking: Vec<Ranked> =
            scores.iter().map(yes).enumerate().map(|(index, score)| Ranked { index, score }).collect();
        ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranking.truncate(options.top_n.map_or(usize::MAX, |n| n as usize));
        Ok(Ranking { ranking, tokens: total(&read), truncated, ms: now_ms() - started })
    }

    /// The tokens of the longest text that is read whole.
    fn most(&self) -> usize {
        let context = self.session.context() as usize;
        self.around.most.map_or(context, |most| most.min(context))
    }

    /// A text's tokens with those that the model wants around them.
    fn text_tokens(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = if self.around.small {
            self.tokenizer.encode(&text.to_lowercase(), true)?
        } else {
            self.tokenizer.encode(text, true)?
        };
        let closing =
            self.around.closing.filter(|_| tokens.last().is_none_or(|last| !self.tokenizer.eos_ids().contains(last)));
        tokens.extend(closing);
        Ok(tokens)
    }

    async fn pooled(
        &mut self,
        what: &str,
        texts: &[Text],
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Vec<Vec<f32>>> {
        if texts.is_empty() {
            return Err(Error::bad_option(format!("{what}: the list is empty; give at least one text")));
        }
        let mut on_read = |done: usize| progress(Progress::new(Phase::Prompt, done as u64, texts.len() as u64));
        let rows = self
            .surviving(progress, cancel, async |engine| engine.session.pool(texts, cancel, &mut on_read).await)
            .await?;
        if rows.iter().flatten().all(|x| x.is_finite()) {
            return Ok(rows);
        }
        let lane = self.session.lane().name();
        Err(Error::gpu(format!(
            "{what}: the model computed what is no number in lane {lane}; load it with lane \"exact\""
        )))
    }

    /// An error where the model was not made, or loaded, to embed (`embeds`), or else to rank.
    fn pools(&self, embeds: bool, what: &str) -> Result<()> {
        let pooling = self.session.model().config().pooling;
        if pooling.is_some_and(|pooling| pooling.embeds() == embeds) {
            return Ok(());
        }
        let (does, example, name) = match embeds {
            true => ("embeds", "Qwen3-Embedding or all-MiniLM", "last"),
            false => ("judges", "Qwen3-Reranker or bge-reranker-v2-m3", "rank"),
        };
        let is = match pooling {
            None => "writes",
            Some(Pooling::Rank) => "judges documents",
            Some(_) => "embeds",
        };
        Err(Error::unsupported(format!(
            "{what}: this model {is}; load one that {does}, as {example}, or load this one with pooling {name:?} if it was trained so"
        )))
    }
}

/// LayerNorm without weights.
fn center(vector: &mut [f32]) {
    let mean_of = |f: &dyn Fn(f64) -> f64| vector.iter().map(|x| f(f64::from(*x))).sum::<f64>() / vector.len() as f64;
    let mean = mean_of(&|x| x);
    let deviation = (mean_of(&|x| (x - mean).powi(2)) + 1e-5).sqrt();
    vector.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) / deviation) as f32);
}

fn total(texts: &[Text]) -> usize {
    texts.iter().map(|text| text.tokens.len()).sum()
}

/// Tokens of two texts that are read where both together have to fit into `room`: the longer is cut first, and both to
/// equal length where that is not enough.
fn shares(first: usize, second: usize, room: usize) -> [usize; 2] {
    if first + second <= room {
        return [first, second];
    }
    let short = first.min(second).min(room / 2);
    let long = room - short;
    if first <= second { [short, long] } else { [long, short] }
}
