// A causal convolution over positions, of each channel alone. Rows before this pass's come from the state: position p is in slot p % TAPS, so
// that a pass of one row overwrites only what is not read again.
override CHANNELS: u32;    // of the convolution
override TAPS: u32;        // its length
override STRIDE: u32;      // f32 a row of x
override CONV_AT: u32;     // where in a row of x the channels begin
fn ring(channel: u32, position: u32) -> u32 { return (state.slot * TAPS + position % TAPS) * CHANNELS + channel; }
