// Where the results of a row's split are. The buffers have room for as many splits of each of 8 rows (plan::FEW).
fn split_at(row: u32, split: u32) -> u32 { return row * (arrayLength(&ml) / (H * 8u)) + split; }
