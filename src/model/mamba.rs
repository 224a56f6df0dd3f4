//! The configuration of Mamba-2, by Granite's keys; other architectures rename theirs to these.

use serde_json::{Value, json};

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::plan::{GatedNorm, LinearFactors, LinearHeads, LinearKind, Rule};

/// Mamba-2 of a model of that `width`; `norm` is given the number of values and of groups.
pub fn read(
    keys: &Keys<'_>,
    width: usize,
    eps: f64,
    norm: impl FnOnce(usize, usize) -> GatedNorm,
) -> Result<LinearKind> {
    keys.must_be("mamba_proj_bias", &json!(false))?;
    // How a scan is cut into pieces, and how weights once began.
    keys.ignore(&["mamba_chunk_size", "mamba_expand", "mamba_d_ssm", "mamba_d_head"]);
    if keys.list("time_step_limit")?.is_some_and(|limits| !unlimited(limits)) {
        return Err(Error::unsupported("config.json: time_step_limit: steps that are cut off"));
    }
    let heads = keys.need("ssm.time_step_rank", "mamba_n_heads")?;
    let inner = match (keys.size("ssm.inner_size", "mamba_d_ssm")?, keys.count("mamba_d_head")) {
        (Some(inner), _) => inner,
        (None, Ok(Some(each))) => heads * each,
        // Where a head's width is called "auto".
        (None, _) => keys.size("", "mamba_expand")?.unwrap_or(2) * width,
    };
    let key_heads = keys.need("ssm.group_count", "mamba_n_groups")?;
    if !inner.is_multiple_of(heads) || !inner.is_multiple_of(key_heads) {
        return Err(Error::bad_model(format!("{inner} channels of Mamba for {heads} heads and {key_heads} groups")));
    }
    let heads = LinearHeads {
        rule: Rule::Mamba,
        heads,
        key_heads,
        tiled: false,
        key: keys.need("ssm.state_size", "mamba_d_state")?,
        value: inner / heads,
        taps: keys.need("ssm.conv_kernel", "mamba_d_conv")?,
    };
    let conv_bias = if keys.is_gguf() {
        keys.any_tensor("ssm_conv1d.bias")
    } else {
        keys.flag("", "mamba_conv_bias")?.unwrap_or(true)
    };
    Ok(LinearKind {
        heads,
        norm: norm(inner, key_heads),
        eps,
        conv_bias,
        a_log: !keys.is_gguf(),
        factors: LinearFactors::NONE,
    })
}

/// Steps are softplus of sums: no limit from a hundred on is ever met. JSON has no infinity; transformers writes an
/// object.
fn unlimited(limits: &[Value]) -> bool {
    let [least, most] = limits else { return false };
    least.as_f64() == Some(0.0)
        && (most.as_f64().is_some_and(|most| most >= 100.0) || *most == json!({ "__float__": "Infinity" }))
}
