//! Arguments in tags, as XML has them.

use serde_json::{Value, json};

use super::super::reader::Tool;
use super::schema::{described, is_free, kinds, refuse};
use super::writer::{Writer, literal, repeat, sequence, space, union};
use super::{Field, Fields, Plain};
use crate::error::Result;

/// How an argument is written.
pub struct Tags {
    /// What stands before a name, and after it.
    pub open: (&'static str, &'static str),
    /// What stands before a value, behind that and white space.
    pub value: &'static str,
    /// Behind the value.
    pub close: &'static str,
    /// Whether the tag says that a value is a string: ` string="true"` before its end.
    pub says: bool,
    /// What may stand around a text that would hold the closing tag.
    pub quote: Option<(&'static str, &'static str)>,
}

/// Names that a model may write where the schema gives none.
const NAME: &str = r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}";

/// What a tag says of a value.
const SAYS: [&str; 2] = [" string=\"true\"", " string=\"false\""];

impl Tags {
    pub const PARAMETERS: Self =
        Self { open: ("<parameter=", ">"), value: "", close: "</parameter>", says: false, quote: None };

    /// `name>` of `<function=name>`, the arguments, and `</function>`.
    pub fn function(&self, writer: &Writer<'_>, tool: &Tool) -> Result<Value> {
        let open = writer.text(&format!("{}>", tool.name));
        Ok(sequence([open, self.arguments(writer, tool)?, space(), writer.text("</function>")]))
    }

    /// All arguments of a tool, in the schema's order.
    pub fn arguments(&self, writer: &Writer<'_>, tool: &Tool) -> Result<Value> {
        let any = || {
            let name = sequence([writer.text(self.open.0), json!({ "regex": NAME })]);
            let opened = if self.says {
                union([self.opened(writer, SAYS[0]), self.opened(writer, SAYS[1])])
            } else {
                self.opened(writer, "")
            };
            repeat(sequence([space(), name, opened, writer.until(self.close)]), "", 0, None)
        };
        if writer.is_loose(tool) {
            return Ok(any());
        }
        let fields = Fields::of(tool)?;
        if fields.open { Ok(any()) } else { fields.in_order(|field| self.argument(writer, tool, field)) }
    }

    /// What stands between a name and its value.
    fn opened(&self, writer: &Writer<'_>, says: &str) -> Value {
        let end = self.open.1;
        let end =
            if self.says { writer.text(&format!("{}{says}>", end.trim_end_matches('>'))) } else { writer.text(end) };
        if self.value.is_empty() { end } else { sequence([end, space(), writer.text(self.value)]) }
    }

    fn argument(&self, writer: &Writer<'_>, tool: &Tool, field: &Field<'_>) -> Result<Value> {
        let name = field.name;
        if name.is_empty() || name.trim() != name || name.contains(['<', '>', '"', '\n', '&']) {
            return Err(refuse(tool, &field.pointer, "properties", "the name of an argument cannot stand in a tag"));
        }
        let open = |says: &str| sequence([space(), writer.text(self.open.0), literal(name), self.opened(writer, says)]);
        let kinds = kinds(field.schema, &tool.parameters);
        let free = is_free(field.schema);
        let mut ways = Vec::new();
        if kinds.string || free {
            let text = Plain::of(tool, field.schema, &field.pointer)?;
            let written = |end: &str, avoided| Plain::written(&text, writer, end, true, avoided);
            let opened = open(SAYS[0]);
            ways.push(match self.quote {
                None => sequence([opened, written(self.close, None)]),
                Some((before, behind)) => {
                    let quoted = sequence([writer.text(before), written(behind, None), writer.text(self.close)]);
                    sequence([opened, union([quoted, written(self.close, Some(before))])])
                }
            });
        }
        // Where the tag does not say so, what may be a string is read as one.
        if ways.is_empty() || self.says && (free || kinds.other()) {
            let value = if free { json!({ "schema": true }) } else { described(field.schema, &tool.parameters) };
            ways.push(sequence([open(SAYS[1]), space(), value, space(), writer.text(self.close)]));
        }
        Ok(union(ways))
    }
}
