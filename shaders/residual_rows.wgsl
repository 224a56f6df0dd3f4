// h[t][ROW0 + n] += sum over k of w[n][k] * x[t][k] for up to {{ tile[1] }} rows of the residual stream, as matvec_rows with ADD; and what products that read
// the norm of h need of it: int8 of h * nw, and sums of squares (common/open.wgsl). A workgroup makes a block of 32 of each row.
{% extends "matvec_rows.wgsl" %}
{% set opens = true %}
