override SOFTCAP: f32 = 0.0;  // scores s become SOFTCAP tanh(s / SOFTCAP); 0: they stay

// The slot of `key`, which is less than `cap` after `first`, whose slot is `first_slot`.
fn slot(key: u32, first: u32, first_slot: u32, cap: u32) -> u32 {
    // Known when the pipeline is compiled: slots never begin again.
    if (WINDOW == 4294967295u) { return key; }
    let s = first_slot + (key - first);
    return s - select(0u, cap, s >= cap);
}
{% for type in ["f32", "vec4<f32>"] %}
fn capped{{ loop.index0 }}(s: {{ type }}) -> {{ type }} {
    if (SOFTCAP == 0.0) { return s; }
    // Some GPUs overflow in the exponentials of large arguments.
    return SOFTCAP * tanh(clamp(s / SOFTCAP, {{ type }}(-10.0), {{ type }}(10.0)));
}
{% endfor %}
