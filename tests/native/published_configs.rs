//! Published config.json files: the configuration is read, or what is unsupported is named. The table has the keys of
//! each class with their values, and which of the sources have which.

use std::collections::BTreeMap;

use millrace::model;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::families::with_tensors;

/// What was published of a class.
#[derive(Deserialize)]
struct Class {
    /// Sources: a public repository and a path in it.
    from: Vec<String>,
    /// Each key's values, with the numbers of the sources that have it so; all of them where there are none. A key of
    /// a part of the configuration has the part's name and a slash before it.
    keys: BTreeMap<String, Vec<Has>>,
    /// For some sources, the word that an error must name.
    #[serde(default)]
    refused: BTreeMap<String, Vec<usize>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Has {
    All([Value; 1]),
    Some(Value, Vec<usize>),
}

/// A published configuration: its class, where it is from, itself, and the word by which it is refused.
pub struct Published {
    pub class: String,
    pub from: String,
    pub config: Map<String, Value>,
    pub refused: Option<String>,
}

pub fn all() -> Vec<Published> {
    let table = crate::common::bytes("published_configs/keys.json");
    let table: BTreeMap<String, Class> = serde_json::from_slice(&table).expect("a table");
    let mut all = Vec::new();
    for (class, Class { from, keys, refused }) in table {
        for (i, from) in from.into_iter().enumerate() {
            let mut config = json!({ "architectures": [class] });
            for (key, values) in &keys {
                let value = values.iter().find_map(|has| match has {
                    Has::All([value]) => Some(value),
                    Has::Some(value, sources) => sources.contains(&i).then_some(value),
                });
                if let Some(value) = value {
                    let place = key.split('/').fold(&mut config, |place, part| &mut place[part]);
                    *place = value.clone();
                }
            }
            let Value::Object(config) = config else { panic!("no object") };
            let refused = refused.iter().find(|(_, sources)| sources.contains(&i)).map(|(word, _)| word.clone());
            all.push(Published { class: class.clone(), from, config, refused });
        }
    }
    all
}

#[test]
fn published_configurations_are_read_or_what_is_unsupported_is_named() {
    let (mut wrong, published) = (Vec::new(), all());
    let read = published.iter().filter(|one| one.refused.is_none()).count();
    assert!(published.len() > 200 && read > 150, "{read} of {} are read", published.len());
    for Published { class, from, config, refused } in published {
        // A classifier is read by its tensors.
        let width = config.get("hidden_size").and_then(Value::as_u64).unwrap_or(1);
        let judges = class.ends_with("ForSequenceClassification");
        let classifier = [("dense", [width, width]), ("out_proj", [1, width])].into_iter().filter(|_| judges);
        let tensors = classifier.map(|(name, shape)| (format!("classifier.{name}.weight"), shape.to_vec()));
        let header = with_tensors(config, tensors);
        match (model::list(&header), refused) {
            (Ok(_), None) => {}
            (Ok(_), Some(word)) => wrong.push(format!("{class} of {from} is read, despite {word}")),
            (Err(error), Some(word)) if error.message().contains(&word) => {}
            (Err(error), _) => {
                let message: String = error.message().chars().take(200).collect();
                wrong.push(format!("{class} of {from}: {} {message}", error.code()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
