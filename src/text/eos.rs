//! Which tokens end an answer.

/// Tokens that end a turn of a conversation, under the names that families give them. Checkpoints often name only the
/// end-of-text token; a chat model that is not stopped here talks on as the user.
const TURN_ENDS: [&str; 11] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<turn|>",
    "<|return|>",
    "<|call|>",
    "<|tool_response>",
];

/// `ids`, and the turn ends that are special tokens of the vocabulary and that the chat template writes.
pub(super) fn with_turn_ends(mut ids: Vec<u32>, tokenizer: &tokenizers::Tokenizer, template: Option<&str>) -> Vec<u32> {
    let added = tokenizer.get_added_tokens_decoder();
    for name in TURN_ENDS {
        let used = template.is_some_and(|t| t.contains(name));
        // What answers a call is no special token in Gemma's files, so that it is seen.
        let id = tokenizer
            .token_to_id(name)
            .filter(|id| added.get(id).is_some_and(|t| t.special || name == "<|tool_response>"));
        // In harmony it ends a message, of which an answer may have several.
        if name == "<|end|>" && tokenizer.token_to_id("<|return|>").is_some() {
            continue;
        }
        if let Some(id) = id.filter(|_| used) {
            ids.push(id);
        }
    }
    let mut unique = indexmap::IndexSet::new();
    unique.extend(ids);
    unique.into_iter().collect()
}
