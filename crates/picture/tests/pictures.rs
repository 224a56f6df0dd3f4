//! What Pillow, torchvision and the image processors of transformers make of pictures that a formula gives:
//! tests/data/pictures, which scripts/oracle/fixtures/pictures.py writes.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use millrace_picture::{
    Crop, Cut, Element, Error, Family, Filter, Gemma3, Gemma4, Idefics3, Lfm2Vl, Normalize, PatchOrder, Picture,
    Pixtral, Place, QwenVl, Resampler, TableResize, Weights, patch_order, patches, resize, resize_table,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/pictures").join(name);
    serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn pair(value: &Value) -> (u32, u32) {
    (number(&value[0]), number(&value[1]))
}

/// `hashed` of pictures.py.
fn hashed(x: u32, y: u32, z: u32) -> u32 {
    let h = x
        .wrapping_mul(374_761_393)
        .wrapping_add(y.wrapping_mul(668_265_263))
        .wrapping_add(z.wrapping_mul(2_246_822_519));
    let h = (h ^ (h >> 13)).wrapping_mul(1_274_126_177);
    h ^ (h >> 16)
}

/// `picture` of pictures.py.
fn picture(kind: &str, width: u32, height: u32) -> Picture {
    let byte = |x: u32, y: u32, c: u32| match kind {
        "noise" => hashed(x, y, c) & 255,
        "slopes" => {
            let t = (x * 3 + y * 2 + c * 40 + ((x * y) >> 5)) & 511;
            if t < 256 { t } else { 511 - t }
        }
        "squares" => (((x >> 2) ^ (y >> 2) ^ c) & 1) * 255,
        _ => panic!("{kind} is no kind"),
    };
    let pixels = (0..height)
        .flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| (x, y, c))))
        .map(|(x, y, c)| byte(x, y, c) as u8);
    Picture::new(pixels.collect(), width, height).unwrap()
}

fn digest(pixels: &[u8]) -> String {
    Sha256::digest(pixels).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn filter(name: &Value) -> Filter {
    match name.as_str() {
        Some("bilinear") => Filter::Bilinear,
        Some("bicubic") => Filter::Bicubic,
        Some("lanczos3") => Filter::Lanczos3,
        _ => panic!("{name} is no filter"),
    }
}

/// Every byte is Pillow's, and with fewer bits for weights torchvision's.
#[test]
fn resizing() {
    let mut compared = (0, 0);
    for case in list(&fixture("resize.json")) {
        let (from, to) = (pair(&case["from"]), pair(&case["to"]));
        let source = picture(case["kind"].as_str().unwrap(), from.0, from.1);
        for expected in list(&case["filters"]) {
            let filter = filter(&expected["filter"]);
            let made = resize(&source, to.0, to.1, filter).unwrap();
            assert_eq!((made.width(), made.height()), to);
            for pixel in list(&expected["pixels"]) {
                let [x, y, rgb @ ..] = list(pixel) else { panic!("{pixel}") };
                let at = ((number(y) * to.0 + number(x)) * 3) as usize;
                assert_eq!(
                    json!(made.pixels()[at..at + 3]),
                    json!(rgb),
                    "{filter:?} from {from:?} to {to:?} at {x}, {y}"
                );
            }
            assert_eq!(digest(made.pixels()), expected["pillow"], "{filter:?} from {from:?} to {to:?}");
            compared.0 += 1;
            if let Some(torch) = expected.get("torch") {
                let coarse = Resampler { filter, weights: Weights::Bits16 }.resize(&source, to.0, to.1).unwrap();
                assert_eq!(digest(coarse.pixels()), *torch, "{filter:?} with 16 bits from {from:?} to {to:?}");
                let differing = made.pixels().iter().zip(coarse.pixels()).filter(|(a, b)| a != b).count();
                let largest = made.pixels().iter().zip(coarse.pixels()).map(|(a, b)| a.abs_diff(*b)).max();
                assert_eq!(
                    (differing as u64, largest.map(u64::from)),
                    (expected["differing"].as_u64().unwrap(), expected["largest"].as_u64())
                );
                compared.1 += 1;
            }
        }
    }
    assert_eq!(compared, (72, 69));
}

fn idefics3() -> Family {
    Family::Idefics3(Idefics3::default())
}

/// The crops' places are what a cut of so many tiles has, they lie side by side on their canvas, and their grids are
/// theirs.
fn well_formed(cut: &Cut, side: u32) {
    let (columns, rows) = cut.tiles;
    let mut crops = cut.crops.iter();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let crop = crops.next().unwrap();
        assert_eq!(crop.place, Place::Tile { row, column });
        assert_eq!((crop.x, crop.y, crop.width, crop.height), (column * side, row * side, side, side));
        assert_eq!((cut.canvases[crop.canvas].width, cut.canvases[crop.canvas].height), (columns * side, rows * side));
    }
    let last: Vec<_> = crops.collect();
    assert!(last.len() <= 1);
    for crop in last {
        assert_eq!(crop.place, if rows == 0 { Place::Whole } else { Place::Thumbnail });
        assert_eq!(
            (crop.x, crop.y, crop.width, crop.height),
            (0, 0, cut.canvases[crop.canvas].width, cut.canvases[crop.canvas].height)
        );
    }
    assert!(cut.crops.iter().all(|crop| crop.patches() > 0 && crop.prompt_rows > 0));
}

