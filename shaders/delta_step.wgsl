// Linear attention in a decode step, from the projections to what a head gives. Grid [HEADS, VALUE / {{ tile[0] }}, T]: a workgroup has {{ tile[0] }} columns
// of a head's state, eight invocations each.
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/conv.wgsl" %}
{% include "common/delta.wgsl" %}
{% include "common/gates.wgsl" %}
{% include "common/conv_silu.wgsl" %}
{% with sum = "vec4<f32>", reduce = "wg" %}{% include "common/reduce.wgsl" %}{% endwith %}
@group(0) @binding(5) var<storage, read_write> conv: array<f32>;        // [slots][RING][CHANNELS]: the last rows' channels
@group(0) @binding(6) var<storage, read_write> s: array<vec4<f32>>;     // [slots][HEADS][VALUE][KEY / 4]
@group(0) @binding(7) var<storage, read_write> y: array<f32>;           // [T][HEADS * VALUE]
{% if several is defined %}
{% with kept_at = 8, kept_access = "read_write" %}{% include "common/kept.wgsl" %}{% endwith %}
override DRAFTER: u32 = 0u;   // 1: a draft model's step, before which it has taken state.step since the model's last one
{% endif %}
override SCALE: f32;   // of queries

const COLUMNS = {{ tile[0] }}u;
const LANES = 8u;                      // of a column
const FOURS = {{ max_key }}u / 32u;    // vec4 of a lane, at most
var<workgroup> query: array<f32, {{ max_key }}>;
var<workgroup> key: array<f32, {{ max_key }}>;
var<workgroup> value: array<f32, COLUMNS>;
var<workgroup> dots: array<vec2<f32>, {{ workgroup }}>;

fn four_q(i: u32) -> vec4<f32> { return vec4<f32>(query[4u * i], query[4u * i + 1u], query[4u * i + 2u], query[4u * i + 3u]); }
fn four_k(i: u32) -> vec4<f32> { return vec4<f32>(key[4u * i], key[4u * i + 1u], key[4u * i + 2u], key[4u * i + 3u]); }

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let own = wid.z;
    if (rests(own)) { return; }
    let slot = slot_of(own);
    let head = wid.x;
    let first = wid.y * COLUMNS;
    let shared_head = key_head(head);
    // One of the workgroups that read a query and a key takes them to the state.
    let keeps = wid.y == 0u && select((head < KEY_HEADS), head % KEYS_EACH == 0u, KEYS_EACH != 1u);
    // What takes longest is on its way first.
    let column = li / LANES;
    let lane = li % LANES;
    let at = ((slot * HEADS + head) * VALUE + first + column) * (KEY / 4u);
    var part = array<vec4<f32>, FOURS>();
    for (var j = 0u; j < FOURS; j++) {
        let i = j * LANES + lane;
        if (i < KEY / 4u) { part[j] = s[at + i]; }
    }
{% if several is defined %}
    let drafts = !apart();
    let before = DRAFTER * state.step;
    if (drafts) {
        if (own > 0u) { return; }
        // Rows of the step before, or those of this round, before the first of which the others are taken over.
        let others = before == 0u;
        let counts = min(select(before, state.kept, others), {{ few_rows }}u);
        let side = select(state.side, 1u - state.side, others);
        for (var t = 0u; t < counts; t++) {
            for (var j = 0u; j < FOURS; j++) {
                let i = j * LANES + lane;
                if (i < KEY / 4u) { part[j] = taken_over(part[j], side, t, head, first + column, i); }
            }
        }
        if (others && state.kept > 0u && (state.rows > 1u || DRAFTER == 1u)) {
            for (var j = 0u; j < FOURS; j++) {
                let i = j * LANES + lane;
                if (i < KEY / 4u) { s[at + i] = part[j]; }
            }
        }
    }
    let end = select(own + 1u, min(state.rows, {{ few_rows }}u), drafts);
    let stays = drafts && (state.rows > 1u || DRAFTER == 1u);
    for (var row = own; row < end; row++) {
    if (row > own) { workgroupBarrier(); }   // the row before has been read
{% else %}
    let row = own;
{% endif %}
    let position = position_of(row);
    let gate = gates_of(row, head);
    var sums = vec4<f32>();
    for (var i = li; i < KEY; i += {{ workgroup }}u) {
        let of_q = Q_AT + shared_head * KEY + i;
        let of_k = K_AT + shared_head * KEY + i;
        let q = convolved(row, of_q);
        let k = convolved(row, of_k);
        query[i] = q;
        key[i] = k;
        sums += vec4<f32>(q * q, k * k, q * k, 0.0);
        if (keeps) {
            conv[ring(slot, of_q, position)] = x[row * STRIDE + CONV_AT + of_q];
            conv[ring(slot, of_k, position)] = x[row * STRIDE + CONV_AT + of_k];
        }
    }
    if (li < COLUMNS) {
        let of_v = V_AT + head * VALUE + first + li;
        value[li] = convolved(row, of_v);
        conv[ring(slot, of_v, position)] = x[row * STRIDE + CONV_AT + of_v];
    }
    sums = workgroup_sum(sums, li);   // its barriers are those of query, key and value, too
    var unit = vec2<f32>(1.0);
    if (DELTA == 1u) { unit = inverseSqrt(sums.xy + 1e-6); }
    let decay = exp(gate.x);
    var dot_kq = vec2<f32>();
    for (var j = 0u; j < FOURS; j++) {
        let i = j * LANES + lane;
        if (i < KEY / 4u) {
            part[j] *= decay;
            dot_kq += vec2<f32>(dot(part[j], four_k(i)), dot(part[j], four_q(i)));
        }
    }
    dots[li] = dot_kq;
    workgroupBarrier();
    dot_kq = vec2<f32>();
    for (var i = 0u; i < LANES; i++) { dot_kq += dots[column * LANES + i]; }
    dot_kq *= unit.yx;
    let v = value[column];
    var d = gate.y * v;
    if (DELTA == 1u) { d = gate.y * (v - dot_kq.x); }
    for (var j = 0u; j < FOURS; j++) {
        let i = j * LANES + lane;
{% if several is defined %}
        if (i < KEY / 4u) {
            part[j] = part[j] + (d * unit.y) * four_k(i);
            if (!stays) { s[at + i] = part[j]; }
        }
{% else %}
        if (i < KEY / 4u) { s[at + i] = part[j] + (d * unit.y) * four_k(i); }
{% endif %}
    }
    if (lane == 0u) {
        var out = SCALE * (dot_kq.y + d * sums.z * unit.x * unit.y);
        if (DELTA == 0u) { out += heads[2u * HEADS + head] * v; }
        y[(row * HEADS + head) * VALUE + first + column] = out;
    }
{% if several is defined %}
    if (stays) {
        let to = kept_of(state.side, min(before + row, {{ few_rows - 1 }}u), head);
        if (lane == 0u) { kept[to + 1u + first + column] = d * unit.y; }
        if (wid.y == 0u) {
            if (li == 0u) { kept[to] = decay; }
            for (var i = li; i < KEY; i += {{ workgroup }}u) { kept[to + 1u + VALUE + i] = key[i]; }
        }
    }
    }
{% endif %}
}
