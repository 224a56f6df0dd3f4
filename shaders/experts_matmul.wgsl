// y[s][n] = w[e][n] . x[t] (+ bias[e][n]) for the slots s of rows t that have chosen expert e, where this part holds it: as matmul, a tile of rows of one
// expert a workgroup, which `group` has listed: grid [ceil(N / {{ tile[0] }}), tiles]. An expert's matrix is read once for all rows of a tile.
{% extends "matmul.wgsl" %}
{% set experts = true %}
{% block output %}
override N: u32;             // rows of an expert
override USED: u32;          // experts that a row chooses
override FIRST: u32;         // first expert of this part
override COUNT: u32;         // experts of this part
override OF_SLOTS: u32;      // 1: x has a row for each slot, not for each row
override INTERLEAVED: u32 = 0u;   // 1: gates and up rows are neighbours in w and in the bias; y has all gates first
override SPAN_AT: u32 = 0u;       // 0: biases are in the order of rows; else only so many of an expert's rows (its gates) are in their order,
override UP_AT: u32 = 0u;         // and those of the next rows come from here on
@group(0) @binding(6) var<storage, read> bias: array<f32>;        // read where BIAS is 1
@group(0) @binding(7) var<storage, read> order: array<u32>;       // [T USED]: slots by experts
@group(0) @binding(8) var<storage, read> tiles: array<vec4<u32>>; // (expert, where in `order` its slots begin, how many, -)
var<private> expert: u32;
fn x_row(at: u32) -> u32 { return select(order[at] / USED, order[at], OF_SLOTS == 1u); }
{% endblock %}
{% block tile %}
    let rows = tiles[wid.y];
    if (n0 >= N || rows.z == 0u || rows.x < FIRST || rows.x - FIRST >= COUNT) { return; }
    expert = rows.x;
    let t0 = rows.y;
    let end = rows.y + rows.z;
    let base = (rows.x - FIRST) * N * KB;
{% endblock %}
{% block store %}
            if (BIAS == 1u) {
                let each = select(SPAN_AT, N, SPAN_AT == 0u);
                sum += bias[expert * each + column % each + column / each * UP_AT];
            }
            let to = select(column, column % 2u * (N / 2u) + column / 2u, INTERLEAVED == 1u);
            y[order[t] * NSTRIDE + to] = sum;
{% endblock %}