/// Compares the cuts of one family with the fixture's rows, where null is a refusal; gives how many of each there were.
fn compare_cuts(
    family: &Family,
    sizes: &[Value],
    expected: &Value,
    side: u32,
    row: impl Fn(&Cut) -> Vec<u64>,
) -> (usize, usize) {
    let mut counts = (0, 0);
    assert_eq!(sizes.len(), list(expected).len());
    for (size, expected) in sizes.iter().zip(list(expected)) {
        let (width, height) = pair(size);
        match family.cut(width, height) {
            Ok(cut) => {
                assert_eq!(json!(row(&cut)), *expected, "{width} x {height}: {cut:?}");
                assert_eq!(cut.size, (width, height));
                well_formed(&cut, side);
                counts.0 += 1;
            }
            Err(error) => {
                assert!(expected.is_null(), "{width} x {height}: {error}, not {expected}");
                assert!(matches!(error, Error::TooNarrow { .. } | Error::TooFewPatches { .. }), "{error:?}");
                counts.1 += 1;
            }
        }
    }
    counts
}

/// PaddleOCR-VL with the limits that are published.
fn paddle_ocr() -> [(&'static str, Family); 2] {
    let later = QwenVl { min_pixels: 112_896, max_pixels: 1_003_520, ..QwenVl::paddle_ocr() };
    [("0.9b", Family::QwenVl(QwenVl::paddle_ocr())), ("1.5", Family::QwenVl(later))]
}

fn glm_ocr() -> Family {
    Family::QwenVl(QwenVl::glm_ocr())
}

fn whole(cut: &Cut) -> Vec<u64> {
    let crop = cut.crops.last().unwrap();
    vec![u64::from(crop.width), u64::from(crop.height), cut.prompt_rows()]
}

/// Sizes, grids and prompt rows are those of transformers, for pictures of every shape.
#[test]
fn cutting() {
    let fixture = fixture("cuts.json");
    let sizes = list(&fixture["sizes"]);
    assert!(sizes.len() > 250);
    let lfm2_vl = |cut: &Cut| {
        let last = cut.crops.last().unwrap();
        let (columns, rows) = if cut.tiles == (0, 0) { (1, 1) } else { cut.tiles };
        let numbers = [columns, rows, last.width, last.height, last.prompt_rows].map(u64::from);
        [&numbers[..], &[cut.prompt_rows()]].concat()
    };
    let counts = compare_cuts(&Family::Lfm2Vl(Lfm2Vl::default()), sizes, &fixture["lfm2_vl"], 512, lfm2_vl);
    assert!(counts.0 > 240 && counts.1 > 0, "{counts:?}");
    let counts = compare_cuts(&Family::QwenVl(QwenVl::default()), sizes, &fixture["qwen_vl"], 0, whole);
    assert!(counts.0 > 240 && counts.1 > 0, "{counts:?}");
    for budget in [70, 280, 1120] {
        let family = Family::Gemma4(Gemma4 { max_soft_tokens: budget, ..Gemma4::default() });
        compare_cuts(&family, sizes, &fixture["gemma4"][budget.to_string()], 0, whole);
    }
    for (name, family) in paddle_ocr() {
        let counts = compare_cuts(&family, sizes, &fixture["paddle_ocr"][name], 0, whole);
        assert!(counts.0 > 240 && counts.1 > 0, "{counts:?}");
    }
    let counts = compare_cuts(&glm_ocr(), sizes, &fixture["glm_ocr"], 0, whole);
    assert!(counts.0 > 240 && counts.1 > 0, "{counts:?}");
    let counts = compare_cuts(&Family::Pixtral(Pixtral::default()), sizes, &fixture["lighton_ocr"], 0, whole);
    assert!(counts.0 > 240 && counts.1 > 0, "{counts:?}");
    let idefics = |cut: &Cut| {
        let (first, second) = (cut.canvases[0], cut.canvases[1]);
        [first.width, first.height, second.width, second.height, cut.tiles.1, cut.tiles.0, cut.crops.len() as u32]
            .map(u64::from)
            .to_vec()
    };
    let counts = compare_cuts(&idefics3(), sizes, &fixture["idefics3"], 512, idefics);
    assert_eq!(counts.1, 0);
}

/// A limit that the processor does not have: pictures that would have more rows keep their shape as far as rows do.
#[test]
fn rows_that_are_too_many() {
    let limited = |max_rows| Family::Pixtral(Pixtral { max_rows, ..Pixtral::default() });
    let of = |family: &Family, width, height| {
        let cut = family.cut(width, height).unwrap();
        (cut.crops[0].width / 28, cut.crops[0].height / 28)
    };
    let (usual, free) = (limited(1024), limited(u32::MAX));
    // A page, a square, and what has few rows anyway.
    assert_eq!((of(&usual, 2480, 3508), of(&free, 2480, 3508)), ((26, 38), (39, 55)));
    assert_eq!((of(&usual, 3000, 3000), of(&free, 3000, 3000)), ((32, 32), (55, 55)));
    assert_eq!((of(&usual, 896, 896), of(&usual, 897, 896)), ((32, 32), (32, 31)));
    assert_eq!((of(&usual, 3000, 900), of(&free, 3000, 900)), ((55, 17), (55, 17)));
    assert_eq!((of(&limited(4), 3000, 10), of(&limited(4), 10, 3000)), ((4, 1), (1, 4)));
    for (width, height) in [(1540, 540), (541, 1540), (1000, 999), (900, 897)] {
        let (wide, high) = of(&usual, width, height);
        assert!(wide * high <= 1024 && wide * high > 900, "{wide} x {high}");
    }
}

/// Areas of two frames, which no file may have otherwise.
#[test]
fn frames_of_a_picture() {
    let read = |config: Value| QwenVl::glm_ocr().with_config(config.as_object().unwrap());
    let limits = json!({ "size": { "shortest_edge": 12_544, "longest_edge": 9_633_792 }, "temporal_patch_size": 2 });
    assert_eq!(read(limits).unwrap(), QwenVl::glm_ocr());
    assert!(read(json!({ "temporal_patch_size": 1 })).unwrap_err().to_string().starts_with("temporal_patch_size"));
    // One frame of as many pixels may be twice as large.
    let half = Family::QwenVl(QwenVl { frames: 1, ..QwenVl::glm_ocr() });
    let rows = |family: &Family| family.cut(4000, 4000).unwrap().prompt_rows();
    assert_eq!((rows(&glm_ocr()), rows(&half)), (78 * 78, 110 * 110));
}

/// What says how pictures are prepared is read strictly: the patch's side is a number or both sides, of a patch or of a
/// row of the prompt.
#[test]
fn pixtrals_configuration() {
    let read = |config: Value| Pixtral::default().with_config(config.as_object().unwrap());
    for side in [json!(14), json!(28), json!({ "height": 14, "width": 14 }), json!({ "height": 28, "width": 28 })] {
        assert_eq!(read(json!({ "patch_size": side })).unwrap(), Pixtral::default());
    }
    let other =
        read(json!({ "size": { "longest_edge": 1008 }, "resample": 2, "image_mean": [0.5, 0.5, 0.5] })).unwrap();
    assert_eq!((other.longest_edge, other.resampler.filter, other.mean), (1008, Filter::Bilinear, [0.5; 3]));
    for (config, key) in [
        (json!({ "patch_size": 16 }), "patch_size"),
        (json!({ "patch_size": { "height": 14, "width": 28 } }), "patch_size"),
        (json!({ "patch_size": { "height": 14 } }), "patch_size"),
        (json!({ "do_center_crop": true }), "do_center_crop"),
        (json!({ "do_normalize": false }), "do_normalize"),
        (json!({ "size": { "longest_edge": 100_000 } }), "size"),
    ] {
        let error = read(config).unwrap_err();
        assert!(error.to_string().starts_with(key), "{error}");
    }
}

/// Tiles that are no whole number of patches: what is left over on the right and below is not read, and tiles stand as
/// far apart as they are wide.
#[test]
fn tiles_with_a_rest() {
    let smolvlm =
        Idefics3 { longest_edge: 1536, tile_size: 384, patch_size: 14, scale_factor: 3, ..Idefics3::default() };
    let cut = Family::Idefics3(smolvlm.clone()).cut(1000, 700).unwrap();
    assert_eq!((cut.tiles, cut.crops.len(), cut.prompt_rows()), ((4, 3), 13, 13 * 81));
    let corner = |crop: &Crop| (crop.canvas, crop.x, crop.y);
    assert_eq!(
        [0, 1, 4, 11, 12].map(|i| corner(&cut.crops[i])),
        [(1, 0, 0), (1, 384, 0), (1, 0, 384), (1, 1152, 768), (2, 0, 0)]
    );
    assert!(cut.crops.iter().all(|crop| (crop.width, crop.height, crop.wide, crop.high) == (378, 378, 27, 27)));
    let whole = Family::Idefics3(Idefics3 { do_image_splitting: false, ..smolvlm.clone() }).cut(1000, 700).unwrap();
    assert_eq!(
        (whole.tiles, whole.crops.len(), whole.crops[0].place, whole.crops[0].width),
        ((0, 0), 1, Place::Whole, 378)
    );
    for (tile_size, scale_factor) in [(384, 4), (13, 1), (0, 1)] {
        let wrong = Family::Idefics3(Idefics3 { tile_size, scale_factor, ..smolvlm.clone() });
        assert!(
            matches!(wrong.cut(10, 10), Err(Error::Config { .. })),
            "{tile_size}, {scale_factor}: {:?}",
            wrong.cut(10, 10)
        );
    }
}

/// Compares rows of `width` numbers with a fixture's: their number, two sums, and some numbers within `tolerance`.
fn compare_rows(made: &[f32], width: usize, expected: &Value, tolerance: f64, what: &str) {
    assert_eq!(made.len() / width, expected["rows"].as_u64().unwrap() as usize, "{what}");
    for some in list(&expected["some"]) {
        let value = made[number(&some[0]) as usize * width + number(&some[1]) as usize];
        let difference = f64::from((value - float(&some[2]) as f32).abs());
        assert!(difference <= tolerance, "{what}: {value}, not {some}");
    }
    let sum: f64 = made.iter().map(|value| f64::from(*value)).sum();
    let placed: f64 = made.iter().enumerate().map(|(index, value)| f64::from(*value) * (index % 977) as f64).sum();
    let slack = tolerance.max(1e-9) * made.len() as f64;
    assert!((sum - float(&expected["sum"])).abs() <= slack, "{what}: {sum}, not {}", expected["sum"]);
    assert!(
        (placed - float(&expected["placed"])).abs() <= slack * 977.0,
        "{what}: {placed}, not {}",
        expected["placed"]
    );
}

/// The rows of every crop are those of the processors, in number and order; equal to the last bit where a number is
/// given.
#[test]
fn patching() {
    let families = [
        ("lfm2_vl", Family::Lfm2Vl(Lfm2Vl::default()), Element::RowColumnChannel),
        ("qwen_vl", Family::QwenVl(QwenVl::default()), Element::ChannelRowColumn),
        ("paddle_ocr", Family::QwenVl(QwenVl::paddle_ocr()), Element::ChannelRowColumn),
        ("glm_ocr", glm_ocr(), Element::ChannelRowColumn),
        ("lighton_ocr", Family::Pixtral(Pixtral::default()), Element::ChannelRowColumn),
        ("gemma4", Family::Gemma4(Gemma4::default()), Element::RowColumnChannel),
        ("gemma3", Family::Gemma3(Gemma3::default()), Element::ChannelRowColumn),
        ("idefics3", idefics3(), Element::ChannelRowColumn),
    ];
    let mut crops_compared = 0;
    for case in list(&fixture("patches.json")) {
        let (width, height) = pair(&case["size"]);
        let source = Rc::new(picture(case["kind"].as_str().unwrap(), width, height));
        for (name, family, element) in &families {
            let Some(expected) = case.get(*name) else { continue };
            let cut = family.cut(width, height).unwrap();
            let crops = cut.crops_of(&source, family.resampler()).unwrap();
            assert_eq!(crops.len(), list(expected).len(), "{name} of {width} x {height}");
            for (index, (crop, expected)) in crops.iter().zip(list(expected)).enumerate() {
                let made = family.patches(crop, *element).unwrap();
                let width = 3 * family.patch_size().pow(2) as usize;
                assert_eq!(made.len(), cut.crops[index].patches() * width);
                compare_rows(&made, width, expected, 0.0, &format!("{name} of {width} x {height}, crop {index}"));
                crops_compared += 1;
            }
        }
    }
    assert!(crops_compared > 25, "{crops_compared}");
}

/// A picture that is cut nowhere and has its size already is not copied; part of one is.
#[test]
fn whole_pictures_are_not_copied() {
    let family = Family::QwenVl(QwenVl::default());
    let whole = Rc::new(picture("noise", 320, 256));
    let cut = family.cut(320, 256).unwrap();
    assert!(Rc::ptr_eq(&cut.crops_of(&whole, family.resampler()).unwrap()[0], &whole));
    let of_half = Cut { crops: vec![Crop { x: 160, width: 160, ..cut.crops[0] }], ..cut };
    let half = &of_half.crops_of(&whole, family.resampler()).unwrap()[0];
    assert_eq!(**half, whole.part(160, 0, 160, 256).unwrap());
}

/// Tables are PyTorch's to 1e-6, of numbers within 1.
#[test]
fn positions() {
    let mut compared = 0;
    for case in list(&fixture("tables.json")) {
        let [height, width, depth] = [0, 1, 2].map(|side| number(&case["from"][side]));
        let (to_height, to_width) = pair(&case["to"]);
        let value = |y, x, d| (hashed(x, y, d) & 0xffff) as f32 / 32768.0 - 1.0;
        let table: Vec<f32> =
            (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..depth).map(move |d| value(y, x, d)))).collect();
        let how = match case["how"].as_str().unwrap() {
            "antialiased" => TableResize::Antialiased,
            "aligned" => TableResize::AlignedCorners,
            "middles" => TableResize::AlignedMiddles,
            other => panic!("{other}"),
        };
        let [height, width, depth, to_height, to_width] =
            [height, width, depth, to_height, to_width].map(|side| side as usize);
        let made = resize_table(&table, height, width, depth, to_height, to_width, how).unwrap();
        compare_rows(
            &made,
            depth,
            case,
            1e-6,
            &format!("{} from {height} x {width} to {to_height} x {to_width}", case["how"]),
        );
        compared += 1;
    }
    assert_eq!(compared, 26);
}

