// Keys and values of earlier rows of a step, which are of the same sequence: their own workgroups append them, so the cache need not hold them yet.
// Where the elements of a key stay in qkv, not weighted in workgroup memory.
const IN_QKV = 0xffffffffu;
// Where norms are: [2][{{ few_rows }}], sums of squares of the rows' keys and values. Scores may take all of `summands` before the last of them is read.
var<workgroup> earlier_squares: array<f32, {{ 2 * few_rows }}>;

fn earlier_head(row: u32, head: u32) -> u32 { return row * QSTRIDE + head * E; }

// 32 lanes for each row before `rows`: its key, and its value where values are normed. All lanes call it, and weigh after it.
fn weigh_rows(rows: u32, kv_head: u32, li: u32) {
    let part = li / 32u;
    var keys = 0.0;
    var values = 0.0;
    if (part < rows) {
        let key = earlier_head(part, H + kv_head);
        for (var e = li % 32u; e < E; e += 32u) {
            let x = qkv[key + e];
            keys += x * x;
            if (V_NORM == 1u) {
                let y = qkv[key + G * E + e];
                values += y * y;
            }
        }
    }
{% if lanes == 32 %}
{{ sum("keys", 32) }}
{{ sum("values", 32) }}
    if (li % 32u == 0u) {
        earlier_squares[part] = keys;
        earlier_squares[{{ few_rows }}u + part] = values;
    }
{% else %}
    summands[li] = keys;
    summands[256u + li] = values;
    workgroupBarrier();
    if (li < {{ 2 * few_rows }}u) {
        var squares = 0.0;
        for (var k = 0u; k < 32u; k++) { squares += summands[li * 32u + k]; }
        earlier_squares[li] = squares;
    }
    workgroupBarrier();
{% endif %}
}

fn earlier_factor(at: u32) -> f32 { return inverseSqrt(earlier_squares[at] / f32(E) + EPS); }

// Elements 4i..4i+3 of the key of `row`, as they are appended; beyond E zeros.
fn earlier_key4(row: u32, kv_head: u32, i: u32) -> vec4<f32> {
    if (i * 4u >= E) { return vec4<f32>(); }
    var norm = QkNorm(1.0, IN_QKV);
    if (QK_NORM == 1u) { norm.factor = earlier_factor(row); }
    return rotated4(earlier_head(row, H + kv_head), rotated_at(row), i, norm) * late4(i, {{ head_room }}u);
}
fn earlier_value(row: u32, kv_head: u32, e: u32) -> f32 {
    if (e >= E) { return 0.0; }
    let value = qkv[earlier_head(row, H + G + kv_head) + e];
    if (QK_NORM == 1u && V_NORM == 1u) { return value * earlier_factor({{ few_rows }}u + row); }
    return value;
}
