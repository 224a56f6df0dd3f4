use super::Call;

/// Columns of rows between two limits, at a place in rows of another width.
pub fn run(call: &Call) {
    let (n, room, column, at) = (call.usize("N"), call.usize("ROOM"), call.usize("COLUMN"), call.usize("AT"));
    let (x, limits) = (call.view::<f32>("x"), call.view::<f32>("limits"));
    let (low, high) = (limits[at], limits[at + 1]);
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows.min(call.grid[1]) as usize {
        let (x, y) = (&x[t * call.usize("XSTRIDE")..][..n], &mut y[t * call.usize("YSTRIDE") + column..][..room]);
        y.iter_mut()
            .zip(x.iter().map(|x| x.max(low).min(high)).chain(std::iter::repeat(0.0)))
            .for_each(|(y, x)| *y = x);
    }
}