#[test]
fn orders() {
    let fixture = fixture("order.json");
    let (wide, high) = (number(&fixture["wide"]), number(&fixture["high"]));
    assert_eq!(json!(patch_order(wide, high, PatchOrder::Merged(2)).unwrap()), fixture["merged"]);
    assert_eq!(patch_order(3, 2, PatchOrder::Raster).unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(patch_order(3, 2, PatchOrder::Merged(2)), Err(Error::NotWhole { width: 3, height: 2, block: 2 }));

    // Two patches of 2 x 2 pixels, whose bytes count up.
    let crop = Picture::new((0..24).collect(), 4, 2).unwrap();
    let plain = Normalize::MeanStd { mean: [0.0; 3], std: [1.0 / 255.0; 3] };
    let rows = |element| -> Vec<f32> {
        patches(&crop, 2, PatchOrder::Raster, element, plain).unwrap().into_iter().map(f32::round).collect()
    };
    let first = [0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17].map(|byte| byte as f32);
    assert_eq!(rows(Element::RowColumnChannel)[..12], first);
    assert_eq!(
        rows(Element::ChannelRowColumn)[..12],
        [0, 3, 12, 15, 1, 4, 13, 16, 2, 5, 14, 17].map(|byte| byte as f32)
    );
    assert_eq!(rows(Element::RowColumnChannel)[12..], first.map(|byte| byte + 6.0));
}

/// PaddleOCR-VL: a side below a block is made one before the limits and the proportions are looked at.
#[test]
fn short_sides_are_enlarged_first() {
    let cut = |width, height, family: &Family| {
        let cut = family.cut(width, height).map(|cut| (cut.canvases[0].width, cut.canvases[0].height));
        cut.map_err(|error| assert_eq!(error, Error::TooNarrow { width, height }))
    };
    let [(_, first), (_, later)] = paddle_ocr();
    let qwen = Family::QwenVl(QwenVl { patch_size: 14, min_pixels: 147_384, ..QwenVl::default() });
    for ((width, height), of_first, of_later, of_qwen) in [
        ((28, 28), Ok((392, 392)), Ok((336, 336)), Ok((392, 392))),
        ((1, 1), Ok((392, 392)), Ok((336, 336)), Ok((392, 392))),
        ((5, 100), Ok((112, 1736)), Ok((84, 1512)), Ok((112, 1736))),
        ((1, 190), Ok((28, 5320)), Ok((28, 5320)), Ok((28, 5292))),
        ((27, 5400), Ok((28, 5600)), Ok((28, 5600)), Ok((28, 5404))),
        ((5600, 28), Ok((5600, 28)), Ok((5600, 28)), Ok((5600, 28))),
        ((5601, 28), Err(()), Err(()), Err(())),
        ((1, 201), Err(()), Err(()), Err(())),
        ((1680, 1680), Ok((1680, 1680)), Ok((980, 980)), Ok((1680, 1680))),
    ] {
        let found = [&first, &later, &qwen].map(|family| cut(width, height, family));
        assert_eq!(found, [of_first, of_later, of_qwen], "{width} x {height}");
    }
}

/// What no picture is, and what no cut is for.
#[test]
fn refusals() {
    assert_eq!(Picture::new(Vec::new(), 0, 5), Err(Error::Empty { width: 0, height: 5 }));
    assert_eq!(Picture::new(Vec::new(), 10_001, 10_000), Err(Error::TooLarge { width: 10_001, height: 10_000 }));
    assert_eq!(
        Picture::new(vec![0; 16], 2, 2),
        Err(Error::WrongLength { width: 2, height: 2, bytes: 16, expected: 12 })
    );
    let dot = Rc::new(picture("noise", 1, 1));
    assert_eq!(resize(&dot, 5, 0, Filter::Bilinear), Err(Error::Empty { width: 5, height: 0 }));
    assert_eq!(
        resize(&dot, u32::MAX, u32::MAX, Filter::Bilinear),
        Err(Error::TooLarge { width: u32::MAX, height: u32::MAX })
    );
    assert!(matches!(dot.part(1, 0, 1, 1), Err(Error::Outside { .. })));
    assert!(matches!(dot.part(u32::MAX, 0, 1, 1), Err(Error::Outside { .. })));

    let all = [
        Family::Lfm2Vl(Lfm2Vl::default()),
        Family::QwenVl(QwenVl::default()),
        Family::Gemma4(Gemma4::default()),
        idefics3(),
        Family::QwenVl(QwenVl::paddle_ocr()),
    ];
    for family in &all {
        assert_eq!(family.cut(0, 7), Err(Error::Empty { width: 0, height: 7 }));
        assert_eq!(family.cut(u32::MAX, u32::MAX), Err(Error::TooLarge { width: u32::MAX, height: u32::MAX }));
        let cut = family.cut(30, 20).unwrap();
        let other = Error::OtherSize { width: 30, height: 20, got_width: 1, got_height: 1 };
        assert_eq!(cut.crops_of(&dot, family.resampler()), Err(other));
        assert_eq!(
            family.patches(&dot, Element::RowColumnChannel),
            Err(Error::NotWhole { width: 1, height: 1, block: family.patch_size() })
        );
        // Long ones, of every length: none fails in another way.
        for length in (0..27).map(|power| 3_u32.pow(power % 17) << (power / 9)).filter(|length| *length <= 100_000_000)
        {
            for (width, height) in [(length, 1), (1, length)] {
                match family.cut(width, height) {
                    Ok(cut) => well_formed(&cut, 512),
                    Err(error) => assert!(
                        matches!(error, Error::TooNarrow { .. } | Error::TooLarge { .. } | Error::TooFewPatches { .. }),
                        "{error:?}"
                    ),
                }
            }
        }
    }
    let large = Family::QwenVl(QwenVl { min_pixels: 1 << 28, max_pixels: 1 << 30, ..QwenVl::default() });
    assert_eq!(large.cut(100, 100), Err(Error::TooLarge { width: 1 << 14, height: 1 << 14 }));
    assert_eq!(all[1].cut(201, 1), Err(Error::TooNarrow { width: 201, height: 1 }));
    let message = all[1].cut(201, 1).unwrap_err().to_string();
    assert_eq!(
        message,
        "a picture of 201 x 1 is too long and narrow for this model: cut it into parts, or add a margin"
    );

    for (table, shape) in
        [(11, [2, 2, 3, 4, 4]), (0, [0, 0, 3, 4, 4]), (12, [2, 2, 3, 0, 4]), (12, [2, 2, 3, usize::MAX, 4])]
    {
        let [height, width, depth, to_height, to_width] = shape;
        let made = resize_table(&vec![0.0; table], height, width, depth, to_height, to_width, TableResize::Antialiased);
        assert!(matches!(made, Err(Error::Table { .. })), "{shape:?}");
    }
}

/// The files' parameters: read, left as they are by default, or refused by name.
#[test]
fn configurations() {
    let object = |value: Value| value.as_object().unwrap().clone();
    let empty = object(json!({}));
    assert_eq!(Lfm2Vl::from_config(&empty), Ok(Lfm2Vl::default()));
    assert_eq!(QwenVl::from_config(&empty), Ok(QwenVl::default()));
    assert_eq!(Gemma4::from_config(&empty), Ok(Gemma4::default()));
    assert_eq!(Idefics3::from_config(&empty, 16, 4), Ok(Idefics3::default()));
    assert_eq!(Gemma3::default().with_config(&empty), Ok(Gemma3::default()));
    let published = object(
        json!({ "size": { "height": 896, "width": 896 }, "resample": 2, "do_pan_and_scan": null, "image_mean": [0.4, 0.5, 0.6] }),
    );
    assert_eq!(Gemma3::default().with_config(&published).unwrap().mean, [0.4, 0.5, 0.6]);
    for refused in [
        json!({ "do_pan_and_scan": true }),
        json!({ "size": { "height": 896, "width": 448 } }),
        json!({ "do_normalize": false }),
        json!({ "resample": 0 }),
    ] {
        assert!(Gemma3::default().with_config(&object(refused.clone())).is_err(), "{refused}");
    }
    assert!(Family::Gemma3(Gemma3 { side: 900, ..Gemma3::default() }).cut(9, 9).is_err());
    let cut = Family::Gemma3(Gemma3::default()).cut(1, 5000).unwrap();
    assert_eq!((cut.prompt_rows(), cut.crops[0].wide, cut.crops[0].high), (256, 64, 64));

    let given = object(json!({
        "tile_size": 256, "min_tiles": 1, "max_tiles": 6, "min_image_tokens": 16, "max_image_tokens": 64, "max_pixels_tolerance": 1.5,
        "encoder_patch_size": 8, "downsample_factor": 4, "use_thumbnail": false, "do_image_splitting": false, "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.4, 0.5, 0.6], "resample": 3, "do_pad": true, "size": null, "rescale_factor": 0.00392156862745098,
    }));
    let bicubic = |weights| Resampler { filter: Filter::Bicubic, weights };
    let expected = Lfm2Vl {
        tile_size: 256,
        min_tiles: 1,
        max_tiles: 6,
        min_image_tokens: 16,
        max_image_tokens: 64,
        max_pixels_tolerance: 1.5,
        patch_size: 8,
        downsample_factor: 4,
        use_thumbnail: false,
        do_image_splitting: false,
        mean: [0.1, 0.2, 0.3],
        std: [0.4, 0.5, 0.6],
        resampler: bicubic(Weights::Bits16),
    };
    assert_eq!(Lfm2Vl::from_config(&given), Ok(expected));
    let given = object(
        json!({"size": {"shortest_edge": 4096, "longest_edge": 1_048_576}, "patch_size": 14, "merge_size": 2, "max_pixels": 2048.0e3}),
    );
    let read = QwenVl::from_config(&given).unwrap();
    assert_eq!((read.min_pixels, read.max_pixels, read.patch_size, read.merge_size), (4096, 2_048_000, 14, 2));
    assert_eq!(QwenVl::paddle_ocr().with_config(&empty), Ok(QwenVl::paddle_ocr()));
    for given in [
        json!({ "min_pixels": 112_896, "max_pixels": 1_003_520 }),
        json!({ "size": { "min_pixels": 112_896, "max_pixels": 1_003_520 }, "min_pixels": null }),
        json!({ "size": { "shortest_edge": 112_896, "longest_edge": 1_003_520 } }),
        json!({ "size": { "shortest_edge": 1, "longest_edge": 2 }, "min_pixels": 112_896, "max_pixels": 1_003_520 }),
    ] {
        let read = QwenVl::paddle_ocr().with_config(&object(given.clone())).unwrap();
        assert_eq!((read.min_pixels, read.max_pixels, read.patch_size), (112_896, 1_003_520, 14), "{given}");
    }

    for (given, key) in [
        (json!({"tile_size": 500}), "tile_size"),
        (json!({"tile_size": "512"}), "tile_size"),
        (json!({"max_tiles": 1}), "max_tiles"),
        (json!({"max_image_tokens": 2.5}), "max_image_tokens"),
        (json!({"max_image_tokens": 4_294_967_295_u32, "min_image_tokens": 4_294_967_295_u32}), "max_image_tokens"),
        (json!({"resample": 0}), "resample"),
        (json!({"do_normalize": false}), "do_normalize"),
        (json!({"use_thumbnail": 1}), "use_thumbnail"),
        (json!({"image_std": [0.5, 0.5]}), "image_std"),
        (json!({"rescale_factor": 1.0}), "rescale_factor"),
        (json!({"max_pixels_tolerance": -1}), "max_pixels_tolerance"),
        (json!({"encoder_patch_size": 0}), "encoder_patch_size"),
    ] {
        let Err(Error::Config { key: named, .. }) = Lfm2Vl::from_config(&object(given.clone())) else {
            panic!("{given} was taken")
        };
        assert_eq!(named, key);
    }
    let error = Gemma4::from_config(&object(json!({"max_soft_tokens": 100}))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "max_soft_tokens of the preprocessor's configuration is 100, not one of [70, 140, 280, 560, 1120]"
    );
}

/// Settings that no published file has: without tiles, without a thumbnail, with a grid of one tile.
#[test]
fn other_settings() {
    let cut = |change: fn(&mut Lfm2Vl), width, height| {
        let mut family = Lfm2Vl::default();
        change(&mut family);
        Family::Lfm2Vl(family).cut(width, height).unwrap()
    };
    let places = |cut: &Cut| cut.crops.iter().map(|crop| crop.place).collect::<Vec<_>>();
    assert_eq!(places(&cut(|family| family.do_image_splitting = false, 3000, 2000)), [Place::Whole]);
    let without = cut(|family| family.use_thumbnail = false, 1200, 700);
    assert_eq!((without.crops.len(), without.canvases.len(), without.prompt_rows()), (6, 1, 6 * 256));
    let one = cut(|family| family.min_tiles = 1, 724, 724);
    assert_eq!((places(&one), one.tiles, one.prompt_rows()), (vec![Place::Whole], (0, 0), 256));
    let single = Idefics3 { do_image_splitting: false, ..Idefics3::default() };
    let single = Family::Idefics3(single).cut(300, 700).unwrap();
    assert_eq!((places(&single), single.tiles, single.prompt_rows()), (vec![Place::Whole], (0, 0), 64));
}

#[test]
fn a_picture_is_made_smaller_to_a_longest_side_and_never_larger() {
    for ((width, height), fits) in [
        ((1024, 768), (512, 384)),
        ((300, 2000), (77, 512)),
        ((512, 512), (512, 512)),
        ((9, 5), (9, 5)),
        ((5000, 1), (512, 1)),
    ] {
        let picture = Picture::new(vec![90; (width * height * 3) as usize], width, height).expect("a picture");
        let within = picture.within(512).expect("a smaller one");
        assert_eq!((within.width(), within.height()), fits);
        assert!(within.pixels().iter().all(|byte| *byte == 90), "one colour stays one");
        assert_eq!(within.key(), None);
        let named = Picture::new(vec![90; (width * height * 3) as usize], width, height).unwrap().with_key("a".into());
        let key = if (width, height) == fits { "a" } else { "a within 512" };
        assert_eq!(named.within(512).unwrap().key(), Some(key));
    }
}
