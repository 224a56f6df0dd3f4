//! No model, but a test of what models to come remember: Llama with layers of every kind of state. `layer_types` of its
//! configuration may say `full_attention`, `sliding_attention`, `shared_attention` (over the keys and values of the
//! last layer before it that has a whole cache) and `running_sum` (a recurrent layer whose state shows every step that
//! was run too many).

use super::config::{MixerKind, ModelConfig};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::{Error, Result};

pub const TOY: Architecture =
    Architecture { file: file!(), gguf: "millrace-toy", hf: &["MillraceToyForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "millrace-toy")?;
    let window = keys.size("", "sliding_window")?.map(|w| w as u32);
    let types = keys.texts("layer_types")?.unwrap_or_default();
    if types.len() != c.layers.len() {
        return Err(Error::bad_model("config.json: layer_types does not name each layer"));
    }
    let mut whole = None;
    for (i, (layer, name)) in c.layers.iter_mut().zip(types).enumerate() {
        match name {
            "full_attention" => whole = Some(i),
            "sliding_attention" => layer.window = window,
            "shared_attention" => {
                layer.mixer = MixerKind::Shared(whole.ok_or_else(|| Error::bad_model("config.json: nothing to share"))?)
            }
            "running_sum" => layer.mixer = MixerKind::RunningSum,
            other => return Err(Error::unsupported(format!("config.json: layer type {other:?}"))),
        }
    }
    Ok(c)
}
