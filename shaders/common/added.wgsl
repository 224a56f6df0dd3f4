fn added(sum: f32, row: f32) -> f32 {
    let more = sum + 0.25 * row;
    return more - 2.0 * round(more * 0.5);
}
