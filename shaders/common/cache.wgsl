// The cache of keys and values of decode attention in words, whatever its type. What each type's own file gives:
//   kc, vc                   the caches, [SLOTS][G][CAP][EP]: a key is read in eights of elements, a value in columns, an invocation's `columns` elements
//   Eight, load_k(i), store_k(i, k)     eight elements of a key
//   low(k), high(k)          its elements 0..3 and 4..7
//   Column, load_v(i), store_v(i, v)    a column of a value
//   part0(v), part1(v)       its elements, `pairs` a vector
//   append(at, x)            keeps elements at..at+3 of the row's own key (from 0 on) or value (from `width` on)
//   new_k(i), new_v(i)       the row's own key and value as the cache holds them, after append
//   earlier_k(row, kv_head, i), earlier_v(row, kv_head, i)    those of an earlier row of the step, made of qkv (common/earlier.wgsl)
{# And what templates ask of a type: {% import "common/cache_" ~ kv ~ ".wgsl" as cache_type with context %}
     eights      of a row of the cache, whose width is E padded to EP
     row         elements of kc's type of a row of the cache
     quantizes   append ends with quantize_appended(li, words), words being the row's fours, before new_k and new_v
     crowded     with the scales all storage buffers are taken #}
{% include "common/cache_" ~ kv ~ ".wgsl" %}
