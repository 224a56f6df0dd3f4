//! What a dispatch has to do, and how much of what it launches has something to do: threads that find no row, no block
//! or no key are paid for and wasted.

use super::{Extent, Step};
use crate::kernels::splits::Rule;

impl Step {
    /// Bytes of weights and cache that the step reads in a decode step at `position`.
    pub fn bytes_at(&self, position: u32) -> u64 {
        if self.key_bytes > 0 { self.key_bytes * u64::from(self.seen(position)) } else { self.bytes }
    }

    /// Positions that attention at `position` reads.
    fn seen(&self, position: u32) -> u32 {
        let window = self.overrides.iter().find(|o| o.0 == "WINDOW");
        window.map_or(u32::MAX, |o| o.1 as u32).min(position + 1)
    }

    /// Multiplications and additions of products and attention in a pass over `rows` rows from `position` on; 0 for
    /// other kernels.
    pub fn operations(&self, position: u32, rows: u32) -> f64 {
        let number = |name: &str| self.overrides.iter().find(|o| o.0 == name).map_or(1.0, |o| o.1);
        let rows = f64::from(rows);
        match self.variant.kernel {
            "matmul" | "matmul_subgroup" => 2.0 * number("N") * number("KB") * 32.0 * rows,
            "matvec" => 2.0 * number("N") * number("KB") * 32.0,
            "experts_matmul" => {
                let Extent::Tiles { groups, .. } = self.grid.1 else { return 0.0 };
                2.0 * number("N") * number("KB") * 32.0 * rows * number("USED") * number("COUNT") / f64::from(groups)
            }
            "matvec_rows" | "norm_rows" | "residual_rows" => 2.0 * number("N") * number("KB") * 32.0 * rows,
            "attention" | "attention_prefill" => {
                // Of rows that see what is behind them too: as if all were of one text.
                let last = self.overrides.contains(&("SPANS", 2.0)).then_some(position + rows as u32 - 1);
                let keys = (0..rows as u32).map(|t| f64::from(self.seen(last.unwrap_or(position + t)))).sum::<f64>();
                4.0 * number("H") * number("E") * keys
            }
            _ => 0.0,
        }
    }

    /// Threads with work over threads launched, in a decode step at `position`.
    pub fn active(&self, position: u32) -> f64 {
        let number = |name: &str| self.overrides.iter().find(|o| o.0 == name).map_or(1.0, |o| o.1);
        let fixed = |e: Extent| match e {
            Extent::Fixed(n) => f64::from(n),
            Extent::Rows { .. } => 1.0,
            Extent::Slots { each } | Extent::Tiles { each, .. } => f64::from(each),
            Extent::Splits { groups, rule, keys } => f64::from(rule.most_splits(keys, groups)),
        };
        let groups = fixed(self.grid.0) * fixed(self.grid.1);
        let threads = f64::from(self.variant.workgroup.iter().product::<u32>());
        let lanes = f64::from(self.variant.lanes.max(1));
        // Of lanes that walk `items` together, in the rounds that this takes.
        let share = |items: f64, lanes: f64| items / ((items / lanes).ceil() * lanes);
        match self.variant.kernel {
            "matvec" | "norm_matvec" | "gated_matvec" | "norm_gated" | "experts_gated" | "experts_down" => {
                let f32 = self.variant.axis("act") != Some("q8");
                let pieces = match self.variant.axis("weight") {
                    Some("f32") if f32 => 8.0,
                    Some("f16" | "bf16") if f32 => 4.0,
                    Some("q8_0") if f32 => 2.0,
                    _ => 1.0,
                };
                let units = number("KB") * pieces;
                let tile = f64::from(self.variant.tile[0]);
                match self.variant.kernel {
                    "norm_gated" => share(units, lanes) * number("F") / (groups * 32.0),
                    "experts_gated" => share(units, lanes) * number("F") / (fixed(self.grid.0) * 32.0),
                    // Groups of lanes deal out the experts, not K.
                    "experts_down" => {
                        let split = number("SPLIT");
                        share(units, lanes) * share(number("USED"), split) * number("N") * split / (groups * tile)
                    }
                    _ => share(units, lanes * number("SPLIT")) * number("N") * number("SPLIT") / (groups * tile),
                }
            }
            "route" => share(number("EXPERTS"), threads),
            "qk_norm" => {
                let (q, k) = (number("QSPANS"), number("KSPANS"));
                (q * share(number("QWIDTH"), threads) + k * share(number("KWIDTH"), threads)) / (q + k)
            }
            "attention" => {
                let keys = f64::from(self.seen(position));
                let least = self.variant.tile[0];
                let groups = fixed(self.grid.0);
                let split = f64::from(Rule::decode(least).keys_a_split(self.seen(position), groups as u32));
                // Lanes of a tile hold eight elements of a key, and of a value a 32nd of the class's width.
                let wide = match self.variant.axis("width") {
                    Some("e64") => 64.0,
                    Some("e128") => 128.0,
                    Some("e512") => 512.0,
                    _ => 256.0,
                };
                let width = (number("E") / 8.0).ceil() * 8.0 / wide;
                (keys / split).ceil() / fixed(self.grid.1) * share(keys.min(split), f64::from(least)) * width
            }
            "merge" => {
                let keys = self.seen(position);
                let splits = Rule::decode(number("LEAST") as u32).count(keys, number("GROUPS") as u32);
                share(f64::from(splits), threads / 8.0)
            }
            "norm" => share(number("KB") * 8.0, threads),
            "embed" => share(number("D") / 4.0, threads),
            "logit_stats" | "tally" | "pick" | "penalize" | "logprobs" => share(number("V"), groups * threads),
            "constrain" => share(number("V"), threads * (number("V") / threads).ceil()),
            "clamp" => share(number("ROOM"), threads),
            "activate" | "quantize" => number("KB") * 8.0 / (fixed(self.grid.0) * threads),
            // `advance`: one workgroup that looks at all candidates.
            _ => 1.0,
        }
    }
}
