// Weights in blocks of 32 along K, row-major: block b = row * KB + kb. What a block looks like, and how it is decoded, is
// in the weight type's own file; what every one of them gives:
//   w4(b, j)          elements 4j..4j+3 of block b, j in 0..8
// for products with activations in floats (the kernel has x4(j), its activations 4j..4j+3 times x_factor(j)):
//   UNITS             pieces of a block, one load of 16 bytes each, which neighbouring invocations read
//   x_factor(j)       what activations 4j..4j+3 of a row are multiplied by beforehand
//   X, load_x(i)      the activations that meet piece i of a row
//   load_piece(i)     all that memory holds of piece i of all of wq
//   dot_piece(p, X)   its product with activations
//   w_pair(b, j)      elements 4j..4j+3 and 16+4j..16+4j+3 of block b, j in 0..4, as bytes, each PAIR_ZERO more than it is worth before scaling
//   quantized types have all of these by common/numbers.wgsl
// quantized types only:
//   w_i8(b, j)        elements 4j..4j+3 as signed int8 in a u32, before scaling
//   w_scales(b)       (scale of elements 0..15, scale of elements 16..31, min): value = scale * int8 - min; where has_min is "halves"
//                     (scales, mins), and w_tile(b) is what of_tile makes it of, in two words
//   w_bytes(b)        the whole block so: a struct of a and b, elements 0..15 and 16..31 (products of q8 only)
//   W, load_w(b)      all that memory holds of block b, so that many loads can be under way before the first is used
//   dot_w(w, xa, xb, xs)    its product with an int8 block of activations: xs = (scale, scale * sum of the int8)
{# Other templates ask for properties of a type, never for its name: {% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}, then
   type.has_min and so on. Each type's file sets
     units          pieces of 16 bytes that a block's numbers take in memory
     numbers        w_i8 and w_scales exist: the type is quantized
     own_w4         set where w4 is more than w_i8 times w_scales
     has_min        the third of w_scales counts; "halves": there is a fourth, the min of elements 16..31
     halves_scale   the second of w_scales differs from the first #}
@group(0) @binding(1) var<storage, read> wq: array<vec4<u32>>;
{# Halves are activations in floats too. #}
{% with act = "f32" if act | default("") == "f16" else act | default("") %}{% include "common/weight_" ~ weight ~ ".wgsl" %}{% endwith %}
