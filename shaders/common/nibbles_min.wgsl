// The int8 product of types whose blocks are nibbles with a scale and a min.
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, s: vec2<f32> }
fn load_w(b: u32) -> W {
    return W(wq[b], w_scales(b).xz);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let lo = w.q & vec4<u32>(0x0f0f0f0fu);
    let hi = (w.q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    let t = dot4I8Packed(lo.x, xa.x) + dot4I8Packed(lo.y, xa.y) + dot4I8Packed(lo.z, xa.z) + dot4I8Packed(lo.w, xa.w)
          + dot4I8Packed(hi.x, xb.x) + dot4I8Packed(hi.y, xb.y) + dot4I8Packed(hi.z, xb.z) + dot4I8Packed(hi.w, xb.w);
    return w.s.x * (xs.x * f32(t)) - w.s.y * xs.y;
}
{% endif %}
