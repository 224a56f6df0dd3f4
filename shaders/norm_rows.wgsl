// y[t][ROW0 + n] = sum over k of w[n][k] * norm(h[t])[k] (+ bias[n]) for up to {{ tile[1] }} rows of the residual stream, normed here: matvec_rows.
{% extends "matvec_rows.wgsl" %}
{% set normed = true %}
