//! From a decoded picture to what a vision encoder reads, without I/O and without a GPU.
//!
//! A [`Picture`] is RGB in bytes. A [`Family`] says how its encoder wants pictures: [`Family::cut`] gives, from the
//! width and the height alone, the crops with their sizes, patch grids and prompt rows; [`Cut::crops_of`] gives the
//! crops' pixels, and [`Family::patches`] turns a crop into rows of numbers. [`resize_table`] fits a table of positions
//! to a crop's grid.
//!
//! ```
//! use std::rc::Rc;
//!
//! use millrace_picture::{Element, Family, Lfm2Vl, Picture};
//!
//! let family = Family::Lfm2Vl(Lfm2Vl::default());
//! let picture = Rc::new(Picture::new(vec![128; 640 * 480 * 3], 640, 480)?);
//! let cut = family.cut(640, 480)?;
//! assert_eq!(cut.prompt_rows(), 234);
//! for (place, crop) in cut.crops.iter().zip(cut.crops_of(&picture, family.resampler())?) {
//!     let rows = family.patches(&crop, Element::RowColumnChannel)?;
//!     assert_eq!(rows.len(), place.patches() * 16 * 16 * 3);
//! }
//! # Ok::<(), millrace_picture::Error>(())
//! ```
//!
//! The rules are those of the image processors of Hugging Face transformers (5.17 and 5.24 have the same), the
//! arithmetic of resizing that of Pillow or of PyTorch ([`Weights`] says which); tests/data/pictures holds what they
//! give.

mod config;
pub mod cut;
pub mod error;
pub mod families;
pub mod patches;
pub mod picture;
pub mod resize;
pub mod table;

pub use cut::{Canvas, Crop, Cut, Place};
pub use error::{Error, Result};
pub use families::Family;
pub use families::gemma3::Gemma3;
pub use families::gemma4::Gemma4;
pub use families::idefics3::Idefics3;
pub use families::lfm2_vl::Lfm2Vl;
pub use families::pixtral::Pixtral;
pub use families::qwen_vl::QwenVl;
pub use patches::{Element, Normalize, PatchOrder, patch_order, patches};
pub use picture::Picture;
pub use resize::{Filter, Resampler, Weights, resize};
pub use table::{TableResize, resize_table};
