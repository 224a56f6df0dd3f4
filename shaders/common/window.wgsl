// Which positions a row sees. Where the cache holds them: position p in slot p % CAP, where CAP is what its buffer has room for, no constant
// of the pipeline, as caches grow. Layers with a window have no more room than they need.
override WINDOW: u32 = 4294967295u;  // positions that a row sees, the last of them its own

// Positions that the row at `pos` sees: the last so many up to its own.
fn seen(pos: u32) -> u32 { return min(pos + 1u, WINDOW); }
