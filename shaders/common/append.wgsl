{# What decode attention does before it needs the cache: the four queries of a workgroup, normed, rotated and scaled, into q; and where it
   appends, the row's own key, normed and rotated too, and its value into the cache. #}
    let turned = rotated_at(row);
    if (QK_NORM == 1u && sees_earlier) { weigh_rows(row, kv_head, li); }
    if (QK_NORM == 1u) {
        let source = select(head + part, H + (part - HEADS) * G + kv_head, part >= HEADS);
        weigh(row * QSTRIDE + source * E, part < heads || (part >= HEADS && part <= HEADS + V_NORM && APPENDS != 0u), li);
    }
    for (var i = li; i < (HEADS + 2u) * eights * 2u; i += THREADS) {
        let which = i / (eights * 2u);
        let four = i % (eights * 2u);
        let inside = four * 4u < E;
        let norm = norm_of(which);
        if (which < HEADS) {
            var x = vec4<f32>();
            if (inside && which < heads) { x = rotated4(row * QSTRIDE + (head + which) * E, turned, four, norm) * late4(four, 0u) * (SCALE * growth(turned)); }
            q[i] = x;
        } else if (appends) {
            var x = vec4<f32>();
            if (inside && which == HEADS) { x = rotated4(row * QSTRIDE + (H + kv_head) * E, turned, four, norm) * late4(four, {{ head_room }}u); }
            if (inside && which > HEADS) {
                let value = row * QSTRIDE + (H + G + kv_head) * E + four * 4u;
                x = vec4<f32>(qkv[value], qkv[value + 1u], qkv[value + 2u], qkv[value + 3u]) * norm.factor;
            }
            append((which - HEADS) * {{ width }}u + four * 4u, x);
        }
    }
    workgroupBarrier();
    if (appends) {
{% if cache_type.quantizes %}
        quantize_appended(li, eights * 2u);
        workgroupBarrier();
{% endif %}
        let own = cache + slot(pos, first_key, first_slot, cap);
        if (li < eights) { store_k(own * eights + li, new_k(li)); }
        if (part == 2u && li % 32u < row_columns) { store_v(own * row_columns + column, new_v(column)); }
    }
