// The KV cache in packed halves: four elements in two u32, low half first.
{% include "common/halves.wgsl" %}
fn unpack_kv(v: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }
fn pack_kv(v: vec4<f32>) -> vec2<u32> { return vec2<u32>(pack_halves(v.x, v.y), pack_halves(v.z, v.w)); }
