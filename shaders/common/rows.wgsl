// Where the rows of a pass are: behind each other, or in a step for several sequences each where its own is.
override APART: u32 = 0u;   // 1: there may be several sequences

fn apart() -> bool { return APART == 1u && state.apart != 0u; }
fn position_of(row: u32) -> u32 {
    if (apart()) { return state.each[min(row, {{ few_rows - 1 }}u)].x; }
    return state.pos + row;
}
// By which position a row is rotated.
fn rotated_at(row: u32) -> u32 {
    if (apart()) {
        let each = state.each[min(row, {{ few_rows - 1 }}u)];
        return each.x - each.w;
    }
    return state.pos + row - state.lag;
}
fn slot_of(row: u32) -> u32 {
    if (apart()) { return state.each[min(row, {{ few_rows - 1 }}u)].y; }
    return state.slot;
}
// Rows of the pass before this one that are of the same sequence.
fn earlier_rows(row: u32) -> u32 { return select(row, 0u, apart()); }
// Whether there is no such row, or its sequence has ended.
fn rests(row: u32) -> bool {
    if (row >= state.rows) { return true; }
    return apart() && state.each[min(row, {{ few_rows - 1 }}u)].z == 0u;
}
