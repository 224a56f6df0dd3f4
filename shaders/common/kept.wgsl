// What a step with drafts leaves of each of its rows beside a state S as it was before them: how many count is known behind the step. The step
// after it, or `delta_settle`, takes these over into S. Two halves in turn: a step reads one of them and writes to the other.
@group(0) @binding({{ kept_at }}) var<storage, {{ kept_access }}> kept: array<f32>;   // [2][{{ few_rows }}][HEADS][1 + VALUE + KEY]: decay, changes of columns, key
fn kept_of(side: u32, row: u32, head: u32) -> u32 { return ((side * {{ few_rows }}u + row) * HEADS + head) * (1u + VALUE + KEY); }
// A part of a column of S, four elements from `four` on, after a row of a half.
fn taken_over(part: vec4<f32>, side: u32, row: u32, head: u32, column: u32, four: u32) -> vec4<f32> {
    let at = kept_of(side, row, head);
    let k = at + 1u + VALUE + 4u * four;
    let faded = part * kept[at];
    return faded + kept[at + 1u + column] * vec4<f32>(kept[k], kept[k + 1u], kept[k + 2u], kept[k + 3u]);
}
