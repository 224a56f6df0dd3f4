// A causal convolution over positions, of each channel alone. Rows before this pass's come from the state: position p is in slot p % RING, so
// that a step overwrites only what is not read again, also where its drafts do not count.
override CHANNELS: u32;    // of the convolution
override TAPS: u32;        // its length
override RING: u32;        // rows of its state, at least TAPS - 1 and those of a step
override STRIDE: u32;      // f32 a row of x
override CONV_AT: u32;     // where in a row of x the channels begin
fn ring(slot: u32, channel: u32, position: u32) -> u32 { return (slot * RING + position % RING) * CHANNELS + channel; }
