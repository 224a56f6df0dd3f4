//! The families of encoders, one module each.

pub mod gemma3;
pub mod gemma4;
pub mod idefics3;
pub mod lfm2_vl;
pub mod pixtral;
pub mod qwen_vl;

use crate::{
    Cut, Element, Gemma3, Gemma4, Idefics3, Lfm2Vl, Normalize, PatchOrder, Picture, Pixtral, QwenVl, Resampler, Result,
    patches,
};

/// How an encoder wants its pictures.
#[derive(Debug, Clone, PartialEq)]
pub enum Family {
    /// LFM2-VL, LFM2.5-VL.
    Lfm2Vl(Lfm2Vl),
    /// Qwen3-VL, Qwen3.5, PaddleOCR-VL, GLM-OCR.
    QwenVl(QwenVl),
    /// Gemma 3 from 4B on.
    Gemma3(Gemma3),
    /// Gemma 4.
    Gemma4(Gemma4),
    /// Idefics 3, SmolVLM, Granite-Docling.
    Idefics3(Idefics3),
    /// LightOnOCR.
    Pixtral(Pixtral),
}

impl Family {
    /// How a picture of this size is cut.
    ///
    /// # Errors
    /// A size that no picture has, or for which the family's processor has no answer.
    pub fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        Picture::checked_size(width, height)?;
        let cut = match self {
            Self::Lfm2Vl(family) => family.cut(width, height),
            Self::QwenVl(family) => family.cut(width, height),
            Self::Gemma3(family) => family.cut(width, height),
            Self::Gemma4(family) => family.cut(width, height),
            Self::Idefics3(family) => family.cut(width, height),
            Self::Pixtral(family) => family.cut(width, height),
        }?;
        for canvas in &cut.canvases {
            Picture::checked_size(canvas.width, canvas.height)?;
        }
        Ok(cut)
    }

    /// How pictures are resized.
    pub fn resampler(&self) -> Resampler {
        match self {
            Self::Lfm2Vl(family) => family.resampler,
            Self::QwenVl(family) => family.resampler,
            Self::Gemma3(family) => family.resampler,
            Self::Gemma4(family) => family.resampler,
            Self::Idefics3(family) => family.resampler,
            Self::Pixtral(family) => family.resampler,
        }
    }

    /// Pixels a patch, along a side.
    pub fn patch_size(&self) -> u32 {
        match self {
            Self::Lfm2Vl(family) => family.patch_size,
            Self::QwenVl(family) => family.patch_size,
            Self::Gemma3(family) => family.patch_size,
            Self::Gemma4(family) => family.patch_size,
            Self::Idefics3(family) => family.patch_size,
            Self::Pixtral(family) => family.patch_size,
        }
    }

    /// The order of patches, and of rows of a table of positions.
    pub fn patch_order(&self) -> PatchOrder {
        match self {
            Self::QwenVl(family) => PatchOrder::Merged(family.merge_size),
            Self::Lfm2Vl(_) | Self::Gemma3(_) | Self::Gemma4(_) | Self::Idefics3(_) | Self::Pixtral(_) => {
                PatchOrder::Raster
            }
        }
    }

    /// What becomes of a byte.
    pub fn normalize(&self) -> Normalize {
        let mean_std = |mean, std| Normalize::MeanStd { mean, std };
        match self {
            Self::Lfm2Vl(family) => mean_std(family.mean, family.std),
            Self::QwenVl(family) => mean_std(family.mean, family.std),
            Self::Gemma3(family) => mean_std(family.mean, family.std),
            Self::Gemma4(family) if family.doubled => Normalize::Doubled,
            Self::Gemma4(_) => mean_std([0.0; 3], [1.0; 3]),
            Self::Idefics3(family) => mean_std(family.mean, family.std),
            Self::Pixtral(family) => mean_std(family.mean, family.std),
        }
    }

    /// The patches of a crop, `[n][patch * patch * 3]`. Qwen's two equal frames are one here: add its two kernels.
    ///
    /// # Errors
    /// A crop that is not whole patches.
    pub fn patches(&self, crop: &Picture, element: Element) -> Result<Vec<f32>> {
        patches::patches(crop, self.patch_size(), self.patch_order(), element, self.normalize())
    }
}
