// The KV cache in f32, [G][CAP][EP / 4] of four.
fn unpack_kv(v: vec4<f32>) -> vec4<f32> { return v; }
