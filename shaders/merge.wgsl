// Joins the splits of `attention`: y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s, m the largest m_s.
// Works on blocks of 32 of the flattened H*E outputs, so that a block can be quantized whatever E is: one a workgroup, grid [KB, T]. Its
// eight columns of four elements have {{ workgroup // 8 }} invocations each, which deal the splits out among themselves, because what takes time is the wait for loads.
{% set sg = reduce == "sg16" %}
{% from "common/stored.wgsl" import stored with context %}
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/window.wgsl" %}
{% include "common/splits.wgsl" %}
{% if out == "q8" %}{% if sg %}{% include "common/int8.wgsl" %}{% else %}{% include "common/quantize.wgsl" %}{% endif %}{% endif %}
override H: u32;      // query heads
override E: u32;      // head width, a multiple of 4
override GROUPS: u32; // workgroups of attention that share a split's number
override KB: u32;     // blocks of 32: ceil(H*E / 32)

@group(0) @binding(1) var<storage, read> po: array<vec4<f32>>;  // [T][splits][H][E/4]
@group(0) @binding(2) var<storage, read> ml: array<vec2<f32>>;  // [T][splits][H]
{% if out != "q8" %}
@group(0) @binding(3) var<storage, read_write> y: array<vec4<{{ out }}>>;   // [T][KB*8], zero beyond H*E
{% else %}
@group(0) @binding(3) var<storage, read_write> yq: array<u32>;        // [T][KB][8]
@group(0) @binding(4) var<storage, read_write> ys: array<vec2<f32>>;  // [T][KB]
{% endif %}

@group(0) @binding(5) var<storage, read> gate: array<f32>;    // [T][QSTRIDE]: where GATE is not 0, gates of the outputs from GATE on
override GATE: u32 = 0u;
override QSTRIDE: u32 = 0u;
override FACTOR: f32 = 1.0;   // of the outputs
@group(0) @binding(6) var<storage, read> sinks: array<f32>;   // [H]: where SINKS is 1, a score of each head that no value belongs to
override SINKS: u32 = 0u;
// y times the sigmoid of its gate.
fn gated(y: vec4<f32>, row: u32, i: u32) -> vec4<f32> {
    if (GATE == 0u) { return FACTOR * y; }
    let at = row * QSTRIDE + GATE + 4u * i;
    return FACTOR * y / (1.0 + exp(-vec4<f32>(gate[at], gate[at + 1u], gate[at + 2u], gate[at + 3u])));
}

const COLUMNS = 8u;  // vec4 of a block
const PARTS = {{ workgroup }}u / COLUMNS;
const LOWEST = -3.4028234e38;

{% if sg %}
{% from "common/shuffles" ~ (emulated | default("")) ~ ".wgsl" import exchange, most, sum with context %}
{{ exchange() }}
var<workgroup> values: array<vec4<f32>, COLUMNS>;
{% else %}
var<workgroup> sums: array<vec4<f32>, {{ workgroup }}>;  // [PARTS][COLUMNS]
var<workgroup> mls: array<vec2<f32>, {{ workgroup }}>;   // [PARTS][COLUMNS]
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = wid.y;
    if (state.done != 0u || wid.x >= KB || rests(row)) { return; }
    let width = H * E / 4u;
{% if sg %}
    // Sixteen lanes of a subgroup share a column.
    let column = li / PARTS;
    let part = li % PARTS;
{% else %}
    let column = li % COLUMNS;
    let part = li / COLUMNS;
{% endif %}
    let i = wid.x * COLUMNS + column;
    let cut = splits_of(GROUPS, row);
    let last = (seen(position_of(row)) - 1u) / cut.keys;
    let splits = row * cut.apart;
    let block = row * KB + wid.x;
    var sum = vec4<f32>();
    var m = LOWEST;
    var l = 0.0;
    if (i < width) {
        let head = i / (E / 4u);
        if (SINKS == 1u && part == 0u) {
            m = sinks[head];
            l = 1.0;
        }
        for (var s = part; s <= last; s += 2u * PARTS) {
            // Two splits under way at once; one beyond the last weighs nothing.
            let t = min(s + PARTS, last);
            let a = ml[(splits + s) * H + head];
            var b = ml[(splits + t) * H + head];
            let oa = po[(splits + s) * width + i];
            let ob = po[(splits + t) * width + i];
            if (s + PARTS > last) { b = vec2<f32>(LOWEST, 0.0); }
            let m_before = m;
            m = max(m, max(a.x, b.x));
            let rescale = exp(m_before - m);
            let wa = exp(a.x - m);
            let wb = select(exp(b.x - m), 0.0, s + PARTS > last);
            l = l * rescale + wa * a.y + wb * b.y;
            sum = sum * rescale + wa * oa + wb * ob;
        }
    }
{% if sg %}
    let m_own = m;
{{ most("m", 16) }}
    let weight = exp(m_own - m);
    l *= weight;
    sum *= weight;
{{ sum("l", 16) }}
{{ sum("sum", 16, "vec4") }}
    if (part == 0u) {
        var own = vec4<f32>();
        if (i < width) { own = gated(sum / l, row, i); }
        values[column] = own;
    }
    workgroupBarrier();
    let at = li % COLUMNS;
    let value = values[at];
{% if out != "q8" %}
    if (li < COLUMNS) { y[block * COLUMNS + at] = {{ stored('value') }}; }
{% else %}
    var largest = largest4(value);
{{ most("largest", 8) }}
    let d = largest / 127.0;
    let packed = quantize4(value, d);
    var total = total4(packed);
{{ sum("total", 8, "i32") }}
    if (li < COLUMNS) { yq[block * COLUMNS + at] = packed; }
    if (li == 0u) { ys[block] = vec2<f32>(d, d * f32(total)); }
{% endif %}
{% else %}
    sums[li] = sum;
    mls[li] = vec2<f32>(m, l);
    workgroupBarrier();
    var value = vec4<f32>();
    if (part == 0u && i < width) {
        let used = min(PARTS, last + 1u);
        for (var k = 1u; k < used; k++) { m = max(m, mls[k * COLUMNS + column].x); }
        l = 0.0;
        for (var k = 0u; k < used; k++) {
            let of_part = mls[k * COLUMNS + column];
            let weight = exp(of_part.x - m);
            l += weight * of_part.y;
            value += weight * sums[k * COLUMNS + column];
        }
        value = gated(value / l, row, i);
    }
{% if out != "q8" %}
    if (part == 0u) { y[block * COLUMNS + column] = {{ stored('value') }}; }
{% else %}
    let q = quantize(value, li);
    if (part == 0u) {
        yq[block * COLUMNS + column] = q.packed;
        if (column == 0u) { ys[block] = q.scale; }
    }
{% endif %}
{% endif %}
}
