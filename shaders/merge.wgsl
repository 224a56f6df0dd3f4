// Joins the splits of `attention`: y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s, m the largest m_s.
// Works on blocks of 32 of the flattened H*E outputs, so that a block can be quantized whatever E is: grid [ceil(KB / 8)].
// Four invocations share four neighbouring elements and deal the splits out among themselves, because what takes time is the wait
// for loads.
{% include "common/state.wgsl" %}
{% if out == "q8" %}{% include "common/quantize.wgsl" %}{% endif %}
override H: u32;      // query heads
override E: u32;      // head width, a multiple of 4
override SPLIT: u32;  // keys a split
override KB: u32;     // blocks of 32: ceil(H*E / 32)

@group(0) @binding(1) var<storage, read> po: array<vec4<f32>>;  // [splits][H][E/4]
@group(0) @binding(2) var<storage, read> ml: array<vec2<f32>>;  // [splits][H]
{% if out == "f32" %}
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;   // [KB*8], zero beyond H*E
{% else %}
@group(0) @binding(3) var<storage, read_write> yq: array<u32>;        // [KB][8]
@group(0) @binding(4) var<storage, read_write> ys: array<vec2<f32>>;  // [KB]
{% endif %}

const COLUMNS = 64u;  // vec4 of the output that a workgroup makes
const PARTS = {{ workgroup }}u / COLUMNS;
const LOWEST = -3.4028234e38;

var<workgroup> sums: array<vec4<f32>, {{ workgroup }}>;  // [PARTS][COLUMNS]
var<workgroup> mls: array<vec2<f32>, {{ workgroup }}>;   // [PARTS][COLUMNS]

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let width = H * E / 4u;
    let column = li % COLUMNS;
    let part = li / COLUMNS;
    let i = wid.x * COLUMNS + column;
    var sum = vec4<f32>();
    var m = LOWEST;
    var l = 0.0;
    if (i < width) {
        let head = i / (E / 4u);
        let last = state.pos / SPLIT;
        for (var s = part; s <= last; s += 4u * PARTS) {
            // Four splits under way at once; those beyond the last weigh nothing.
{% for k in range(4) %}
            let s{{ k }} = s + {{ k }}u * PARTS;
            let t{{ k }} = min(s{{ k }}, last);
            var ml{{ k }} = ml[t{{ k }} * H + head];
            let o{{ k }} = po[t{{ k }} * width + i];
            if (s{{ k }} > last) { ml{{ k }} = vec2<f32>(LOWEST, 0.0); }
{% endfor %}
            let m_before = m;
            m = max(max(m, max(ml0.x, ml1.x)), max(ml2.x, ml3.x));
            let rescale = exp(m_before - m);
            l *= rescale;
            sum *= rescale;
{% for k in range(4) %}
            let w{{ k }} = exp(ml{{ k }}.x - m);
            l += w{{ k }} * ml{{ k }}.y;
            if (s{{ k }} <= last) { sum += w{{ k }} * o{{ k }}; }
{% endfor %}
        }
    }
    sums[li] = sum;
    mls[li] = vec2<f32>(m, l);
    workgroupBarrier();
    var value = vec4<f32>();
    if (part == 0u && i < width) {
        for (var k = 1u; k < PARTS; k++) { m = max(m, mls[k * COLUMNS + column].x); }
        l = 0.0;
        for (var k = 0u; k < PARTS; k++) {
            let of_part = mls[k * COLUMNS + column];
            let weight = exp(of_part.x - m);
            l += weight * of_part.y;
            value += weight * sums[k * COLUMNS + column];
        }
        value /= l;
    }
    let block = i / 8u;
{% if out == "f32" %}
    if (part == 0u && block < KB) { y[i] = value; }
{% else %}
    let q = quantize(value, li);
    if (part == 0u && block < KB) {
        yq[i] = q.packed;
        if (li % 8u == 0u) { ys[block] = q.scale; }
    }
{% endif %}
}
