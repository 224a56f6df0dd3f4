use super::Call;

/// The numbers of a picture's patches, by its pixels.
pub fn run(call: &Call) {
    let (side, frames, stride) = (call.usize("SIDE"), call.usize("FRAMES"), call.usize("STRIDE"));
    let by_channel = call.u32("BY_CHANNEL") == 1;
    let (pixels, starts, numbers) =
        (call.view::<u8>("pixels"), call.view::<u32>("starts"), call.view::<f32>("numbers"));
    let (row, square) = (starts[0] as usize, side * side);
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows.min(call.grid[0]) as usize {
        let (first, y) = (starts[1 + t] as usize, &mut y[t * stride..][..stride]);
        for (channel, numbers) in numbers.chunks_exact(256).enumerate() {
            for pixel in 0..square {
                let byte = pixels[first + pixel / side * row + pixel % side * 3 + channel];
                let x = numbers[usize::from(byte)];
                if by_channel {
                    (0..frames).for_each(|frame| y[(channel * frames + frame) * square + pixel] = x);
                } else {
                    y[pixel * 3 + channel] = x;
                }
            }
        }
        y[3 * square * frames..].fill(0.0);
    }
}
