//! The element types of a checkpoint and the size of their blocks.

use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident = $ggml:literal, $text:literal, $len:literal, $bytes:literal;)*) => {
        /// How the values of a tensor are stored. Quantized types come in blocks that share scales.
        ///
        /// Types that only safetensors files use have no GGML number of their own and reuse GGML's name for the same
        /// layout.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub enum DType {
            $($(#[$doc])* $name,)*
        }

        impl DType {
            /// Every type, in the order of its GGML number.
            pub const ALL: &'static [DType] = &[$(DType::$name,)*];

            /// The type with this GGML number, as a GGUF file stores it.
            pub const fn from_ggml(id: u32) -> Option<Self> {
                match id {
                    $($ggml => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The number that GGUF stores for this type.
            pub const fn ggml_id(self) -> u32 {
                match self {
                    $(Self::$name => $ggml,)*
                }
            }

            /// The name people know it by, e.g. `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Elements in one block; 1 where values are stored singly.
            pub const fn block_len(self) -> u64 {
                match self {
                    $(Self::$name => $len,)*
                }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> u64 {
                match self {
                    $(Self::$name => $bytes,)*
                }
            }
        }
    };
}

dtypes! {
    /// IEEE 754 single precision.
    F32 = 0, "F32", 1, 4;
    /// IEEE 754 half precision.
    F16 = 1, "F16", 1, 2;
    /// 4 bits, one scale per 32 values.
    Q4_0 = 2, "Q4_0", 32, 18;
    /// 4 bits, scale and minimum per 32 values.
    Q4_1 = 3, "Q4_1", 32, 20;
    /// 5 bits, one scale per 32 values.
    Q5_0 = 6, "Q5_0", 32, 22;
    /// 5 bits, scale and minimum per 32 values.
    Q5_1 = 7, "Q5_1", 32, 24;
    /// 8 bits, one scale per 32 values.
    Q8_0 = 8, "Q8_0", 32, 34;
    /// 8 bits, scale and sum per 32 values: a type of activations, not found in files.
    Q8_1 = 9, "Q8_1", 32, 36;
    /// 2 bits in super-blocks of 256.
    Q2_K = 10, "Q2_K", 256, 84;
    /// 3 bits in super-blocks of 256.
    Q3_K = 11, "Q3_K", 256, 110;
    /// 4 bits in super-blocks of 256.
    Q4_K = 12, "Q4_K", 256, 144;
    /// 5 bits in super-blocks of 256.
    Q5_K = 13, "Q5_K", 256, 176;
    /// 6 bits in super-blocks of 256.
    Q6_K = 14, "Q6_K", 256, 210;
    /// 8 bits in super-blocks of 256: a type of activations, not found in files.
    Q8_K = 15, "Q8_K", 256, 292;
    /// 2.06 bits, codebook.
    IQ2_XXS = 16, "IQ2_XXS", 256, 66;
    /// 2.31 bits, codebook.
    IQ2_XS = 17, "IQ2_XS", 256, 74;
    /// 3.06 bits, codebook.
    IQ3_XXS = 18, "IQ3_XXS", 256, 98;
    /// 1.56 bits, codebook.
    IQ1_S = 19, "IQ1_S", 256, 50;
    /// 4 bits, non-linear, one scale per 32 values.
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    /// 3.44 bits, codebook.
    IQ3_S = 21, "IQ3_S", 256, 110;
    /// 2.5 bits, codebook.
    IQ2_S = 22, "IQ2_S", 256, 82;
    /// 4.25 bits, non-linear, super-blocks of 256.
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    /// 8-bit integer.
    I8 = 24, "I8", 1, 1;
    /// 16-bit integer.
    I16 = 25, "I16", 1, 2;
    /// 32-bit integer.
    I32 = 26, "I32", 1, 4;
    /// 64-bit integer.
    I64 = 27, "I64", 1, 8;
    /// IEEE 754 double precision.
    F64 = 28, "F64", 1, 8;
    /// 1.75 bits, codebook.
    IQ1_M = 29, "IQ1_M", 256, 56;
    /// The upper half of an F32.
    BF16 = 30, "BF16", 1, 2;
    /// Ternary, 1.69 bits.
    TQ1_0 = 34, "TQ1_0", 256, 54;
    /// Ternary, 2.06 bits.
    TQ2_0 = 35, "TQ2_0", 256, 66;
    /// 4-bit floats with one power-of-two scale per 32 values.
    MXFP4 = 39, "MXFP4", 32, 17;
    /// 4-bit floats with one 8-bit scale per 16 values.
    NVFP4 = 40, "NVFP4", 64, 36;
    /// 1 bit, one scale per 128 values.
    Q1_0 = 41, "Q1_0", 128, 18;
    /// 2 bits, one scale per 64 values.
    Q2_0 = 42, "Q2_0", 64, 18;
}

impl DType {
    /// Bytes of `elements` values. None where they do not fill whole blocks or the product overflows.
    pub const fn bytes_of(self, elements: u64) -> Option<u64> {
        if !elements.is_multiple_of(self.block_len()) {
            return None;
        }
        (elements / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_retired_ones_are_unknown() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_ggml(dtype.ggml_id()), Some(dtype));
        }
        // 4 and 5 were Q4_2 and Q4_3; 31 to 33 and 36 to 38 were repacked layouts that never belonged in files.
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(DType::from_ggml(id), None);
        }
    }

    #[test]
    fn sizes_count_whole_blocks_only() {
        assert_eq!(DType::Q4_K.bytes_of(512), Some(288));
        assert_eq!(DType::Q8_0.bytes_of(33), None);
        assert_eq!(DType::F64.bytes_of(u64::MAX), None);
        assert_eq!(DType::BF16.bytes_of(3), Some(6));
    }
}
