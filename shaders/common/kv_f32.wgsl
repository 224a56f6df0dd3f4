// The KV cache in f32: four elements a vec4.
fn unpack_kv(v: vec4<f32>) -> vec4<f32> { return v; }
fn pack_kv(v: vec4<f32>) -> vec4<f32> { return v; }
