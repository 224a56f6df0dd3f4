// Which adapter rows have, and how strongly: (number of the adapter and one more, or 0; bits of the scale; 0; 0) of each row of a step for several
// sequences, and of all rows of any other pass the first.
@group(0) @binding(6) var<uniform> voices: array<vec4<u32>, {{ few_rows }}>;
fn voice_of(row: u32) -> vec4<u32> { return voices[select(0u, min(row, {{ few_rows - 1 }}u), apart())]; }
