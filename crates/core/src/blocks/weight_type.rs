//! The types that kernels read, and how much room their blocks take.

use super::{DType, codebook, dequantize};
use crate::error::{Error, Result};

/// Elements of a block along K.
pub const BLOCK: usize = 32;

macro_rules! weight_types {
    ($($(#[$doc:meta])* $name:ident = $dtype:ident, $axis:literal, $group:literal, $words:literal, $scales:literal, $set:literal;)*) => {
        /// A weight type that kernels read natively.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum WeightType {
            $($(#[$doc])* $name,)*
        }

        impl WeightType {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type that kernels read a checkpoint's type as without loss.
            pub const fn native(dtype: DType) -> Option<Self> {
                match dtype {
                    $(DType::$dtype => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The checkpoint's type that it is without loss: the inverse of [`WeightType::native`].
            pub const fn dtype(self) -> DType {
                match self { $(Self::$name => DType::$dtype,)* }
            }

            /// The value of the kernels' `weight` axis.
            pub const fn axis(self) -> &'static str {
                match self { $(Self::$name => $axis,)* }
            }

            /// Elements that are stored together: rows are whole numbers of them.
            pub const fn group(self) -> usize {
                match self { $(Self::$name => $group,)* }
            }

            /// What `ws` holds of a group, in order: `h` a half, `f` an f32, `e` an exponent (a byte), `b` and `w` a
            /// byte and a word of any bits.
            pub const fn scales(self) -> &'static str {
                match self { $(Self::$name => $scales,)* }
            }

            /// Bits to set in each word of scales whose fraction is random (of a half, or of an f32 where there is one), for
            /// weights of a few hundredths.
            pub const fn usual_scales(self) -> u32 {
                match self { $(Self::$name => $set,)* }
            }

            /// 32-bit words of a block in `wq`; where blocks are stored together, its part of their words.
            pub const fn quant_words(self) -> usize {
                match self { $(Self::$name => $words,)* }
            }
        }
    };
}

// The type of a checkpoint that it is, its axis, elements of a group, words of `wq` a block, what `ws` holds of a
// group, usual scales.
weight_types! {
    /// 32-bit floats.
    F32 = F32, "f32", 1, 32, "", 0;
    /// IEEE halves, two a word.
    F16 = F16, "f16", 1, 16, "", 0;
    /// bfloat16, two a word.
    Bf16 = BF16, "bf16", 1, 16, "", 0;
    /// 32 signed bytes and one half scale a block.
    Q8_0 = Q8_0, "q8_0", 32, 8, "h", 0x0c00_0c00;
    /// 32 nibbles, offset 8, and one half scale a block.
    Q4_0 = Q4_0, "q4_0", 32, 4, "h", 0x1c00_1c00;
    /// 32 numbers of 5 bits, offset 16, and one scale a block.
    Q5_0 = Q5_0, "q5_0", 32, 4, "fw", 0x3b80_3b80;
    /// 256 nibbles; a 6-bit scale and a 6-bit min for each 32.
    Q4K = Q4_K, "q4_k", 256, 4, "hhwww", 0x1400_0800;
    /// 256 numbers of 5 bits; scales as [`WeightType::Q4K`].
    Q5K = Q5_K, "q5_k", 256, 5, "hhwww", 0x1400_0400;
    /// 256 numbers of 6 bits, offset 32; an 8-bit scale for each 16.
    Q6K = Q6_K, "q6_k", 256, 6, "wwwwf", 0x3800_3800;
    /// 32 nibbles that number 4-bit floats, and an exponent.
    Mxfp4 = MXFP4, "mxfp4", 32, 4, "e", 0x7474_7474;
    /// 128 signs and one half scale.
    Q1_0 = Q1_0, "q1_0", 128, 1, "h", 0x2400_2400;
    /// 64 numbers of 2 bits, offset 1, and one half scale.
    Q2_0 = Q2_0, "q2_0", 64, 2, "h", 0x2400_2400;
    /// 32 nibbles, a half scale and what is added, another half.
    Q4_1 = Q4_1, "q4_1", 32, 4, "hh", 0xa400_1c00;
    /// 32 numbers of 5 bits, a half scale and what is added, another half.
    Q5_1 = Q5_1, "q5_1", 32, 4, "hhw", 0xa800_1800;
    /// 256 numbers of 2 bits; a 4-bit scale and a 4-bit min for each 16.
    Q2K = Q2_K, "q2_k", 256, 2, "wwwwhh", 0x1c00_1800;
    /// 256 numbers of 3 bits; scales as [`WeightType::Q6K`].
    Q3K = Q3_K, "q3_k", 256, 3, "wwwwf", 0x3980_3980;
    /// 32 nibbles that number sixteen values, and one half scale a block.
    Iq4Nl = IQ4_NL, "iq4_nl", 32, 4, "h", 0x0c00_0c00;
    /// 256 nibbles as those of [`WeightType::Iq4Nl`]; a 6-bit scale for each 32.
    Iq4Xs = IQ4_XS, "iq4_xs", 256, 4, "hbbw", 0x0400_0400;
}

impl WeightType {
    /// The type of that name on the kernels' `weight` axis.
    pub fn of_axis(axis: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.axis() == axis)
    }

    /// The type that a tensor of a checkpoint has on the GPU: its own where kernels read it; of the others that can be
    /// decoded one that has room for all of it, else Q8_0.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL`, which lists the types that run.
    pub fn of(dtype: DType, tensor: &str) -> Result<Self> {
        match Self::native(dtype) {
            Some(kind) => Ok(kind),
            None if dequantize::dequantizes(dtype) => Ok(codebook::room(dtype).unwrap_or(Self::Q8_0)),
            None => Err(unsupported(&format!("tensor {tensor} has type {dtype}"))),
        }
    }

    /// Whether blocks have scales, in `ws`, and int8 activations apply.
    pub const fn quantized(self) -> bool {
        !self.scales().is_empty()
    }

    /// Blocks that are stored together.
    pub const fn group_blocks(self) -> usize {
        self.group().div_ceil(BLOCK)
    }

    /// Bytes on the GPU of `blocks` blocks: quants and scales.
    pub const fn bytes(self, blocks: u64) -> u64 {
        blocks * (self.quant_words() as u64 * 4) + self.scale_bytes(blocks)
    }

    /// Bytes on the GPU of the scales of `blocks` blocks, in `ws`: whole words.
    pub const fn scale_bytes(self, blocks: u64) -> u64 {
        self.scale_len(blocks).next_multiple_of(4)
    }

    /// Bytes that the scales of `blocks` blocks take.
    pub const fn scale_len(self, blocks: u64) -> u64 {
        let (scales, mut bytes, mut i) = (self.scales().as_bytes(), 0, 0);
        while i < scales.len() {
            bytes += match scales[i] {
                b'b' | b'e' => 1,
                b'h' => 2,
                _ => 4,
            };
            i += 1;
        }
        blocks / self.group_blocks() as u64 * bytes
    }
}

/// The error that `what` has a type that does not run; it lists those that do.
pub(super) fn unsupported(what: &str) -> Error {
    let names = |natively: bool| {
        let runs =
            DType::ALL.iter().filter(|d| dequantize::dequantizes(**d) && WeightType::native(**d).is_some() == natively);
        runs.map(|d| d.name()).collect::<Vec<_>>().join(", ")
    };
    Error::unsupported(format!(
        "{what}; this version runs {}, and converted while loading {}: use a file in one of these",
        names(true),
        names(false)
    ))
}
