// The KV cache in packed halves, [G][CAP][EP / 8] of eight: two in a u32, low half first.
{% include "common/halves.wgsl" %}
fn unpack_kv(v: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }
