{# The end of a product that leaves its 32 outputs of each row as int8: `v`, four of them, of row `t`, go to block `block` of yq and ys, for rows up to
   `last`. Eight neighbouring invocations hold a row; all of the workgroup do it, as shuffles need every invocation. #}
    var largest = largest4(v);
{{ largest_of("largest", 8) }}
    let d = largest / 127.0;
    let packed = quantize4(v, d);
    var total = total4(packed);
{{ sum("total", 8, "i32") }}
    if (t > last || t >= T) { return; }
    yq[block * 8u + li % 8u] = packed;
    if (li % 8u == 0u) { ys[block] = vec2<f32>(d, d * f32(total)); }
