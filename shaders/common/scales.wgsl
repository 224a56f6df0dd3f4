@group(0) @binding(2) var<storage, read> ws: array<u32>;   // f16 scale of block b: half b & 1 of ws[b >> 1]
{% set shared = shared | default(0) %}{# of 2 ^ shared blocks: b >> shared instead of b #}
{% include "common/half.wgsl" %}

fn w_scale(b: u32) -> f32 {
    let at = b{{ " >> " ~ shared ~ "u" if shared else "" }};
    return half_value((ws[at >> 1u] >> ((at & 1u) * 16u)) & 0xffffu);
}
fn w_scales(b: u32) -> vec3<f32> {
    let d = w_scale(b);
    return vec3<f32>(d, d, 0.0);
}
