override BESIDE: u32 = 0u;   // 1: a step has several rows, of which each has logits and workgroups of its own: the grid's second number

// Whether nothing is to be chosen after that row.
fn rests(row: u32) -> bool {
    if (state.done != 0u) { return true; }
    if (BESIDE == 0u) { return false; }
    return row >= state.rows || (state.apart != 0u && state.each[min(row, {{ few_rows - 1 }}u)].z == 0u);
}
// Whose parameters count for it: its own where rows are of several sequences.
fn asks(row: u32) -> u32 {
    if (BESIDE == 1u && state.apart != 0u) { return min(row, {{ few_rows - 1 }}u); }
    return 0u;
}
