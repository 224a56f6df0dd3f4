//! JSON text as Python's `json.dumps` writes it, which is how MaskBench feeds its instances.

use std::io;

use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        w.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        w.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

pub fn dumps(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    serde::Serialize::serialize(value, &mut Serializer::with_formatter(&mut out, Spaced)).unwrap();
    out
}
