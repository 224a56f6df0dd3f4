// Outputs act(gate) * up, or act(gate), 32 a workgroup: a block, quantized where activations are int8.
override F: u32;      // outputs
override GATED: u32 = 1u;   // 0: there are no up rows
{% from "common/stored.wgsl" import stored with context %}
{% if out == "q8" %}
@group(0) @binding(5) var<storage, read_write> yq: array<u32>;         // [ceil(F / 32)][8]
@group(0) @binding(6) var<storage, read_write> ys: array<vec2<f32>>;   // [ceil(F / 32)]
{% else %}
@group(0) @binding(5) var<storage, read_write> y: array<vec4<{{ out }}>>;    // [ceil(F / 32) * 8], zeros beyond F
{% endif %}
var<workgroup> outputs: array<f32, 32>;

{% from "common/shuffles" ~ through ~ ".wgsl" import most, sum with context %}
// Writes `outputs` as block `block`. All of the workgroup call it.
fn write_outputs(block: u32, li: u32) {
    workgroupBarrier();
    // Eight invocations take four outputs each{% if out == "q8" and lanes >= 8 %}; all groups of eight do, as shuffles need every invocation{% endif %}.
    let at = li % 8u;
    let v = vec4<f32>(outputs[at * 4u], outputs[at * 4u + 1u], outputs[at * 4u + 2u], outputs[at * 4u + 3u]);
{% if out == "q8" %}
{% if lanes >= 8 %}
    var largest = largest4(v);
{{ most("largest", 8) }}
    let d = largest / 127.0;
    let packed = quantize4(v, d);
    var sum = total4(packed);
{{ sum("sum", 8, "i32") }}
{% else %}
    if (li >= 8u) { return; }
    var largest = 0.0;
    for (var i = 0u; i < 32u; i++) { largest = max(largest, abs(outputs[i])); }
    let d = largest / 127.0;
    let packed = quantize4(v, d);
    var sum = 0;
    if (li == 0u) {
        for (var i = 0u; i < 32u; i += 4u) { sum += total4(quantize4(vec4<f32>(outputs[i], outputs[i + 1u], outputs[i + 2u], outputs[i + 3u]), d)); }
    }
{% endif %}
    if (li < 8u) { yq[block * 8u + li] = packed; }
    if (li == 0u) { ys[block] = vec2<f32>(d, d * f32(sum)); }
{% else %}
    if (li < 8u) { y[block * 8u + li] = {{ stored('v') }}; }
{% endif %}
}
{% include "common/activation.wgsl" %}
