// Files for the documents page: small ones, made here.

/** A PDF file with these pages, each a list of lines: text, and the size of its letters. Without lines a page is a grey picture, as a scanner makes it. */
export function pdf(pages: readonly (readonly [text: string, size: number][])[], { encrypted = false } = {}): Buffer {
  const objects: string[] = [];
  const add = (body: string): number => objects.push(body);
  const kids = pages.map((_, i) => `${3 + 2 * i} 0 R`).join(' ');
  const font = 3 + 2 * pages.length;
  add('<< /Type /Catalog /Pages 2 0 R >>');
  add(`<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`);
  for (const [i, lines] of pages.entries()) {
    let y = 800;
    const shown = lines.map(([text, size]) => {
      y -= size * 1.2;
      // An empty line is the room between two paragraphs.
      return `BT /F1 ${size} Tf 60 ${y.toFixed(1)} Td (${text.replace(/[()\\]/g, '\\$&')}) Tj ET`;
    });
    const content = shown.length > 0 ? shown.join('\n') : '0.8 g 60 60 475 700 re f';
    add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${4 + 2 * i} 0 R /Resources << /Font << /F1 ${font} 0 R >> >> >>`,
    );
    add(`<< /Length ${content.length} >>\nstream\n${content}\nendstream`);
  }
  add('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>');
  // No password opens it: the hashes are arbitrary.
  if (encrypted) add(`<< /Filter /Standard /V 1 /R 2 /P -4 /O <${'ab'.repeat(32)}> /U <${'cd'.repeat(32)}> >>`);
  return assembled(objects, encrypted);
}

/** A page whose character map is not embedded, as in many Japanese files. */
export const JAPANESE = assembled([
  '<< /Type /Catalog /Pages 2 0 R >>',
  '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
  '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
  '<< /Length 52 >>\nstream\nBT /F1 12 Tf 60 700 Td <6C348ECA306F5DDD306B3042308B> Tj ET\nendstream',
  '<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /UniJIS-UCS2-H /DescendantFonts [6 0 R] >>',
  '<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /FontDescriptor 7 0 R >>',
  '<< /Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 /FontBBox [0 -120 1000 880] /ItalicAngle 0 /Ascent 880 /Descent -120 /CapHeight 700 /StemV 80 >>',
]);

function assembled(objects: readonly string[], encrypted = false): Buffer {
  let text = '%PDF-1.4\n';
  const places = objects.map((body, i) => {
    const at = text.length;
    text += `${i + 1} 0 obj\n${body}\nendobj\n`;
    return at;
  });
  const xref = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`;
  text += places.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`).join('');
  const more = encrypted ? ` /Encrypt ${objects.length} 0 R /ID [<${'00'.repeat(16)}> <${'00'.repeat(16)}>]` : '';
  text += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R${more} >>\nstartxref\n${xref}\n%%EOF\n`;
  return Buffer.from(text, 'latin1');
}

/** A report of three pages; the second one says how much the bridge may carry. */
export const REPORT = pdf([
  [
    ['Report on the bridge', 20],
    ['', 11],
    ['The bridge across the Lorne was looked at on the third of May by two engineers', 11],
    ['of the county, who were given the keys by the harbour mas-', 11],
    ['ter. The railing is loose on the northern side.', 11],
    ['1', 9],
  ],
  [
    ['Load', 16],
    ['', 11],
    ['Lorries of up to twelve tonnes may cross the bridge, one at a time and at walking', 11],
    ['pace. Heavier ones have to take the road by the quarry.', 11],
    ['2', 9],
  ],
  [
    ['Paint', 16],
    ['', 11],
    ['The paint of the arches is from 1998 and has to be renewed within two years, before', 11],
    ['rust gets below the plates.', 11],
    ['3', 9],
  ],
]);

export const NOTES = `Notes of the gardener

The roses along the southern wall are cut in March, when the forsythia is in bloom. Use the long gloves.

Slugs are collected in the evening. Beer traps did not help last year, copper bands did.

The key of the greenhouse lies below the third flower pot.
`;

/** An HTML page with parts that must neither run nor be read. */
export const PAGE = `<!doctype html><html><head><title>Lighthouse</title><script>globalThis.broken = true</script></head><body>
<nav><a href="x">Home of everything</a></nav><img src="missing.png" onerror="globalThis.broken = true">
<h1>The lighthouse</h1><p>The lamp of the lighthouse was lit with <b>rape oil</b> until 1921, with electric current since.</p>
<script>document.body.textContent = 'gone'</script><div hidden>secret words</div>
<h2>Signal</h2><table><tr><th>Light</th><th>Every</th></tr><tr><td>two flashes</td><td>fifteen seconds</td></tr></table>
<pre>  north
    south</pre></body></html>`;
