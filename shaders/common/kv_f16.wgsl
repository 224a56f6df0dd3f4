// The KV cache in packed halves: four elements in two u32, low half first.
fn unpack_kv(v: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }
