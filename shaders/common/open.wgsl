// Activations whose norm is open: int8 of h * nw, the norm's factor left out. Behind the scales of all T rows stand sums of squares of h, of each
// block: [T][KB], the first of each pair.
override D: u32 = 0u;     // elements of h; 0: the activations are complete
override EPS: f32 = 0.0;
var<workgroup> factors: array<f32, {{ most }}>;   // of the norm of each row

// Leaves the factors of the rows in `factors`; a barrier comes before they are read.
fn open_factors(li: u32) {
    let t = li / LANES;
    var sum = 0.0;
    if (t < T) {
        for (var i = li % LANES; i < KB; i += LANES) { sum += xs[(T + t) * KB + i].x; }
    }
    sum = lane_sum(sum, li);
    if (t < T && li % LANES == 0u) { factors[t] = inverseSqrt(sum / f32(D) + EPS); }
}
